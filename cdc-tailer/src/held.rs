//! The rows of a transaction that has not ended yet: the first megabytes in memory, the rest in a
//! file, so that a transaction's length is bounded by a disk and not by this process.
//!
//! The file has no name from its first moment on and is gone with the process.

use std::{
    borrow::Cow,
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::FileExt as _,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::{
    event::{Change, HEADER_LENGTH},
    source::Packet,
    table::Table,
};

/// Bytes of a transaction that stay in memory: some two hundred full rows events.
const MEMORY_BYTES: usize = 2 * 1024 * 1024;

/// Distinguishes the files of this process in the moment that they have names.
static FILES: AtomicU64 = AtomicU64::new(0);

/// One rows event, not decoded yet.
#[derive(Debug, Clone)]
pub(crate) struct RowsPacket {
    pub(crate) table: Arc<Table>,
    pub(crate) change: Change,
    /// Layout of the body: 1 (MariaDB) or 2 (MySQL).
    pub(crate) version: u8,
    /// Offset behind the event.
    pub(crate) end: u32,
    pub(crate) packet: Packet,
}

/// Rows events in their order.
#[derive(Debug, Default)]
pub(crate) struct HeldRows {
    memory: Vec<RowsPacket>,
    bytes: usize,
    spilled: Option<Spill>,
}

#[derive(Debug)]
struct Spill {
    file: File,
    entries: Vec<Entry>,
    length: u64,
}

/// A rows event in the file.
#[derive(Debug)]
struct Entry {
    table: Arc<Table>,
    change: Change,
    version: u8,
    end: u32,
    offset: u64,
    length: usize,
}

impl RowsPacket {
    /// The event's body.
    pub(crate) fn body(&self) -> &[u8] {
        &self.packet.event()[HEADER_LENGTH..]
    }
}

impl HeldRows {
    pub(crate) fn is_empty(&self) -> bool {
        self.memory.is_empty()
    }

    /// Number of rows events.
    pub(crate) fn len(&self) -> usize {
        self.memory.len() + self.spilled.as_ref().map_or(0, |spill| spill.entries.len())
    }

    /// What is held in memory, about.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds the next event; beyond the limit into a file in `folder`.
    pub(crate) fn push(&mut self, rows: RowsPacket, folder: &Path) -> io::Result<()> {
        let length = rows.packet.event().len();
        if self.spilled.is_none() && (self.memory.is_empty() || self.bytes + length <= MEMORY_BYTES)
        {
            self.bytes += length;
            // Most transactions have one, and a vector would make room for four.
            if self.memory.is_empty() {
                self.memory.reserve_exact(1);
            }
            self.memory.push(rows);
            return Ok(());
        }
        let spill = match &mut self.spilled {
            Some(spill) => spill,
            none => none.insert(Spill { file: nameless(folder)?, entries: vec![], length: 0 }),
        };
        spill.push(rows)
    }

    /// Forgets all but the first `count` events.
    pub(crate) fn truncate(&mut self, count: usize) {
        let kept = count.saturating_sub(self.memory.len());
        match &mut self.spilled {
            Some(spill) if kept > 0 => spill.truncate(kept),
            spilled => *spilled = None,
        }
        self.memory.truncate(count);
        self.bytes = self.memory.iter().map(|rows| rows.packet.event().len()).sum();
    }

    /// The events from the first on. What is in the file is read as it is asked for: blocking, but
    /// out of the page cache as a rule.
    pub(crate) fn packets(&self) -> impl Iterator<Item = io::Result<Cow<'_, RowsPacket>>> {
        let spilled = self.spilled.iter().flat_map(|spill| {
            spill.entries.iter().map(|entry| entry.read(&spill.file).map(Cow::Owned))
        });
        self.memory.iter().map(|rows| Ok(Cow::Borrowed(rows))).chain(spilled)
    }
}

impl Spill {
    fn push(&mut self, rows: RowsPacket) -> io::Result<()> {
        let event = rows.packet.event();
        self.file.write_all_at(event, self.length)?;
        let length = event.len();
        self.entries.push(Entry {
            change: rows.change,
            version: rows.version,
            end: rows.end,
            offset: self.length,
            length,
            table: rows.table,
        });
        self.length += u64::try_from(length).unwrap_or(0);
        Ok(())
    }

    fn truncate(&mut self, count: usize) {
        self.entries.truncate(count);
        let last = self.entries.last();
        self.length = last.map_or(0, |e| e.offset + u64::try_from(e.length).unwrap_or(0));
    }
}

impl Entry {
    fn read(&self, file: &File) -> io::Result<RowsPacket> {
        let mut event = vec![0; self.length];
        file.read_exact_at(&mut event, self.offset)?;
        Ok(RowsPacket {
            table: Arc::clone(&self.table),
            change: self.change,
            version: self.version,
            end: self.end,
            packet: Packet::new(event, 0, self.length),
        })
    }
}

/// A new file in `folder`, whose name is removed at once.
fn nameless(folder: &Path) -> io::Result<File> {
    loop {
        let number = FILES.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("cdc-tailer-{}-{number}.rows", std::process::id()));
        match OpenOptions::new().read(true).write(true).create_new(true).open(&path) {
            // Left by a process of our number that was killed in this very moment.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            opened => {
                let file = opened?;
                fs::remove_file(&path)?;
                return Ok(file);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(number: u32, bytes: usize) -> RowsPacket {
        let mut event = vec![0; bytes];
        event[HEADER_LENGTH..HEADER_LENGTH + 4].copy_from_slice(&number.to_le_bytes());
        let table = Table { database: "d".into(), name: "t".into(), columns: vec![] };
        RowsPacket {
            table: table.into(),
            change: Change::Insert,
            version: 1,
            end: number,
            packet: Packet::new(event, 0, bytes),
        }
    }

    fn numbers(held: &HeldRows) -> Vec<u32> {
        let numbers = held.packets().map(|packet| {
            let packet = packet.unwrap();
            assert_eq!(packet.body()[..4], packet.end.to_le_bytes());
            packet.end
        });
        numbers.collect()
    }

    #[test]
    fn what_does_not_fit_into_memory_comes_back_from_the_file_in_order() {
        let folder = std::env::temp_dir();
        let mut held = HeldRows::default();
        for number in 0..40 {
            held.push(rows(number, 100_000 + 3 * number as usize), &folder).unwrap();
        }
        assert!(held.bytes() <= MEMORY_BYTES && held.memory.len() < 40);
        assert_eq!(numbers(&held), (0..40).collect::<Vec<_>>());

        let in_memory = held.memory.len();
        held.truncate(in_memory + 3);
        held.push(rows(99, 50), &folder).unwrap();
        let mut expected: Vec<u32> = (0..).take(in_memory + 3).collect();
        expected.push(99);
        assert_eq!(numbers(&held), expected);

        held.truncate(2);
        held.push(rows(100, 50), &folder).unwrap();
        assert_eq!(numbers(&held), [0, 1, 100]);
        assert_eq!((held.len(), held.bytes()), (3, 200_053));
    }

    #[test]
    fn a_folder_that_is_not_there_is_an_error() {
        let mut held = HeldRows::default();
        held.push(rows(1, MEMORY_BYTES), Path::new("/nowhere")).unwrap();
        assert!(held.push(rows(2, 100), Path::new("/nowhere")).is_err());
    }
}
