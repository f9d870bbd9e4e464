//! Codes of states and kinds, as their columns hold them.

use coupon::{
    AcceptAfter, ClaimMode, ClaimState, CouponStatus, DiscountKind, FindingKind, FindingState,
    JobState, MoveState, Open, RejectReason, ReturnedStock, RowOutcome, Scopes, TemplateState,
    UnknownCode,
};
use sqlx::{Row, mysql::MySqlRow};

/// A code column: a `tinyint` from 0 to 127.
#[derive(Debug, Clone, Copy, sqlx::Type)]
#[sqlx(transparent)]
pub(crate) struct Code(i8);

impl Code {
    /// Converts it with `from_code`.
    pub(crate) fn read<T>(
        self,
        from_code: impl FnOnce(u8) -> Result<T, UnknownCode>,
    ) -> Result<T, UnknownCode> {
        // No type has a code above 127, so a negative number is as unknown as any other.
        from_code(self.0.cast_unsigned())
    }
}

macro_rules! held_as_code {
    ($($name:ident),+) => {$(
        impl TryFrom<Code> for $name {
            type Error = UnknownCode;

            fn try_from(code: Code) -> Result<Self, UnknownCode> {
                code.read(Self::from_code)
            }
        }
    )+};
}

held_as_code!(
    AcceptAfter,
    ClaimMode,
    ClaimState,
    CouponStatus,
    DiscountKind,
    FindingKind,
    FindingState,
    JobState,
    MoveState,
    Open,
    RejectReason,
    ReturnedStock,
    RowOutcome,
    Scopes,
    TemplateState
);

/// Reads a code column, for rows that are read column by column.
pub(crate) fn code_of<T>(row: &MySqlRow, column: &str) -> Result<T, sqlx::Error>
where
    T: TryFrom<Code, Error = UnknownCode>,
{
    let code: Code = row.try_get(column)?;
    T::try_from(code).map_err(|error| sqlx::Error::ColumnDecode {
        index: column.to_owned(),
        source: error.into(),
    })
}
