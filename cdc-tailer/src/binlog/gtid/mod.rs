//! Transaction ids and sets of them: GTIDs of both families of servers.

pub(crate) mod encoded;
pub(crate) mod tag;

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
    str::FromStr,
};

use thiserror::Error;

use crate::binlog::gtid::tag::Tag;

/// Family of servers. They differ in GTIDs and dump commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Flavor {
    /// `domain-server-sequence`; a position is the last GTID of each domain.
    MariaDb,
    /// `uuid:number` or `uuid:tag:number`; a position is the set of all executed GTIDs.
    MySql,
}

/// The highest number of a MySQL transaction: the server's own limit.
const NUMBER_MAX: u64 = i64::MAX.cast_unsigned();

/// Ascending and disjoint, both ends included.
type Intervals = Vec<(u64, u64)>;

/// A sequence of MySQL transaction numbers: one per server and tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Series {
    /// Server that first wrote the transactions.
    pub(crate) uuid: [u8; 16],
    /// Tag set by clients; usually empty.
    pub(crate) tag: Tag,
}

/// Id of one transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gtid {
    MariaDb {
        /// Replication domain.
        domain: u32,
        /// Server that first wrote it.
        server: u32,
        /// Number within the domain.
        sequence: u64,
    },
    MySql {
        series: Series,
        /// Number within the series.
        number: u64,
    },
}

/// A text is not a GTID position of this flavor.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{text:?} is not a GTID position of {flavor:?}; start with --resnapshot")]
pub(crate) struct NotAPosition {
    flavor: Flavor,
    text: String,
}

/// A position: the set of transactions up to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum GtidSet {
    /// Domain to server and sequence of its last transaction.
    MariaDb(BTreeMap<u32, (u32, u64)>),
    /// Server and tag to the numbers of their transactions.
    MySql(BTreeMap<Series, Intervals>),
}

impl Gtid {
    /// Parses a single GTID in the server's notation.
    ///
    /// # Errors
    /// The text is not a GTID of this flavor, or more than one.
    pub(crate) fn parse(flavor: Flavor, text: &str) -> Result<Self, NotAPosition> {
        let one = match GtidSet::parse(flavor, text)? {
            GtidSet::MariaDb(domains) => {
                let mut all = domains.into_iter();
                let first = all.next().filter(|_| all.next().is_none());
                first.map(|(domain, (server, sequence))| Self::MariaDb { domain, server, sequence })
            }
            GtidSet::MySql(series) => {
                let mut all = series.into_iter();
                let first = all.next().filter(|_| all.next().is_none());
                first.and_then(|(series, numbers)| match numbers.as_slice() {
                    [(number, last)] if number == last => {
                        Some(Self::MySql { series, number: *number })
                    }
                    _ => None,
                })
            }
        };
        one.ok_or_else(|| NotAPosition { flavor, text: text.to_owned() })
    }

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
            Self::MySql { series: Series { uuid, tag }, number } => {
                write_uuid(f, uuid)?;
                write_tag(f, tag)?;
                write!(f, ":{number}")
            }
        }
    }
}

impl GtidSet {
    /// Returns the position before the first transaction.
    #[cfg(test)]
    pub(crate) fn empty(flavor: Flavor) -> Self {
        match flavor {
            Flavor::MariaDb => Self::MariaDb(BTreeMap::new()),
            Flavor::MySql => Self::MySql(BTreeMap::new()),
        }
    }

    /// Parses the server's notation.
    ///
    /// # Errors
    /// The text is not a position of this flavor.
    pub(crate) fn parse(flavor: Flavor, text: &str) -> Result<Self, NotAPosition> {
        let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        let parsed = match flavor {
            Flavor::MariaDb => entries.map(mariadb_entry).collect::<Option<_>>().map(Self::MariaDb),
            Flavor::MySql => mysql_entries(entries).map(Self::MySql),
        };
        parsed.ok_or_else(|| NotAPosition { flavor, text: text.to_owned() })
    }

    /// Adds `gtid`; ignores one of the other flavor. Returns the previous server and sequence of the MariaDB domain.
    pub(crate) fn add(&mut self, gtid: &Gtid) -> Option<(u32, u64)> {
        match (self, *gtid) {
            (Self::MariaDb(domains), Gtid::MariaDb { domain, server, sequence }) => {
                return domains.insert(domain, (server, sequence));
            }
            (Self::MySql(all), Gtid::MySql { series, number }) => {
                add_interval(all.entry(series).or_default(), number, number);
            }
            (set, gtid) => debug_assert_eq!(set.flavor(), gtid.flavor(), "one server, one flavor"),
        }
        None
    }

    /// Removes `gtid` from a MySQL set, or its whole domain from a MariaDB position.
    pub(crate) fn remove(&mut self, gtid: &Gtid) {
        match (self, *gtid) {
            (Self::MariaDb(domains), Gtid::MariaDb { domain, .. }) => drop(domains.remove(&domain)),
            (Self::MySql(all), Gtid::MySql { series, number }) => {
                let Some(own) = all.get_mut(&series) else { return };
                remove_number(own, number);
                if own.is_empty() {
                    all.remove(&series);
                }
            }
            (set, gtid) => debug_assert_eq!(set.flavor(), gtid.flavor(), "one server, one flavor"),
        }
    }

    /// Returns whether `gtid` is part of the set.
    pub(crate) fn contains(&self, gtid: &Gtid) -> bool {
        match (self, *gtid) {
            (Self::MariaDb(domains), Gtid::MariaDb { domain, sequence, .. }) => {
                domains.get(&domain).is_some_and(|(_, last)| sequence <= *last)
            }
            (Self::MySql(all), Gtid::MySql { series, number }) => all
                .get(&series)
                .is_some_and(|own| own.iter().any(|(a, b)| (*a..=*b).contains(&number))),
            _ => false,
        }
    }

    /// Returns whether every transaction of `other` is part of the set. A MariaDB position has what was written before it
    /// in each domain.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::MariaDb(own), Self::MariaDb(other)) => {
                other.iter().all(|(domain, (_, last))| {
                    own.get(domain).is_some_and(|(_, own_last)| last <= own_last)
                })
            }
            (Self::MySql(own), Self::MySql(other)) => other.iter().all(|(series, intervals)| {
                let own = own.get(series).map_or(&[][..], Vec::as_slice);
                intervals.iter().all(|(first, last)| {
                    own.iter().any(|(own_first, own_last)| own_first <= first && last <= own_last)
                })
            }),
            _ => false,
        }
    }

    /// Returns whether it is the position before the first transaction.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::MariaDb(domains) => domains.is_empty(),
            Self::MySql(all) => all.is_empty(),
        }
    }

    /// Returns the flavor of its notation.
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
            Self::MySql(all) => {
                // A server's tagged numbers follow its untagged ones.
                let mut server = None;
                for (Series { uuid, tag }, intervals) in all {
                    if server != Some(uuid) {
                        f.write_str(comma)?;
                        write_uuid(f, uuid)?;
                    }
                    write_tag(f, tag)?;
                    for (first, last) in intervals {
                        match first == last {
                            true => write!(f, ":{first}")?,
                            false => write!(f, ":{first}-{last}")?,
                        }
                    }
                    (server, comma) = (Some(uuid), ",");
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

/// Parses `uuid:1-5:7:tag:1-3:other:2`: numbers without a tag, then each tag with its numbers.
fn mysql_entries<'a>(
    entries: impl Iterator<Item = &'a str>,
) -> Option<BTreeMap<Series, Intervals>> {
    let mut all: BTreeMap<Series, Intervals> = BTreeMap::new();
    for entry in entries {
        let (uuid, parts) = entry.split_once(':')?;
        let mut series = Series { uuid: parse_uuid(uuid)?, tag: Tag::default() };
        let mut is_numbered = true;
        for part in parts.split(':').map(str::trim) {
            match Tag::parse(part.as_bytes()) {
                Some(_) if !is_numbered => return None,
                Some(tag) => (series.tag, is_numbered) = (tag, false),
                None => {
                    let (first, last) = interval(part)?;
                    add_interval(all.entry(series).or_default(), first, last);
                    is_numbered = true;
                }
            }
        }
        if !is_numbered {
            return None;
        }
    }
    Some(all)
}

/// Parses `5` or `5-7`.
fn interval(text: &str) -> Option<(u64, u64)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let first = number(first.trim())?;
    let last = number(last.trim())?;
    (first > 0 && first <= last && last <= NUMBER_MAX).then_some((first, last))
}

/// Adds an interval and merges adjacent ones. Usually it extends the last one.
fn add_interval(intervals: &mut Intervals, first: u64, last: u64) {
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

/// Removes a number, which may leave two intervals in place of one.
fn remove_number(intervals: &mut Intervals, number: u64) {
    let holds = |(first, last): &(u64, u64)| (*first..=*last).contains(&number);
    let Some(at) = intervals.iter().position(holds) else { return };
    let (first, last) = intervals[at];
    let left = [(first, number - 1), (number + 1, last)];
    intervals.splice(at..=at, left.into_iter().filter(|(first, last)| first <= last));
}

/// Parses digits only; the standard library also accepts a sign.
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

fn write_tag(f: &mut fmt::Formatter<'_>, tag: &Tag) -> fmt::Result {
    if tag.is_empty() { Ok(()) } else { write!(f, ":{tag}") }
}

#[cfg(test)]
mod tests;
