//! Reads gates without changing them: for the resolver, the keeper, the stock report and the verifier.

use std::{
    collections::{BTreeSet, HashMap},
    ops::RangeInclusive,
};

use coupon::{ClaimMode, Epoch, TemplateId, TemplateState, limit};
use futures::future::join_all;

use crate::{Gate, GateError, Run, connection::Live, keys::Keys, verdict::read_number};

/// Keys or members per SCAN step: a fraction of a millisecond, so that claims hardly wait.
pub(crate) const SCAN_KEYS: usize = 1000;

/// Beyond this, and below its negative, the scripts' numbers are not exact.
const EXACT: i64 = (1 << 53) - 1;

/// The numeric fields of an open gate, and the values that each may have.
const NUMBERS: [(&str, RangeInclusive<i64>); 8] = [
    ("epoch", 0..=EXACT),
    ("users", 0..=EXACT),
    ("version", 0..=EXACT),
    ("starts", -EXACT..=EXACT),
    ("ends", -EXACT..=EXACT),
    // An entry keeps each number as one byte.
    ("limit", 0..=255),
    // Below zero after a cut.
    ("stock", -limit::STOCK_MAX..=limit::STOCK_MAX),
    ("movement", 0..=EXACT),
];

/// Fields that every gate has, also while it is loading.
const OF_EACH: [&str; 3] = ["phase", "epoch", "users"];

/// What a gate knows about its template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meta {
    pub phase: Phase,
    pub epoch: Epoch,
    /// The run of the server that has it.
    pub run: Run,
    /// Whether that run loaded it.
    pub of_this_run: bool,
    /// Number of entries that there must be.
    pub users: u64,
    /// Stock left; 0 while loading.
    pub stock: i64,
    /// Number of the last movement that the stock contains.
    pub movement: i64,
    /// Version of the template.
    pub version: i64,
    /// The template's state, as a word.
    pub state: String,
    /// Whether admissions are landed at once or queued; direct in a gate without a mode.
    pub mode: ClaimMode,
    /// Start and end of the claim window, in milliseconds since 1970.
    pub window_ms: (i64, i64),
    /// Most coupons per user; 0: no limit.
    pub limit: i64,
    /// Lapses after which a user is refused; 0: never, and in a gate of an older version.
    pub lapses_allowed: i64,
    /// A pause that was made at the gate, as its author wrote it.
    pub halt: Option<Vec<u8>>,
    /// Fields that hold what no script writes, or that are missing: their names and what they hold.
    pub odd: Vec<String>,
    /// What cannot be read in the gate: for an entry, its user; in meta itself, the first such field. Only a new epoch
    /// repairs it.
    pub unreadable: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Loading,
    /// Open for claims, whatever the template's state.
    Open,
}

/// How much a gate holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// Admissions in flight or queued.
    pub admissions: u64,
    /// Those of them that are queued.
    pub queued: u64,
    /// Users with an entry. A gate without damage has as many as [`Meta::users`].
    pub users: u64,
}

impl Meta {
    /// Returns whether the gate decides claims: it is open, and the current run of Redis loaded it.
    pub fn is_open(&self) -> bool {
        self.phase == Phase::Open && self.of_this_run
    }
}

/// The fields of a hash, as stored in Redis: names and values need not be text.
pub(crate) type RawFields = HashMap<Vec<u8>, Vec<u8>>;

impl Gate {
    /// Reads what the gate of `template` knows; `None` if there is no gate.
    ///
    /// # Errors
    /// No answer, or a key of another type ([`GateError::is_of_keys`]).
    pub async fn meta(&self, template: TemplateId) -> Result<Option<Meta>, GateError> {
        let live = self.live(template).await?;
        let result = redis::cmd("HGETALL")
            .arg(self.keys(template).meta())
            .query_async(&mut live.connection.clone())
            .await;
        let fields: RawFields = live.checked("meta", result).await?;
        if fields.is_empty() {
            return Ok(None);
        }
        Ok(Some(read_meta(&fields, &live.run)))
    }

    /// Lists the templates that have a gate on a server that answers, in any phase and of any run. Scans all keys of
    /// Redis: up to five for each gate, however many users it has.
    pub async fn templates(&self) -> Result<BTreeSet<TemplateId>, GateError> {
        self.scan("meta", None, |key| Keys::of_meta(self.prefix(), key)).await
    }

    /// Lists every epoch of every template that has users, in-flight or queued entries on a server that answers.
    pub(crate) async fn epochs(&self) -> Result<BTreeSet<(TemplateId, Epoch)>, GateError> {
        self.scan("*", None, |key| Keys::of_epoch(self.prefix(), key)).await
    }

    /// Lists what `read` finds in the names of all keys of this part and, if given, of this type. Servers that are away
    /// are left out.
    ///
    /// # Errors
    /// No server answers.
    pub(crate) async fn scan<T: Ord>(
        &self,
        part: &str,
        kind: Option<&str>,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<BTreeSet<T>, GateError> {
        let servers = self.redis.live_each().await.into_iter();
        let scans = servers.map(async |(_, live)| self.scan_one(&live?, part, kind, &read).await);
        let mut found = None;
        let mut failed = None;
        for scanned in join_all(scans).await {
            match scanned {
                Ok(of_one) => found.get_or_insert_with(BTreeSet::new).extend(of_one),
                Err(error) => failed = Some(error),
            }
        }
        found.ok_or_else(|| failed.unwrap_or(GateError::Unreachable { source: None }))
    }

    async fn scan_one<T>(
        &self,
        live: &Live,
        part: &str,
        kind: Option<&str>,
        read: &impl Fn(&str) -> Option<T>,
    ) -> Result<Vec<T>, GateError> {
        let pattern = Keys::pattern(self.prefix(), part);
        let mut found = Vec::new();
        let mut cursor = 0_u64;
        loop {
            let mut scan = redis::cmd("SCAN");
            scan.arg(cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(SCAN_KEYS);
            if let Some(kind) = kind {
                scan.arg("TYPE").arg(kind);
            }
            let result = scan.query_async(&mut live.connection.clone()).await;
            let (next, keys): (u64, Vec<Vec<u8>>) = live.checked("scan", result).await?;
            // All our keys are text.
            let names = keys.iter().filter_map(|key| std::str::from_utf8(key).ok());
            found.extend(names.filter_map(read));
            if next == 0 {
                return Ok(found);
            }
            cursor = next;
        }
    }

    /// Reads what the gate of `template` knows, and how much it holds, at one moment; `None` if the gate is not open in
    /// this epoch.
    ///
    /// # Errors
    /// No answer, or a key of another type ([`GateError::is_of_keys`]); the outbox is among them.
    pub async fn account(
        &self,
        template: TemplateId,
        epoch: Epoch,
    ) -> Result<Option<(Meta, Held)>, GateError> {
        let live = self.live(template).await?;
        let keys = self.keys(template);
        let result = redis::pipe()
            .atomic()
            .cmd("HGETALL")
            .arg(keys.meta())
            .cmd("ZCARD")
            .arg(keys.inflight(epoch))
            .cmd("ZCARD")
            .arg(keys.queued(epoch))
            .cmd("HLEN")
            .arg(keys.users(epoch))
            // Only checks that it can be appended to.
            .cmd("XLEN")
            .arg(keys.outbox())
            .query_async(&mut live.connection.clone())
            .await;
        let (fields, in_flight, queued, users, _waiting): (RawFields, u64, u64, u64, u64) =
            live.checked("account", result).await?;
        let meta = read_meta(&fields, &live.run);
        let held = Held { admissions: in_flight.saturating_add(queued), queued, users };
        Ok((meta.is_open() && meta.epoch == epoch).then_some((meta, held)))
    }
}

pub(crate) fn read_meta(fields: &RawFields, run: &Run) -> Meta {
    let bytes = |name: &str| fields.get(name.as_bytes()).map_or(&[][..], Vec::as_slice);
    let text = |name: &str| String::from_utf8_lossy(bytes(name)).into_owned();
    let numbers: HashMap<&str, Option<i64>> =
        NUMBERS.iter().map(|(name, range)| (*name, read_number(bytes(name), range))).collect();
    let number = |name: &str| numbers.get(name).copied().flatten().unwrap_or(0);
    // Both are absent in a gate that an older version opened: nothing lapsed then, and every claim was direct.
    let lapses = fields.get(&b"lapses_allowed"[..]);
    let lapses = lapses.map_or(Some(0), |lapses| read_number(lapses, &(0..=EXACT)));
    let mode = fields.get(&b"mode"[..]).map(|_| ClaimMode::from_word(&text("mode")));
    let mode = mode.unwrap_or(Some(ClaimMode::default()));
    let others = [
        ("lapses_allowed", lapses.is_some()),
        ("mode", mode.is_some()),
        ("state", TemplateState::from_word(&text("state")).is_some()),
    ];
    let is_opened = text("phase") == "open";
    let readable = NUMBERS.iter().map(|(name, _)| (*name, numbers.get(name) != Some(&None)));
    let damaged = readable.chain(others).find(|(_, is_readable)| is_opened && !is_readable);
    let damage = damaged.map(|(name, _)| name.to_owned());
    Meta {
        // An unreadable gate answers no claims, like a loading one, until it is rebuilt.
        phase: if is_opened && damage.is_none() { Phase::Open } else { Phase::Loading },
        epoch: Epoch(number("epoch")),
        run: run.clone(),
        of_this_run: text("run") == run.as_str(),
        users: number("users").unsigned_abs(),
        stock: number("stock"),
        movement: number("movement"),
        version: number("version"),
        state: text("state"),
        mode: mode.unwrap_or_default(),
        window_ms: (number("starts"), number("ends")),
        limit: number("limit"),
        lapses_allowed: lapses.unwrap_or(0),
        halt: fields.get(&b"halt"[..]).cloned(),
        odd: odd_fields(fields),
        unreadable: damage.or(fields.contains_key(&b"unreadable"[..]).then(|| text("unreadable"))),
    }
}

/// Names the fields that hold what no script writes, and those that are missing.
fn odd_fields(fields: &RawFields) -> Vec<String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let is_right = |name: &str, value: &[u8]| match name {
        "phase" => matches!(value, b"loading" | b"open"),
        "state" => TemplateState::from_word(&text(value)).is_some(),
        "mode" => ClaimMode::from_word(&text(value)).is_some(),
        "lapses_allowed" => read_number(value, &(0..=EXACT)).is_some(),
        name => NUMBERS
            .iter()
            .find(|(known, _)| *known == name)
            .is_none_or(|(_, range)| read_number(value, range).is_some()),
    };
    let is_open = fields.get(&b"phase"[..]).is_some_and(|phase| phase == b"open");
    let of_open = NUMBERS.iter().map(|(name, _)| *name).chain(["state"]).filter(|_| is_open);
    let mut odd: Vec<String> = OF_EACH
        .into_iter()
        .chain(of_open.filter(|name| !OF_EACH.contains(name)))
        .filter(|name| !fields.contains_key(name.as_bytes()))
        .map(|name| format!("{name} is missing"))
        .collect();
    let wrong = fields.iter().filter(|(name, value)| !is_right(&text(name), value));
    odd.extend(wrong.map(|(name, value)| format!("{} is {:?}", text(name), text(value))));
    odd.sort_unstable();
    odd
}

#[cfg(test)]
mod tests {
    use proptest::{collection::hash_map, prelude::*, sample::select};

    use super::*;

    fn texts() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            any::<i64>().prop_map(|number| number.to_string().into_bytes()),
            (-3..300_i64).prop_map(|number| number.to_string().into_bytes()),
            any::<Vec<u8>>(),
            select(vec!["nan", "inf", "1e400", "0x10", " 5", "-0", "05", ""])
                .prop_map(|text| text.as_bytes().to_vec()),
        ]
    }

    fn fields() -> impl Strategy<Value = RawFields> {
        let words = NUMBERS.map(|(name, _)| name).into_iter();
        let words: Vec<&str> = words.chain(["phase", "state", "mode", "lapses_allowed"]).collect();
        let names = select(words).prop_map(|name| name.as_bytes().to_vec());
        hash_map(names, texts(), 0..12)
    }

    proptest! {
        #[test]
        fn no_text_is_a_number_that_a_gate_cannot_have(fields in fields()) {
            let meta = read_meta(&fields, &Run::named("a/b"));
            prop_assert!((0..=EXACT).contains(&meta.epoch.0) && meta.users <= EXACT.unsigned_abs());
            prop_assert!(meta.stock.abs() <= limit::STOCK_MAX);
            prop_assert!((0..=EXACT).contains(&meta.movement) && (0..=255).contains(&meta.limit));
            let (starts, ends) = meta.window_ms;
            prop_assert!(starts.abs() <= EXACT && ends.abs() <= EXACT);
        }

        #[test]
        fn only_what_a_script_writes_is_a_number(number: i64, around in "[ +0x]{1,2}") {
            let range = i64::MIN..=i64::MAX;
            prop_assert_eq!(read_number(number.to_string().as_bytes(), &range), Some(number));
            for text in [format!("{around}{number}"), format!("{number}.0"), format!("{number} ")] {
                prop_assert_eq!(read_number(text.as_bytes(), &range), None, "{:?}", text);
            }
        }
    }
}
