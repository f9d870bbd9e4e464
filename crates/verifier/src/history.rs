//! The clients' side of the story: what they asked for and what they were answered. A file of it has one
//! JSON record a line, in no order.

use std::{
    collections::{BTreeSet, HashMap},
    fs::File,
    io::{BufRead, BufReader, BufWriter, Write},
    path::Path,
};

use coupon::{ClaimId, CouponId, TemplateId, UserId};
use serde::{Deserialize, Serialize};

use crate::VerifyError;

/// One request to claim, and its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Of which template.
    pub template: TemplateId,
    /// Who.
    pub user: UserId,
    /// The idempotency key sent; absent: none was.
    pub key: Option<String>,
    /// How many coupons.
    pub quantity: u32,
    /// When it was sent, in milliseconds since 1970.
    pub sent_at_ms: i64,
    /// The status answered; absent: unknown, the request timed out or its connection broke.
    pub status: Option<u16>,
    /// The problem's code, where the answer is a refusal.
    pub code: Option<String>,
    /// Whether the server called it a replay.
    #[serde(default)]
    pub replayed: bool,
    /// The body of a 201, byte for byte.
    pub body: Option<String>,
}

/// All records of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    /// In no order.
    pub records: Vec<Record>,
}

/// What a 201 promised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Promise {
    pub(crate) claim: ClaimId,
    pub(crate) coupons: Vec<CouponId>,
}

/// Who asks, for which template, under which key: the scope of idempotency.
pub(crate) type Key<'a> = (TemplateId, UserId, &'a str);

impl Record {
    /// Whether coupons were promised.
    pub fn is_landed(&self) -> bool {
        self.status == Some(201)
    }

    /// Whether the answer says for good that this request made nothing: a client error, but not "not
    /// now" (408, 425, 429) and not "still running".
    pub fn is_refused(&self) -> bool {
        let final_status =
            matches!(self.status, Some(400..=499)) && !matches!(self.status, Some(408 | 425 | 429));
        final_status && self.code.as_deref() != Some("REQUEST_IN_PROGRESS")
    }

    /// The key as the server stores it: `*` where none was sent.
    pub(crate) fn scope(&self) -> Key<'_> {
        (self.template, self.user, self.key.as_deref().unwrap_or("*"))
    }

    /// What the body of a 201 promises; absent if it cannot be read.
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

    /// Writes it to a file.
    ///
    /// # Errors
    /// The file cannot be written.
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

    /// The templates that were asked for.
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
