//! Sets of GTIDs as servers write them: in requests, and in the event at the head of each binlog file that names what
//! the files before it hold.

use std::collections::BTreeMap;

use crate::{
    binlog::gtid::{
        GtidSet, Intervals, Series,
        tag::{self, Tag},
    },
    cells::bytes::{Bytes, Truncated},
};

/// First and eighth byte of a MySQL set whose series have tags. Servers without tags cannot read that format.
const TAGGED: u64 = 1 << 56 | 1;

/// Bits of a MariaDB list's head that are not its length. With one of them set, the list is made up for the connection.
const LIST_FLAGS: u32 = 0xf000_0000;

/// Encodes a MySQL set.
pub(crate) fn encode(all: &BTreeMap<Series, Intervals>) -> Vec<u8> {
    let is_tagged = all.keys().any(|series| !series.tag.is_empty());
    let count = u64::try_from(all.len()).unwrap_or(0);
    let head = if is_tagged { count << 8 | TAGGED } else { count };
    let mut set = head.to_le_bytes().to_vec();
    for (Series { uuid, tag }, intervals) in all {
        set.extend(uuid);
        if is_tagged {
            // The tag's length is a variable-length integer; in its one-byte form the lowest bit is zero.
            set.push(u8::try_from(tag.bytes().len() << 1).unwrap_or(0));
            set.extend(tag.bytes());
        }
        set.extend(u64::try_from(intervals.len()).unwrap_or(0).to_le_bytes());
        for (first, last) in intervals {
            set.extend(first.to_le_bytes());
            set.extend((last + 1).to_le_bytes());
        }
    }
    set
}

/// Decodes a MySQL set. Returns `None` if its format is not known.
pub(crate) fn decode(mut bytes: Bytes<'_>) -> Result<Option<GtidSet>, Truncated> {
    let head = bytes.u64()?;
    let is_tagged = head & TAGGED == TAGGED;
    let count = if is_tagged { head << 8 >> 16 } else { head };
    let mut all: BTreeMap<Series, Intervals> = BTreeMap::new();
    for _ in 0..count {
        let mut series = Series { uuid: [0; 16], tag: Tag::default() };
        series.uuid.copy_from_slice(bytes.take(16)?);
        if is_tagged {
            let length = usize::try_from(tag::integer(&mut bytes)?).map_err(|_| Truncated)?;
            let name = bytes.take(length)?;
            match Tag::parse(name) {
                Some(tag) => series.tag = tag,
                None if name.is_empty() => {}
                None => return Ok(None),
            }
        }
        let intervals = all.entry(series).or_default();
        for _ in 0..bytes.u64()? {
            let first = bytes.u64()?;
            let behind = bytes.u64()?;
            let Some(last) = behind.checked_sub(1).filter(|last| first <= *last) else {
                return Ok(None);
            };
            intervals.push((first, last));
        }
    }
    Ok(Some(GtidSet::MySql(all)))
}

/// Decodes a MariaDB list: of each domain the last GTID comes last. Returns `None` if it was made up for the connection.
pub(crate) fn decode_list(mut bytes: Bytes<'_>) -> Result<Option<GtidSet>, Truncated> {
    let head = bytes.u32()?;
    if head & LIST_FLAGS != 0 {
        return Ok(None);
    }
    let mut domains = BTreeMap::new();
    for _ in 0..head {
        let domain = bytes.u32()?;
        let server = bytes.u32()?;
        let sequence = bytes.u64()?;
        domains.insert(domain, (server, sequence));
    }
    Ok(Some(GtidSet::MariaDb(domains)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binlog::gtid::Flavor;

    const UUID: &str = "000102030405060708090a0b0c0d0e0f";

    #[test]
    fn a_set_is_written_with_tags_only_where_there_are_some() {
        let written = |text: &str| {
            let set = GtidSet::parse(Flavor::MySql, text).unwrap();
            let GtidSet::MySql(all) = set else { unreachable!() };
            encode(&all)
        };
        let number = |number: u64| number.to_le_bytes().to_vec();
        let server = || (0..16).collect::<Vec<u8>>();
        let plain = [number(1), server(), number(2), number(1), number(6), number(8), number(9)];
        assert_eq!(written(&format!("{UUID}:1-5:8")), plain.concat());
        let tagged = [
            vec![1, 2, 0, 0, 0, 0, 0, 1],
            [server(), vec![0], number(1), number(1), number(6)].concat(),
            [server(), b"\x08blue".to_vec(), number(1), number(3), number(4)].concat(),
        ];
        assert_eq!(written(&format!("{UUID}:1-5:blue:3")), tagged.concat());
    }

    #[test]
    fn a_set_that_is_written_is_read_back() {
        let other = "ffffffff-4f11-11ea-93e3-325d3e1cd1c8";
        for text in
            ["", "{UUID}:1", "{UUID}:1-5:8", "{UUID}:1-5:blue:3,{other}:7-9", "{UUID}:a:1:b:2-4"]
        {
            let text = text.replace("{UUID}", UUID).replace("{other}", other);
            let set = GtidSet::parse(Flavor::MySql, &text).unwrap();
            let GtidSet::MySql(all) = &set else { unreachable!() };
            assert_eq!(decode(Bytes::new(&encode(all))), Ok(Some(set.clone())), "{text}");
        }
    }

    #[test]
    fn a_list_names_the_last_of_each_domain_unless_it_was_made_up() {
        let entry = |domain: u32, server: u32, sequence: u64| {
            [&domain.to_le_bytes()[..], &server.to_le_bytes(), &sequence.to_le_bytes()].concat()
        };
        let entries = [entry(0, 1, 9), entry(7, 3, 4), entry(0, 2, 8)].concat();
        let list = |head: u32| [&head.to_le_bytes()[..], &entries].concat();
        let read = decode_list(Bytes::new(&list(3))).unwrap().unwrap();
        assert_eq!(read.to_string(), "0-2-8,7-3-4");
        assert_eq!(decode_list(Bytes::new(&list(3 | 1 << 29))), Ok(None));
        assert_eq!(decode_list(Bytes::new(&list(4))), Err(Truncated));
    }
}
