//! What may end a hold.

/// Coupons of one claim, by their position in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    All,
    First,
    Second,
}

/// A request to confirm, which is all or nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Payment {
    pub claim: u8,
    pub part: Part,
    /// `payment_ref`
    pub reference: u8,
}

/// A request to cancel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cancel {
    pub claim: u8,
    pub part: Part,
    pub by: By,
}

/// Who cancels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// Cancels held coupons only.
    User,
    /// Cancels held and confirmed coupons.
    Merchant,
}

impl Part {
    pub(in crate::claim) fn has(self, position: usize) -> bool {
        match self {
            Self::All => true,
            Self::First => position == 0,
            Self::Second => position == 1,
        }
    }
}
