//! Promises about refusals from memory.

use std::fmt;

use super::{Claim, LEASE, SoldOut, State};

/// A promise to a user whose claim an api refuses without asking the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Promise {
    /// No api tells a user who was answered 201 that the template is sold out.
    AnsweredIsNotRefused,
    /// The gate would have refused the user at some moment within the last lease. So every api sees a change at the
    /// gate, for this user or for all, within a lease.
    AsTheGateDid,
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AnsweredIsNotRefused => "a user who was answered 201 is refused from memory",
            Self::AsTheGateDid => {
                "refused from memory, and for longer than a lease not by the gate"
            }
        })
    }
}

impl SoldOut {
    pub(super) fn broken_in(&self, state: &State) -> Option<Promise> {
        for api in &state.apis {
            for user in (0..self.bounds.users).filter(|user| api.refuses(*user)) {
                if state.claims[user] == Claim::Answered {
                    return Some(Promise::AnsweredIsNotRefused);
                }
                if state.since[user] >= LEASE {
                    return Some(Promise::AsTheGateDid);
                }
            }
        }
        None
    }
}
