//! How far a migration has come, as its row in `_sqlx_migrations` says.

use sqlx::{Executor as _, MySqlConnection};

use crate::StoreError;

/// The value that versions before this record wrote while a migration was under way.
const NOT_SAID: i64 = -1;

/// How far an unfinished migration has come. Its row has it as a negative `execution_time`, a column that a finished
/// migration fills with its nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// An earlier version of this program began it: any of its statements may be done.
    Unknown,
    /// So many of its statements are done.
    Done {
        statements: usize,
        /// Whether the next one was sent. Without its answer, it may be done too.
        is_next_in_doubt: bool,
    },
}

impl Progress {
    /// Nothing is done.
    pub(super) const NONE: Self = Self::Done { statements: 0, is_next_in_doubt: false };

    pub(super) fn encode(self) -> i64 {
        match self {
            Self::Unknown => NOT_SAID,
            Self::Done { statements, is_next_in_doubt } => {
                let statements = i64::try_from(statements).unwrap_or(i64::from(i32::MAX));
                NOT_SAID - 1 - 2 * statements - i64::from(is_next_in_doubt)
            }
        }
    }

    pub(super) fn decode(execution_time: i64) -> Self {
        match usize::try_from(NOT_SAID - 1 - execution_time) {
            Ok(said) => Self::Done { statements: said / 2, is_next_in_doubt: said % 2 == 1 },
            Err(_) => Self::Unknown,
        }
    }

    /// The number of statements that need no look.
    pub(super) fn statements(self) -> usize {
        match self {
            Self::Unknown => 0,
            Self::Done { statements, .. } => statements,
        }
    }

    /// Whether this statement, which is not known to be done, may be.
    pub(super) fn is_in_doubt(self, statement: usize) -> bool {
        match self {
            Self::Unknown => true,
            Self::Done { statements, is_next_in_doubt } => {
                is_next_in_doubt && statement == statements
            }
        }
    }

    /// Writes it into a migration's row. One of which nothing is known stays so until its end: the doubt is about all its
    /// statements.
    pub(super) async fn write(
        self,
        connection: &mut MySqlConnection,
        version: i64,
    ) -> Result<(), StoreError> {
        let update = "update _sqlx_migrations set execution_time = ? where version = ?";
        let update = sqlx::query(update).bind(self.encode()).bind(version);
        let written = connection.execute(update).await;
        written.map(drop).map_err(StoreError::query("record how far a migration is"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_how_far_its_migration_is() {
        for progress in [
            Progress::Unknown,
            Progress::NONE,
            Progress::Done { statements: 0, is_next_in_doubt: true },
            Progress::Done { statements: 7, is_next_in_doubt: false },
            Progress::Done { statements: 7, is_next_in_doubt: true },
        ] {
            assert!(progress.encode() < 0, "{progress:?}");
            assert_eq!(Progress::decode(progress.encode()), progress);
        }
        assert_eq!(Progress::decode(-1), Progress::Unknown, "as earlier versions wrote it");
    }

    #[test]
    fn only_a_statement_that_was_sent_without_an_answer_is_in_doubt() {
        let sent = Progress::Done { statements: 2, is_next_in_doubt: true };
        assert_eq!([1, 2, 3].map(|statement| sent.is_in_doubt(statement)), [false, true, false]);
        assert!(!Progress::NONE.is_in_doubt(0));
        assert!(Progress::Unknown.is_in_doubt(5));
    }
}
