//! A claim that was answered 202: where to poll it, and how it ends.

use coupon::{ClaimId, TemplateId, UserId};
use serde::Deserialize;

use crate::Answer;

/// The code of an admission that was lost with its gate. Nothing landed or ever will, so the same key may be sent again.
const LOST: &str = "ADMISSION_LOST";

/// A claim that was answered 202.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    pub template: TemplateId,
    pub user: UserId,
    /// The idempotency key, if one was sent.
    pub key: Option<String>,
    /// The number of coupons requested.
    pub quantity: u32,
    pub id: ClaimId,
    /// Where it is polled: path and query, with its receipt.
    pub location: String,
    /// Claims before it in the queue, if known.
    pub position: Option<u64>,
    /// The server's estimate of the time until it ends, if there is one.
    pub estimated_ms: Option<u64>,
    /// Whether the server marked the answer as a replay.
    pub replayed: bool,
    /// How it ended; `None` if it was not followed, or not for long enough.
    pub fate: Option<Fate>,
}

/// What a poll of an accepted claim shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    Processing {
        /// Claims before it in the queue, if known.
        position: Option<u64>,
        /// The server's estimate of the time until it ends, if there is one.
        estimated_ms: Option<u64>,
    },
    Succeeded {
        /// The body that a direct claim's 201 has, byte for byte.
        body: String,
    },
    /// Final: nothing landed or ever will.
    Rejected { code: String },
    /// Nothing landed, and the same key may be sent again.
    Lost,
}

impl Fate {
    /// Whether it can change no more.
    pub fn is_end(&self) -> bool {
        !matches!(self, Self::Processing { .. })
    }
}

/// The bodies of a 202 and of a poll.
#[derive(Deserialize)]
struct Body {
    status: String,
    id: Option<ClaimId>,
    position: Option<u64>,
    estimated_ms: Option<u64>,
    code: Option<String>,
}

impl Accepted {
    /// Reads the 202 to a claim; `None` if the answer is another, or lacks what a 202 has.
    pub fn read(
        answer: &Answer,
        template: TemplateId,
        user: UserId,
        key: Option<&str>,
        quantity: u32,
    ) -> Option<Self> {
        if answer.status != 202 {
            return None;
        }
        let Body { id, position, estimated_ms, .. } = answer.json().ok()?;
        Some(Self {
            template,
            user,
            key: key.map(str::to_owned),
            quantity,
            id: id?,
            location: answer.location.clone()?,
            position,
            estimated_ms,
            replayed: answer.replayed,
            fate: None,
        })
    }

    /// Where its events are: path and query.
    pub fn events(&self) -> String {
        self.location.replacen('?', "/events?", 1)
    }
}

impl Answer {
    /// What a poll of an accepted claim shows; `None` if the answer says nothing about the claim.
    pub fn fate(&self) -> Option<Fate> {
        if !matches!(self.status, 200 | 202) {
            return None;
        }
        Fate::read(&self.body)
    }
}

impl Fate {
    /// Reads the body of a poll, or the data of an event.
    pub fn read(text: &str) -> Option<Self> {
        let Body { status, position, estimated_ms, code, .. } = serde_json::from_str(text).ok()?;
        match status.as_str() {
            "processing" => Some(Self::Processing { position, estimated_ms }),
            "succeeded" | "landed" => {
                // The exact bytes count, so they are cut out, not serialized again.
                let (_, claim) = text.split_once("\"claim\":")?;
                Some(Self::Succeeded { body: claim.strip_suffix('}')?.to_owned() })
            }
            "rejected" => match code? {
                code if code == LOST => Some(Self::Lost),
                code => Some(Self::Rejected { code }),
            },
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bodies_of_looks_are_read() {
        let claim = r#"{"id":"7","coupons":[{"id":"8"}]}"#;
        let succeeded = format!(r#"{{"id":"7","status":"succeeded","claim":{claim}}}"#);
        assert_eq!(Fate::read(&succeeded), Some(Fate::Succeeded { body: claim.to_owned() }));
        let processing = r#"{"id":"7","status":"processing","position":3,"estimated_ms":null}"#;
        let waits = Fate::Processing { position: Some(3), estimated_ms: None };
        assert_eq!(Fate::read(processing), Some(waits));
        let rejected =
            |code: &str| Fate::read(&format!(r#"{{"status":"rejected","code":"{code}"}}"#));
        assert_eq!(rejected("SOLD_OUT"), Some(Fate::Rejected { code: "SOLD_OUT".to_owned() }));
        assert_eq!(rejected("ADMISSION_LOST"), Some(Fate::Lost));
        assert_eq!(Fate::read(r#"{"status":"on its way"}"#), None);
    }
}
