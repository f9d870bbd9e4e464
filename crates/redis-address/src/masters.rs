//! [`Masters`]: connections to all masters, and the lookup of the master for a key.

use std::{ops::RangeInclusive, sync::Arc};

use crc::{CRC_16_XMODEM, Crc};
use redis::{ErrorKind, RedisError, RedisResult, aio::MultiplexedConnection};

/// Number of slots of every cluster (Redis Cluster specification, "Key distribution model").
const SLOTS: u16 = 16_384;

/// The slots of a single server.
pub(crate) const ALL_SLOTS: RangeInclusive<u16> = 0..=SLOTS - 1;

/// Hash that maps a key to its slot (same source).
const CRC: Crc<u16> = Crc::<u16>::new(&CRC_16_XMODEM);

/// Connections to a server, or to all masters of a cluster. Clones share them.
#[derive(Debug, Clone)]
pub struct Masters {
    each: Arc<[Master]>,
    /// Last slot of each range and the index of its master, ordered. Together the ranges cover all slots.
    ranges: Arc<[(u16, usize)]>,
    is_cluster: bool,
}

#[derive(Debug)]
pub(crate) struct Master {
    pub(crate) host: String,
    pub(crate) port: u16,
    /// First and last slot of each range.
    pub(crate) slots: Vec<(u16, u16)>,
    pub(crate) connection: MultiplexedConnection,
}

impl Masters {
    /// A single server, which has every key.
    pub(crate) fn one(connection: MultiplexedConnection) -> Self {
        let host = String::new();
        let port = 0;
        let slots = Vec::new();
        let all = Master { host, port, slots, connection };
        Self { each: [all].into(), ranges: [(SLOTS - 1, 0)].into(), is_cluster: false }
    }

    /// The masters of a cluster. Fails unless each slot has exactly one.
    pub(crate) fn of_cluster(each: Vec<Master>) -> RedisResult<Self> {
        let slots: Vec<_> = each.iter().map(|master| &*master.slots).collect();
        let ranges = ranges(&slots)?.into();
        Ok(Self { each: each.into(), ranges, is_cluster: true })
    }

    /// Returns port and ranges of slots of each master of a cluster.
    pub(crate) fn slots_by_port(&self) -> impl Iterator<Item = (u16, Vec<(u16, u16)>)> {
        self.each.iter().map(|master| (master.port, master.slots.clone()))
    }

    /// Returns the index of the master that has the slot, see [`slot_of`].
    pub fn index_of(&self, slot: u16) -> usize {
        let range = self.ranges.partition_point(|(last, _)| *last < slot);
        self.ranges[range].1
    }

    /// Returns each range of slots with the index of its master, ordered. A single server has all slots.
    pub fn slots(&self) -> impl Iterator<Item = (RangeInclusive<u16>, usize)> {
        let firsts = self.ranges.iter().map(|(last, _)| last + 1);
        let ranges = std::iter::once(0).chain(firsts).zip(&*self.ranges);
        ranges.map(|(first, &(last, index))| (first..=last, index))
    }

    /// Returns host and port of the master that the master at `index` named in an `ASK`.
    pub(crate) fn named_by<'a>(
        &'a self,
        index: usize,
        ask: &'a RedisError,
    ) -> Option<(&'a str, u16)> {
        let (host, port) = ask.redirect_node()?.0.rsplit_once(':')?;
        let host = if host.is_empty() { &self.each[index].host } else { host };
        Some((host, port.parse().ok()?))
    }

    /// Returns the connection to the master at this address, if it has slots.
    pub(crate) fn find(&self, host: &str, port: u16) -> Option<MultiplexedConnection> {
        let found = self.each.iter().find(|master| master.host == host && master.port == port)?;
        Some(found.connection.clone())
    }

    /// Returns the connection to the master at `index`, an index that [`Masters::index_of`] or [`Masters::slots`]
    /// returned.
    ///
    /// # Panics
    /// The index is out of range.
    pub fn at(&self, index: usize) -> MultiplexedConnection {
        self.each[index].connection.clone()
    }

    /// Returns whether keys may move and masters may join.
    pub fn is_cluster(&self) -> bool {
        self.is_cluster
    }

    /// Connections to all masters.
    pub fn all(&self) -> impl Iterator<Item = MultiplexedConnection> {
        self.each.iter().map(|master| master.connection.clone())
    }
}

/// Returns the slot of a key.
pub fn slot_of(key: &str) -> u16 {
    CRC.checksum(hashed(key).as_bytes()) % SLOTS
}

/// Returns the part of a key that is hashed: the text between its first `{` and the next `}`, or the whole key if there
/// is no such text.
fn hashed(key: &str) -> &str {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
    tag.map(|(tag, _)| tag).filter(|tag| !tag.is_empty()).unwrap_or(key)
}

/// Returns the last slot of each range and the index of its master, ordered.
pub(crate) fn ranges(slots_of_each: &[&[(u16, u16)]]) -> RedisResult<Vec<(u16, usize)>> {
    let mut ranges: Vec<_> = slots_of_each
        .iter()
        .enumerate()
        .flat_map(|(index, slots)| slots.iter().map(move |&(first, last)| (first, last, index)))
        .collect();
    ranges.sort_unstable();
    let problem =
        "a slot of the cluster has no master, or two: a failover or a repair is under way";
    let at = |slot: u16| RedisError::from((ErrorKind::Io, problem, format!("slot {slot}")));
    let mut next = 0;
    for &(first, last, _) in &ranges {
        if first != next || last < first || last >= SLOTS {
            return Err(at(next));
        }
        next = last + 1;
    }
    if next != SLOTS {
        return Err(at(next));
    }
    Ok(ranges.into_iter().map(|(_, last, index)| (last, index)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_keys_slot_is_the_specifications() {
        // The check value of CRC-16/XMODEM, and an answer of `CLUSTER KEYSLOT`.
        assert_eq!(CRC.checksum(b"123456789"), 0x31C3);
        assert_eq!(slot_of("foo"), 12_182);
        for (key, part) in [
            ("p:{7}:list", "7"),
            ("{7}", "7"),
            ("{}{7}", "{}{7}"),
            ("}{7", "}{7"),
            ("{a}{7}", "a"),
            ("{{7}}", "{7"),
            ("7", "7"),
        ] {
            assert_eq!(hashed(key), part);
        }
    }

    #[test]
    fn every_slot_must_have_its_master() {
        let whole: [&[(u16, u16)]; 3] = [&[(0, 99), (5000, 16_383)], &[], &[(100, 4999)]];
        assert_eq!(ranges(&whole).unwrap(), [(99, 0), (4999, 2), (16_383, 0)]);
        for (lacking, slot) in [
            (vec![(0, 16_382)], "slot 16383"),
            (vec![(1, 16_383)], "slot 0"),
            (vec![(0, 10), (12, 16_383)], "slot 11"),
            (vec![(0, 10), (10, 16_383)], "slot 11"),
            (vec![(0, 16_384)], "slot 0"),
            (vec![(0, 16_383), (5, 6)], "slot 16384"),
            (vec![], "slot 0"),
        ] {
            let error = ranges(&[&lacking]).unwrap_err().to_string();
            assert!(error.contains(slot), "{lacking:?}: {error}");
        }
    }
}
