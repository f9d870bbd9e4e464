//! The lander's decision about a direct claim, made by the product's own table ([`coupon::decide`]).

use chrono::DateTime;
use coupon::{
    Admission, Claim, ClaimId, ClaimRow, ClaimState, Decision, Epoch, FoundRows, LandingMode, Open,
    PayloadHash, RequestId, StockRow, TemplateId, TemplateState, UserId, decide,
};

/// The number of each modelled admission. Rows say only whether it is taken.
const NUMBER: u8 = 1;

/// An admission, and what the reread found for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reread {
    pub(crate) id: u8,
    pub(crate) user: u8,
    pub(crate) quantity: u8,
    /// The admission's epoch.
    pub(crate) epoch: u8,
    /// The admission that landed under the key.
    pub(crate) landed: Option<u8>,
    pub(crate) fenced: bool,
    pub(crate) number_taken: bool,
    pub(crate) stock: Stock,
}

/// The stock row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stock {
    pub(crate) epoch: u8,
    pub(crate) open: bool,
    pub(crate) left: i16,
}

/// Decides how the admission continues.
pub(crate) fn decide_direct(reread: Reread) -> Decision {
    let Reread { id, user, quantity, epoch, landed, fenced, number_taken, stock } = reread;
    let found = FoundRows {
        by_key: landed.map(|id| ClaimRow { id: ClaimId(id.into()), state: ClaimState::Landed }),
        fenced,
        taken: if number_taken { vec![NUMBER] } else { Vec::new() },
        limit: 0,
        stock: Some(StockRow {
            epoch: Epoch(stock.epoch.into()),
            queued_epoch: Epoch::UNKNOWN,
            open: if stock.open { Open::All } else { Open::Nothing },
            stock: stock.left.into(),
        }),
        template_state: TemplateState::Published,
    };
    let claim = Claim {
        id: ClaimId(id.into()),
        template_id: TemplateId(1),
        user_id: UserId(user.into()),
        request_id: RequestId::absent(),
        payload_hash: payload_hash(quantity),
        quantity: quantity.into(),
        claimed_at: DateTime::UNIX_EPOCH,
        trace_parent: None,
    };
    let admission = Admission { claim, epoch: Epoch(epoch.into()), numbers: vec![NUMBER] };
    decide(LandingMode::Direct, &admission, &found)
}

/// A stand-in that differs for each quantity; the real hash would take most of the search's time.
fn payload_hash(quantity: u8) -> PayloadHash {
    PayloadHash([quantity; 16])
}
