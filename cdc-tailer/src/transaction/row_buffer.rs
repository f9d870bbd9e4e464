//! Buffers the rows of an open transaction: the first megabytes in memory, the rest in a file. So the size of a
//! transaction is limited by the disk, not by memory.
//!
//! The file is unlinked as soon as it is created, so it disappears with the process.

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
    binlog::{
        event::{Change, HEADER_LENGTH},
        packet::Packet,
        table::Table,
    },
    cells::bytes::Bytes,
};

/// Size of a shared file at which the next transaction begins a new file. A file stays until the last of its
/// transactions has ended.
const SHELF_BYTES: u64 = 64 * 1024 * 1024;

/// Bytes of a transaction kept in memory: some two hundred full rows events.
const MEMORY_BYTES: usize = 2 * 1024 * 1024;

/// Makes the names of this process's files unique while they exist.
static FILES: AtomicU64 = AtomicU64::new(0);

/// One rows event, not yet decoded.
#[derive(Debug, Clone)]
pub(crate) struct RowsPacket {
    pub(crate) table: Arc<Table>,
    pub(crate) change: Change,
    /// Layout of the body: 1, 2 or [`crate::binlog::rows::WITH_OPTIONS`].
    pub(crate) version: u8,
    /// Offset of the event's end.
    pub(crate) end: u32,
    pub(crate) packet: Packet,
}

/// Rows events in order.
#[derive(Debug, Default)]
pub(crate) struct RowBuffer {
    memory: Vec<RowsPacket>,
    bytes: usize,
    spilled: Option<Spill>,
}

/// A position among the rows events: the number of events before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BufferPosition {
    in_memory: usize,
    in_file: u64,
    /// Bytes of the file before it.
    length: u64,
}

/// Rows events in a file, each after a head. Only their tables stay in memory.
#[derive(Debug)]
struct Spill {
    file: Arc<File>,
    /// Offset of its first event.
    start: u64,
    tables: Vec<Arc<Table>>,
    count: u64,
    length: u64,
}

/// Files for the rows of many transactions, so that each needs neither memory nor an open file of its own.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    file: Option<Arc<File>>,
    end: u64,
}

/// Size of the head of a rows event in the file: its length, end offset, table, change and version.
const HEAD_BYTES: usize = 4 + 4 + 4 + 1 + 1;

/// Size of an entry in memory besides its event.
const ENTRY_BYTES: usize = size_of::<RowsPacket>();

impl RowsPacket {
    /// Returns the event's body.
    pub(crate) fn body(&self) -> &[u8] {
        &self.packet.event()[HEADER_LENGTH..]
    }
}

impl RowBuffer {
    pub(crate) fn is_empty(&self) -> bool {
        self.memory.is_empty() && self.spilled.is_none()
    }

    /// Returns the number of rows events.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        let BufferPosition { in_memory, in_file, .. } = self.position();
        in_memory + usize::try_from(in_file).unwrap_or(usize::MAX)
    }

    /// Returns the position after the last event.
    pub(crate) fn position(&self) -> BufferPosition {
        let spill = self.spilled.as_ref();
        BufferPosition {
            in_memory: self.memory.len(),
            in_file: spill.map_or(0, |spill| spill.count),
            length: spill.map_or(0, |spill| spill.length),
        }
    }

    /// Returns the approximate size in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds an event; beyond the memory limit, to a file in `folder`.
    pub(crate) fn push(&mut self, rows: RowsPacket, folder: &Path) -> io::Result<()> {
        let length = rows.packet.event().len() + ENTRY_BYTES;
        if self.spilled.is_none() && (self.memory.is_empty() || self.bytes + length <= MEMORY_BYTES)
        {
            self.bytes += length;
            // Most transactions have one event; a vector would reserve room for four.
            if self.memory.is_empty() {
                self.memory.reserve_exact(1);
            }
            self.memory.push(rows);
            return Ok(());
        }
        let spill = match &mut self.spilled {
            Some(spill) => spill,
            none => none.insert(Spill::at(Arc::new(nameless(folder)?), 0)),
        };
        spill.push(rows)
    }

    /// Moves all events to a file of the shelf.
    pub(crate) fn shelve(&mut self, shelf: &mut Shelf, folder: &Path) -> io::Result<()> {
        let mut spill = shelf.free(folder)?;
        for rows in self.packets() {
            spill.push(rows?.into_owned())?;
        }
        shelf.end = spill.start + spill.length;
        *self = Self { spilled: Some(spill), ..Self::default() };
        Ok(())
    }

    /// Drops the events after a position.
    pub(crate) fn truncate(&mut self, position: BufferPosition) {
        match &mut self.spilled {
            Some(spill) if position.in_file > 0 => {
                spill.count = position.in_file;
                spill.length = position.length;
            }
            spilled => *spilled = None,
        }
        let kept = position.in_memory.min(self.memory.len());
        // Visit only the dropped events: a transaction may roll back any number of times.
        let bytes = |rows: RowsPacket| rows.packet.event().len() + ENTRY_BYTES;
        self.bytes -= self.memory.drain(kept..).map(bytes).sum::<usize>();
    }

    /// Iterates over the events. Spilled ones are read on demand: blocking, but usually from the page cache.
    pub(crate) fn packets(&self) -> impl Iterator<Item = io::Result<Cow<'_, RowsPacket>>> {
        let spilled = self.spilled.iter().flat_map(|spill| {
            let mut offset = spill.start;
            (0..spill.count).map(move |_| spill.read(&mut offset).map(Cow::Owned))
        });
        self.memory.iter().map(|rows| Ok(Cow::Borrowed(rows))).chain(spilled)
    }
}

impl Shelf {
    /// Returns room for a transaction: in the present file, if others still use it and it is not too long.
    fn free(&mut self, folder: &Path) -> io::Result<Spill> {
        if let Some(file) = &self.file
            && Arc::strong_count(file) > 1
            && self.end < SHELF_BYTES
        {
            return Ok(Spill::at(Arc::clone(file), self.end));
        }
        let file = Arc::new(nameless(folder)?);
        (self.file, self.end) = (Some(Arc::clone(&file)), 0);
        Ok(Spill::at(file, 0))
    }
}

impl Spill {
    fn at(file: Arc<File>, start: u64) -> Self {
        Self { file, start, tables: Vec::new(), count: 0, length: 0 }
    }

    fn push(&mut self, rows: RowsPacket) -> io::Result<()> {
        let table = match self.tables.iter().rposition(|table| Arc::ptr_eq(table, &rows.table)) {
            Some(known) => known,
            None => {
                self.tables.push(Arc::clone(&rows.table));
                self.tables.len() - 1
            }
        };
        let event = rows.packet.event();
        let mut entry = Vec::with_capacity(HEAD_BYTES + event.len());
        entry.extend(u32::try_from(event.len()).map_err(io::Error::other)?.to_le_bytes());
        entry.extend(rows.end.to_le_bytes());
        entry.extend(u32::try_from(table).map_err(io::Error::other)?.to_le_bytes());
        entry.push(rows.change as u8);
        entry.push(rows.version);
        entry.extend(event);
        self.file.write_all_at(&entry, self.start + self.length)?;
        self.count += 1;
        self.length += u64::try_from(entry.len()).unwrap_or(0);
        Ok(())
    }

    /// Reads the event at `offset` and advances `offset` past it.
    fn read(&self, offset: &mut u64) -> io::Result<RowsPacket> {
        let mut head = [0; HEAD_BYTES];
        self.file.read_exact_at(&mut head, *offset)?;
        let mut head = Bytes::new(&head);
        let damaged = |_| io::Error::from(io::ErrorKind::InvalidData);
        let length = head.u32().map_err(damaged)?;
        let end = head.u32().map_err(damaged)?;
        let table = usize::try_from(head.u32().map_err(damaged)?).unwrap_or(usize::MAX);
        let change = head.u8().map_err(damaged)?;
        let version = head.u8().map_err(damaged)?;
        let change = [Change::Insert, Change::Update, Change::Delete]
            .into_iter()
            .find(|known| *known as u8 == change);
        let (Some(table), Some(change)) = (self.tables.get(table), change) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let mut event = vec![0; usize::try_from(length).unwrap_or(0)];
        self.file.read_exact_at(&mut event, *offset + HEAD_BYTES as u64)?;
        *offset += HEAD_BYTES as u64 + u64::from(length);
        let whole = event.len();
        let packet = Packet::new(event, 0, whole);
        Ok(RowsPacket { table: Arc::clone(table), change, version, end, packet })
    }
}

/// Creates a file in `folder` and removes its name at once.
fn nameless(folder: &Path) -> io::Result<File> {
    loop {
        let number = FILES.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("cdc-tailer-{}-{number}.rows", std::process::id()));
        match OpenOptions::new().read(true).write(true).create_new(true).open(&path) {
            // Left by a process with our process id that was killed before it removed the name.
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
pub(crate) mod tests {
    use super::*;

    pub(crate) fn rows(number: u32, bytes: usize) -> RowsPacket {
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

    pub(crate) fn numbers(buffer: &RowBuffer) -> Vec<u32> {
        let numbers = buffer.packets().map(|packet| {
            let packet = packet.unwrap();
            assert_eq!(packet.body()[..4], packet.end.to_le_bytes());
            packet.end
        });
        numbers.collect()
    }

    #[test]
    fn rows_that_do_not_fit_into_memory_come_back_from_the_file_in_order() {
        let folder = std::env::temp_dir();
        let mut buffer = RowBuffer::default();
        let mut positions = Vec::new();
        for number in 0..40 {
            positions.push(buffer.position());
            buffer.push(rows(number, 100_000 + 3 * number as usize), &folder).unwrap();
        }
        assert!(buffer.bytes() <= MEMORY_BYTES && buffer.memory.len() < 40);
        assert_eq!(numbers(&buffer), (0..40).collect::<Vec<_>>());

        let in_memory = buffer.memory.len();
        buffer.truncate(positions[in_memory + 3]);
        buffer.push(rows(99, 50), &folder).unwrap();
        let mut expected: Vec<u32> = (0..).take(in_memory + 3).collect();
        expected.push(99);
        assert_eq!(numbers(&buffer), expected);

        buffer.truncate(positions[2]);
        buffer.push(rows(100, 50), &folder).unwrap();
        assert_eq!(numbers(&buffer), [0, 1, 100]);
        assert_eq!((buffer.len(), buffer.bytes()), (3, 200_053 + 3 * ENTRY_BYTES));
    }

    #[test]
    fn memory_does_not_grow_with_the_number_of_events() {
        const EVENTS: u32 = 100_000;
        let folder = std::env::temp_dir();
        let table = rows(0, 40).table;
        let mut buffer = RowBuffer::default();
        for number in 0..EVENTS {
            let event = RowsPacket { table: Arc::clone(&table), ..rows(number, 40) };
            buffer.push(event, &folder).unwrap();
        }
        assert!(buffer.bytes() <= MEMORY_BYTES);
        assert!(buffer.memory.capacity() * ENTRY_BYTES <= 2 * MEMORY_BYTES, "entries in memory");
        let spill = buffer.spilled.as_ref().unwrap();
        assert_eq!(spill.tables.len(), 1);
        assert_eq!(numbers(&buffer), (0..EVENTS).collect::<Vec<_>>());
    }

    #[test]
    fn transactions_on_a_shelf_share_a_file_and_none_is_kept_behind_the_last_of_them() {
        let folder = std::env::temp_dir();
        let mut shelf = Shelf::default();
        let mut filled = |first: u32, count: u32| {
            let mut buffer = RowBuffer::default();
            for number in first..first + count {
                buffer.push(rows(number, 100_000), &folder).unwrap();
            }
            buffer.shelve(&mut shelf, &folder).unwrap();
            assert_eq!(buffer.bytes(), 0);
            (buffer, Arc::downgrade(shelf.file.as_ref().unwrap()))
        };
        let (small, file) = filled(1, 2);
        let (large, same) = filled(10, 30);
        assert!(file.ptr_eq(&same) && !small.is_empty());
        assert_eq!(numbers(&small), [1, 2]);
        assert_eq!(numbers(&large), (10..40).collect::<Vec<_>>());
        drop(small);
        // After 64 MiB another file begins.
        let many: Vec<_> = (0..22).map(|_| filled(50, 32)).collect();
        assert!(!many.last().unwrap().1.ptr_eq(&file));
        assert_eq!(numbers(&many.last().unwrap().0), (50..82).collect::<Vec<_>>());
        drop((large, many));
        let (last, another) = filled(90, 1);
        assert!(file.upgrade().is_none() && another.strong_count() == 2);
        assert_eq!(numbers(&last), [90]);
    }

    #[test]
    fn a_folder_that_is_not_there_is_an_error() {
        let mut buffer = RowBuffer::default();
        buffer.push(rows(1, MEMORY_BYTES), Path::new("/nowhere")).unwrap();
        assert!(buffer.push(rows(2, 100), Path::new("/nowhere")).is_err());
    }
}
