//! The clients' record of a run: their requests and the answers. In a file it has one JSON record per line, in any
//! order.

use std::{
    collections::{BTreeSet, HashMap},
    fs::File,
    io::{BufRead, BufReader, BufWriter, Write},
    path::Path,
};

use coupon::{ClaimId, CouponId, TemplateId, UserId};
use serde::{Deserialize, Serialize};

use crate::VerifyError;

/// One claim request and its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub template: TemplateId,
    pub user: UserId,
    /// The idempotency key, if one was sent.
    pub key: Option<String>,
    /// The number of coupons requested.
    pub quantity: u32,
    /// When the request was sent, in milliseconds since 1970.
    pub sent_at_ms: i64,
    /// The status of the answer. `None` means unknown: the request timed out or its connection broke.
    pub status: Option<u16>,
    /// The problem's code, if the answer is a refusal.
    pub code: Option<String>,
    /// Whether the server marked the answer as a replay.
    #[serde(default)]
    pub replayed: bool,
    /// The body of a 201, byte for byte.
    pub body: Option<String>,
}

/// All records of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    /// In any order.
    pub records: Vec<Record>,
}

/// The content of a 201.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Promise {
    pub(crate) claim: ClaimId,
    pub(crate) coupons: Vec<CouponId>,
}

/// The scope of idempotency: template, user and key.
pub(crate) type Key<'a> = (TemplateId, UserId, &'a str);

impl Record {
    /// Whether coupons were promised.
    pub fn is_landed(&self) -> bool {
        self.status == Some(201)
    }

    /// Whether the answer leaves the outcome to a later one: the claim waits in a queue.
    pub fn is_accepted(&self) -> bool {
        self.status == Some(202)
    }

    /// Whether the answer is a final refusal, so that this request created nothing: a client error other than "not now"
    /// (408, 425, 429) or "still running".
    pub fn is_refused(&self) -> bool {
        let final_status =
            matches!(self.status, Some(400..=499)) && !matches!(self.status, Some(408 | 425 | 429));
        final_status && self.code.as_deref() != Some("REQUEST_IN_PROGRESS")
    }

    /// The scope with the key as the server stores it: `*` if none was sent.
    pub(crate) fn scope(&self) -> Key<'_> {
        (self.template, self.user, self.key.as_deref().unwrap_or("*"))
    }

    /// The promise in the body of a 201; `None` if it cannot be read.
    pub(crate) fn promise(&self) -> Option<Promise> {
        #[derive(Deserialize)]
        struct Body {
            id: ClaimId,
            coupons: Vec<Coupon>,
        }
        #[derive(Deserialize)]
        struct Coupon {
            id: CouponId,
        }
        let body: Body = serde_json::from_str(self.body.as_deref()?).ok()?;
        let coupons = body.coupons.into_iter().map(|coupon| coupon.id).collect();
        Some(Promise { claim: body.id, coupons })
    }
}

impl History {
    /// Reads a file of records.
    ///
    /// # Errors
    /// The file cannot be read, or a line is not a record.
    pub fn read(path: &Path) -> Result<Self, VerifyError> {
        let failed =
            |source| VerifyError::HistoryFile { operation: "read", path: path.to_owned(), source };
        let file = BufReader::new(File::open(path).map_err(failed)?);
        let mut records = Vec::new();
        for (index, line) in file.lines().enumerate() {
            let record = serde_json::from_str(&line.map_err(failed)?).map_err(|source| {
                VerifyError::HistoryLine { path: path.to_owned(), line: index + 1, source }
            })?;
            records.push(record);
        }
        Ok(Self { records })
    }

    /// Writes the records to a file.
    pub fn write(&self, path: &Path) -> Result<(), VerifyError> {
        let failed =
            |source| VerifyError::HistoryFile { operation: "write", path: path.to_owned(), source };
        let mut file = BufWriter::new(File::create(path).map_err(failed)?);
        for record in &self.records {
            serde_json::to_writer(&mut file, record).map_err(|error| failed(error.into()))?;
            file.write_all(b"\n").map_err(failed)?;
        }
        file.flush().map_err(failed)
    }

    /// The templates that were claimed from.
    pub fn templates(&self) -> BTreeSet<TemplateId> {
        self.records.iter().map(|record| record.template).collect()
    }

    /// Records by the scope of their key.
    pub(crate) fn by_key(&self) -> HashMap<Key<'_>, Vec<&Record>> {
        let mut by_key: HashMap<_, Vec<_>> = HashMap::new();
        for record in &self.records {
            by_key.entry(record.scope()).or_default().push(record);
        }
        by_key
    }
}
