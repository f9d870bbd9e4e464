//! Applies to a gate the movements in MySQL that it does not contain yet, in order: stock, freed numbers and lapses.
//!
//! The process that makes a movement does this at once. The consumer of the movements' topic does it again, and so do
//! the keeper's checks and each rebuild, for movements made while it was loading. Each movement takes effect once,
//! however often it is applied.

use coupon::TemplateId;
use mysql_store::{MySqlConnection, connect, stock::MovementPages};
use redis_gate::{Gate, Meta, Moved};
use tracing::info;

use crate::gate::rebuild::RebuildError;

/// How often the gate is reread because its epoch changed meanwhile. Rebuilds do not follow each other faster, and each
/// contains all earlier movements.
const EPOCHS_MAX: u32 = 4;

/// Applies the movements that the gate of `template` does not contain. Without an open gate there is nothing to do: the
/// gate reads the stock when it is loaded.
///
/// # Errors
/// MySQL or the gate failed; the keeper tries again. A movement is missing or cannot be read: the keeper rebuilds the
/// gate.
pub async fn catch_up(
    connection: &mut MySqlConnection,
    gate: &Gate,
    template: TemplateId,
) -> Result<(), RebuildError> {
    let mut round = Round::CaughtUp;
    for _ in 0..EPOCHS_MAX {
        let meta = gate.meta(template).await?;
        let Some(meta) = meta.filter(Meta::is_open) else { return Ok(()) };
        round = apply_all(connection, gate, template, &meta).await?;
        if round == Round::CaughtUp {
            return Ok(());
        }
    }
    if round == Round::Gap { Err(RebuildError::MovementMissing) } else { Ok(()) }
}

/// How one pass over the movements ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Round {
    CaughtUp,
    /// The gate has another epoch by now.
    OtherEpoch,
    /// The gate lacks a movement before the given ones.
    Gap,
}

async fn apply_all(
    connection: &mut MySqlConnection,
    gate: &Gate,
    template: TemplateId,
    meta: &Meta,
) -> Result<Round, RebuildError> {
    let mut pages = MovementPages::after(template, meta.movement);
    while let Some(page) = connect::within(pages.next(connection)).await? {
        for movement in page {
            let seq = movement.seq;
            let delta = movement.delta_stock;
            let returned = &movement.returned;
            let moved = gate.apply_movement(template, meta.epoch, seq, delta, returned);
            match moved.await? {
                Moved::Applied(left) => {
                    info!(template.id = %template, seq, delta, left, "moved a gate's stock");
                }
                Moved::Already => {}
                Moved::Gap(_) => return Ok(Round::Gap),
                Moved::NotLoaded | Moved::OtherEpoch(_) => return Ok(Round::OtherEpoch),
            }
        }
    }
    Ok(Round::CaughtUp)
}
