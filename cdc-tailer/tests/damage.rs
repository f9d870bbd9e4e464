//! Damaged events in a server's binlog file, with bytes that no current server writes. The tailer stops before such an
//! event, and the remedy that its message names leads past it.
#![expect(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::{
    fs::{self, File},
    ops::Range,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

use crate::harness::{Harness, coupon};

/// The text of a row, in the event that is damaged.
const MARK: &str = "marked for damage";

/// Offset of a file's first event.
const FIRST_EVENT: usize = 4;

/// Length of an event's header, and the offsets of kind and length in it.
const HEADER_LENGTH: usize = 19;
const KIND_AT: usize = 4;
const LENGTH_AT: usize = 9;

const TABLE_MAP: u8 = 19;

/// A rows event whose head has two more bytes than the older one's.
const WRITE_ROWS_2: u8 = 30;

/// Bytes of a rows event's body before the number of columns.
const BEFORE_COLUMNS: usize = 8;

/// The binlog file with the marked row.
struct Marked {
    path: PathBuf,
    bytes: Vec<u8>,
    /// Offset of [`MARK`].
    at: usize,
    /// The event that holds it.
    rows: Range<usize>,
    /// The event that describes its table.
    table_map: Range<usize>,
}

/// A kind of damage: where, which bytes, and part of the tailer's message.
struct Damage {
    says: &'static str,
    bytes: fn(&Marked) -> (usize, Vec<u8>),
}

const ALL: [Damage; 6] = [
    Damage { says: "an event of kind 200", bytes: |file| (file.rows.start + KIND_AT, vec![200]) },
    Damage {
        says: "if the server's file is damaged",
        bytes: |file| (file.rows.start + LENGTH_AT, 0x7fff_ffff_u32.to_le_bytes().to_vec()),
    },
    Damage { says: "has 99 columns", bytes: |file| (file.columns_at(), vec![99]) },
    // The higher byte of the text's length.
    Damage { says: "ends too early", bytes: |file| (file.at - 1, vec![0xff]) },
    Damage { says: "holds text that is not UTF-8", bytes: |file| (file.at, vec![0xff]) },
    Damage {
        says: "a name that is not UTF-8",
        bytes: |file| (file.table_map.start + file.name_at(), vec![0xff]),
    },
];

/// `first` and the next number are coupon ids.
async fn walk(test: &Harness, damage: &Damage, first: i64) {
    let running = test.start().await;
    test.sql(&coupon(first, first));
    test.coupon_ids_until(first).await;
    running.stop().await.unwrap();
    let marked = Marked::write(test, first);
    let (at, bytes) = (damage.bytes)(&marked);
    marked.put(at, &bytes);
    for _ in 0..2 {
        let ended = test.start_with(test.config.clone()).ended().await;
        let said = format!("{:#}", ended.unwrap_err());
        assert!(said.contains(damage.says), "{}: {said}", damage.says);
        assert!(said.contains("--resnapshot"), "no way out: {said}");
    }
    test.leave_by_resnapshot(first + 1).await;
}

impl Marked {
    /// Writes a row into a file of its own.
    fn write(test: &Harness, template: i64) -> Self {
        // The text must be in the row, not in a statement that may be logged with it.
        let mark = MARK.replace(' ', "', ' ', '");
        let files = test.sql("flush binary logs; show binary logs");
        let name = files.lines().last().unwrap().split('\t').next().unwrap();
        test.sql(&format!(
            "insert into stock_movement (template_id, seq, delta, reason, actor, created_at) \
             values ({template}, 1, 1, concat('{mark}'), 'a', '2026-01-01'); flush binary logs"
        ));
        let path = Path::new(test.sql("select @@datadir").trim()).join(name);
        let bytes = fs::read(&path).unwrap();
        let at = position(&bytes, MARK.as_bytes());
        let mut table_map = 0..0;
        let mut rows = FIRST_EVENT..FIRST_EVENT;
        while !rows.contains(&at) {
            if bytes.get(rows.start + KIND_AT) == Some(&TABLE_MAP) {
                table_map = rows.clone();
            }
            let length = bytes[rows.end + LENGTH_AT..][..4].try_into().unwrap();
            rows = rows.end..rows.end + usize::try_from(u32::from_le_bytes(length)).unwrap();
        }
        Self { path, bytes, at, rows, table_map }
    }

    /// Returns the offset of the number of columns in the rows event.
    fn columns_at(&self) -> usize {
        let is_longer = self.bytes[self.rows.start + KIND_AT] == WRITE_ROWS_2;
        let more = if is_longer { 2 } else { 0 };
        self.rows.start + HEADER_LENGTH + BEFORE_COLUMNS + more
    }

    /// Returns the offset of a column's name in the table map.
    fn name_at(&self) -> usize {
        position(&self.bytes[self.table_map.clone()], b"delta")
    }

    fn put(&self, at: usize, bytes: &[u8]) {
        let file = File::options().write(true).open(&self.path).unwrap();
        file.write_all_at(bytes, u64::try_from(at).unwrap()).unwrap();
    }
}

fn position(bytes: &[u8], wanted: &[u8]) -> usize {
    bytes.windows(wanted.len()).position(|found| found == wanted).unwrap()
}

mod full {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn events_that_no_server_writes_stop_the_tailer_and_the_way_out_leads_behind_them() {
        // Without checksums the server and the tailer find nothing wrong before the event is read.
        let tests = Harness::on_own_of_each("damaged events", &["--binlog-checksum=NONE"]).await;
        for test in tests {
            for (number, damage) in (1..).zip(&ALL) {
                walk(&test, damage, 2 * number).await;
            }
        }
    }
}
