//! Where in the binlog: GTIDs of both families of servers, and file positions beside them.

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
    str::FromStr,
    sync::Arc,
};

use thiserror::Error;

/// Which family of servers: their GTIDs and their dump commands differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Flavor {
    /// `domain-server-sequence`; a position is the last one of each domain.
    MariaDb,
    /// `uuid:number`; a position is the set of all that were executed.
    MySql,
}

/// The highest number of a MySQL transaction: the server's own limit.
const NUMBER_MAX: u64 = i64::MAX.cast_unsigned();

/// Ascending and separate, both ends included.
type Intervals = Vec<(u64, u64)>;

/// The name of one transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gtid {
    /// MariaDB's.
    MariaDb {
        /// Replication domain.
        domain: u32,
        /// Server that wrote it first.
        server: u32,
        /// Number within the domain.
        sequence: u64,
    },
    /// MySQL's.
    MySql {
        /// Server that wrote it first.
        uuid: [u8; 16],
        /// Number of that server's transaction.
        number: u64,
    },
}

/// A text is not a GTID position of this flavor.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{text:?} is not a GTID position of {flavor:?}")]
pub(crate) struct NotAPosition {
    flavor: Flavor,
    text: String,
}

/// Everything up to here has been seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum GtidSet {
    /// Domain to server and sequence of its last transaction.
    MariaDb(BTreeMap<u32, (u32, u64)>),
    /// Uuid to the numbers of its transactions.
    MySql(BTreeMap<[u8; 16], Intervals>),
}

/// A place between two transactions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Position {
    /// The transactions before it: what a reader resumes from.
    pub(crate) gtids: GtidSet,
    /// The binlog file it was seen in, for people and events; empty if not known.
    pub(crate) file: Arc<str>,
    /// The offset in that file.
    pub(crate) offset: u64,
}

impl Gtid {
    fn flavor(&self) -> Flavor {
        match self {
            Self::MariaDb { .. } => Flavor::MariaDb,
            Self::MySql { .. } => Flavor::MySql,
        }
    }
}

impl fmt::Display for Gtid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MariaDb { domain, server, sequence } => write!(f, "{domain}-{server}-{sequence}"),
            Self::MySql { uuid, number } => {
                write_uuid(f, uuid)?;
                write!(f, ":{number}")
            }
        }
    }
}

impl GtidSet {
    /// The position before the first transaction.
    #[cfg(test)]
    pub(crate) fn empty(flavor: Flavor) -> Self {
        match flavor {
            Flavor::MariaDb => Self::MariaDb(BTreeMap::new()),
            Flavor::MySql => Self::MySql(BTreeMap::new()),
        }
    }

    /// Reads the server's notation.
    ///
    /// # Errors
    /// It is not that of this flavor.
    pub(crate) fn parse(flavor: Flavor, text: &str) -> Result<Self, NotAPosition> {
        let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        let parsed = match flavor {
            Flavor::MariaDb => entries.map(mariadb_entry).collect::<Option<_>>().map(Self::MariaDb),
            Flavor::MySql => mysql_entries(entries).map(Self::MySql),
        };
        parsed.ok_or_else(|| NotAPosition { flavor, text: text.to_owned() })
    }

    /// Moves the position behind `gtid`. A GTID of the other flavor has no effect.
    pub(crate) fn add(&mut self, gtid: &Gtid) {
        match (self, *gtid) {
            (Self::MariaDb(domains), Gtid::MariaDb { domain, server, sequence }) => {
                domains.insert(domain, (server, sequence));
            }
            (Self::MySql(servers), Gtid::MySql { uuid, number }) => {
                add_interval(servers.entry(uuid).or_default(), (number, number));
            }
            (set, gtid) => debug_assert_eq!(set.flavor(), gtid.flavor(), "one server, one flavor"),
        }
    }

    /// Whose notation.
    pub(crate) fn flavor(&self) -> Flavor {
        match self {
            Self::MariaDb(_) => Flavor::MariaDb,
            Self::MySql(_) => Flavor::MySql,
        }
    }
}

impl fmt::Display for GtidSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut comma = "";
        match self {
            Self::MariaDb(domains) => {
                for (domain, (server, sequence)) in domains {
                    write!(f, "{comma}{domain}-{server}-{sequence}")?;
                    comma = ",";
                }
            }
            Self::MySql(servers) => {
                for (uuid, intervals) in servers {
                    f.write_str(comma)?;
                    write_uuid(f, uuid)?;
                    for (first, last) in intervals {
                        match first == last {
                            true => write!(f, ":{first}")?,
                            false => write!(f, ":{first}-{last}")?,
                        }
                    }
                    comma = ",";
                }
            }
        }
        Ok(())
    }
}

fn mariadb_entry(entry: &str) -> Option<(u32, (u32, u64))> {
    let mut parts = entry.split('-');
    let domain = number(parts.next()?)?;
    let server = number(parts.next()?)?;
    let sequence = number(parts.next()?)?;
    parts.next().is_none().then_some((domain, (server, sequence)))
}

fn mysql_entries<'a>(
    entries: impl Iterator<Item = &'a str>,
) -> Option<BTreeMap<[u8; 16], Intervals>> {
    let mut servers: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for entry in entries {
        let (uuid, intervals) = entry.split_once(':')?;
        let own = servers.entry(parse_uuid(uuid)?).or_default();
        for interval in intervals.split(':') {
            let (first, last) = interval.split_once('-').unwrap_or((interval, interval));
            let (first, last) = (number(first.trim())?, number(last.trim())?);
            if first == 0 || last < first || last > NUMBER_MAX {
                return None;
            }
            add_interval(own, (first, last));
        }
    }
    Some(servers)
}

/// Adds an interval and joins what touches. Nearly always it extends the last one.
fn add_interval(intervals: &mut Intervals, (first, last): (u64, u64)) {
    if let Some(end) = intervals.last_mut()
        && end.1.checked_add(1) == Some(first)
    {
        end.1 = last;
        return;
    }
    let from = intervals.partition_point(|own| own.1.saturating_add(1) < first);
    let to = intervals.partition_point(|own| own.0 <= last.saturating_add(1));
    let joined = intervals[from..to]
        .iter()
        .fold((first, last), |all, own| (all.0.min(own.0), all.1.max(own.1)));
    intervals.splice(from..to, [joined]);
}

/// Digits alone; the standard library takes a sign too.
fn number<T: FromStr>(text: &str) -> Option<T> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let digits: Vec<u8> = text.trim().bytes().filter(|byte| *byte != b'-').collect();
    if digits.len() != 32 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let mut uuid = [0; 16];
    for (byte, pair) in uuid.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(uuid)
}

fn write_uuid(f: &mut fmt::Formatter<'_>, uuid: &[u8; 16]) -> fmt::Result {
    for (index, byte) in uuid.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            f.write_char('-')?;
        }
        write!(f, "{byte:02x}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const UUID: &str = "d4c17f0c-4f11-11ea-93e3-325d3e1cd1c8";

    #[test]
    fn a_mariadb_position_is_the_last_gtid_of_each_domain() {
        let mut set = GtidSet::parse(Flavor::MariaDb, "0-1-5,7-2-9").unwrap();
        set.add(&Gtid::MariaDb { domain: 0, server: 3, sequence: 6 });
        assert_eq!(set.to_string(), "0-3-6,7-2-9");
        assert_eq!(GtidSet::parse(Flavor::MariaDb, "").unwrap(), GtidSet::empty(Flavor::MariaDb));
    }

    #[test]
    fn what_is_not_a_position_is_refused() {
        for text in ["0-1", "0-1-2-3", "a-1-2", "0-+1-2", &format!("{UUID}:1-5")] {
            assert!(GtidSet::parse(Flavor::MariaDb, text).is_err(), "{text}");
        }
        let beyond = format!("{UUID}:1-9223372036854775808");
        let signs = format!("{}:1", UUID.replace("d4", "+4"));
        let mysql = [format!("{UUID}:5-1"), format!("{UUID}:tag:1"), beyond, signs];
        for text in mysql.iter().map(String::as_str).chain(["0-1-2", "zz:1"]) {
            assert!(GtidSet::parse(Flavor::MySql, text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_mysql_position_holds_exactly_what_was_added(numbers in prop::collection::vec(1u64..40, 0..40)) {
            let mut set = GtidSet::empty(Flavor::MySql);
            let uuid = parse_uuid(UUID).unwrap();
            for number in &numbers {
                set.add(&Gtid::MySql { uuid, number: *number });
            }
            let text = set.to_string();
            prop_assert_eq!(&GtidSet::parse(Flavor::MySql, &text).unwrap(), &set);
            let GtidSet::MySql(servers) = set else { unreachable!() };
            let held: Vec<u64> = servers.values().flatten().flat_map(|(a, b)| *a..=*b).collect();
            let added: BTreeSet<u64> = numbers.into_iter().collect();
            prop_assert_eq!(held, added.into_iter().collect::<Vec<_>>());
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".{0,60}") {
            let _read = GtidSet::parse(Flavor::MySql, &text);
            let _read = GtidSet::parse(Flavor::MariaDb, &text);
        }
    }
}
