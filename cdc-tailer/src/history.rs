//! Whether the history that a server holds is the one that was read.
//!
//! A name is no proof. After `reset master`, and on a server that was restored from a backup, other
//! transactions get the names that were told before; on MariaDB the numbers of two servers that never
//! heard of each other are alike. Whoever goes on by name alone leaves out what has those names now. So
//! each position knows the transaction that ends there, by its place and by what a server wrote there, and
//! every connection looks for it first:
//!
//! - on the same server at its file and offset, where its first and last event must be the same bytes;
//! - on another MariaDB under its name, where its rows must have been written in the same second: a
//!   replica keeps that time. On another MySQL names say which server gave them, so all of them must be there;
//! - where its file was removed, everything up to our position was: the oldest file begins right there.
//!
//! Whatever is found otherwise is another history, and leads to a snapshot.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    connection::{Connection, FIRST_EVENT, NOBODY, Wait},
    error::{Directive, TailError},
    event::{Body, HEADER_LENGTH, Header, Role},
    position::{Flavor, Gtid, GtidSet},
    resume::{File, Landmark, Last, Position, Tracker},
    source::{BinlogSource as _, Origin, Server},
    standing::file_number,
    wire::AnswerRow,
};

/// How often a stream that has nothing more is looked after. It costs the server a listing of its files.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// A transaction as it is found in a binlog.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Found {
    gtid: Gtid,
    landmark: Landmark,
    /// Offset behind it.
    end: u32,
}

/// What looking at a place gave.
enum Look {
    Found(Found),
    /// There is no such place, or no transaction.
    Nothing,
    /// There is no such file.
    NoFile,
}

/// Looks for the transaction that ends at the origin's position, on the server that `identity` names and
/// that a stream was opened to.
///
/// # Errors
/// [`TailError::PositionLost`]: the history is another one. Others: it could not be looked at.
pub(crate) fn prove(origin: &Origin, identity: &str) -> Result<(), TailError> {
    let after = &origin.after;
    // From the first transaction on there is nothing that could have been left out.
    if after.gtids.is_empty() {
        return Ok(());
    }
    let mut server = Connection::beside(&origin.server)?;
    if server.identity() != identity {
        let reason = "its address leads to several servers".to_owned();
        return Err(TailError::Connect { reason });
    }
    let is_known = after.file.server == identity;
    let otherwise = match (&after.last, is_known) {
        (Some(last), true) => {
            server.dump_file(&after.file.name, last.landmark.start)?;
            match first_found(&mut server)? {
                Look::Found(found) if is_same(&found, last, after.offset) => None,
                Look::Found(found) => Some(format!("{} is there", found.gtid)),
                Look::Nothing => Some("nothing is there".to_owned()),
                Look::NoFile => begins_there(&origin.server, after)?,
            }
        }
        (None, true) => begins_there(&origin.server, after)?,
        (last, false) => succeeds(server, after, last.as_ref())?,
    };
    let Some(otherwise) = otherwise else { return Ok(()) };
    let (was, at) = (&after.file.server, &after.gtids);
    Err(TailError::PositionLost {
        reason: format!(
            "its history is another one than was read up to {at} of server {was} ({} at {}): {otherwise}",
            after.file.name, after.offset
        ),
    })
}

/// Looks now and then, while a stream has nothing more, whether it is of a file that is still there: a server
/// whose binlog was reset leaves whoever reads the old file waiting until the new one is longer.
#[derive(Default)]
pub(crate) struct Watch {
    beside: Option<Connection>,
    looked: Option<Instant>,
}

impl Watch {
    /// The stream is in `file` and waits behind `offset`.
    ///
    /// # Errors
    /// The server has no such file, or not so much of it.
    pub(crate) fn look(
        &mut self,
        server: &Server,
        file: &File,
        offset: u32,
    ) -> Result<(), TailError> {
        if self.looked.is_some_and(|looked| looked.elapsed() < LOOK_EVERY) {
            return Ok(());
        }
        self.looked = Some(Instant::now());
        // One that cannot be asked is away, which the stream notices itself.
        let Ok(mut beside) = self.beside.take().map_or_else(|| Connection::beside(server), Ok)
        else {
            return Ok(());
        };
        let Ok(files) = sizes(&mut beside) else { return Ok(()) };
        self.beside = Some(beside);
        let held = files.iter().find(|(name, _)| *name == file.name).map(|(_, bytes)| *bytes);
        if held.is_some_and(|bytes| bytes >= u64::from(offset)) {
            return Ok(());
        }
        let reason = format!("{} was removed or replaced under the stream", file.name);
        Err(TailError::Unreadable { reason })
    }
}

/// A position at the end of `gtids`, with the transaction by which it is known again.
pub(crate) fn locate(server: &Server, gtids: GtidSet) -> Result<Position, TailError> {
    let mut beside = Connection::beside(server)?;
    let files = files(&mut beside)?;
    let Some(newest) = files.last() else { return Ok(Position::of(gtids)) };
    let mut seen = Position::of(beginning(&mut beside, newest, gtids.flavor())?);
    let server = beside.identity().to_owned();
    seen.file = Arc::new(File { server, name: newest.clone() });
    seen.offset = u64::from(FIRST_EVENT);
    beside.dump_file(newest, FIRST_EVENT)?;
    let mut scan = Scan::new(&mut beside);
    while let Look::Found(Found { gtid, landmark, end }) = scan.next_found()?
        && gtids.contains(&gtid)
    {
        let file = Arc::clone(&seen.file);
        seen.pass(gtid, file, end, landmark);
    }
    Ok(Position { gtids, ..seen })
}

fn is_same(found: &Found, last: &Last, offset: u64) -> bool {
    found.gtid == last.gtid && found.landmark == last.landmark && u64::from(found.end) == offset
}

/// Why the oldest file, or the position's own, does not begin at the position; `None`: it does.
fn begins_there(server: &Server, after: &Position) -> Result<Option<String>, TailError> {
    let mut server = Connection::beside(server)?;
    let files = files(&mut server)?;
    let own = files.iter().find(|name| **name == after.file.name && after.last.is_none());
    let behind = |name: &&String| file_number(name) > file_number(&after.file.name);
    let Some(file) = own.or(files.first().filter(behind)) else {
        return Ok(Some("its file is not there".to_owned()));
    };
    let begins = beginning(&mut server, file, after.gtids.flavor())?;
    Ok((begins != after.gtids).then(|| format!("{file} begins behind {begins}")))
}

/// The position at the beginning of a file.
fn beginning(server: &mut Connection, file: &str, flavor: Flavor) -> Result<GtidSet, TailError> {
    let query = match flavor {
        Flavor::MariaDb => format!("select binlog_gtid_pos('{file}', {FIRST_EVENT})"),
        Flavor::MySql => format!("show binlog events in '{file}' limit 2"),
    };
    // MySQL tells it of the second event, in the last column.
    let rows = server.rows(&query)?;
    let text = rows.last().and_then(|row| row.last().cloned().flatten()).unwrap_or_default();
    let text: String = text.split_whitespace().collect();
    Ok(GtidSet::parse(flavor, &text)?)
}

/// Why another server than the position's does not take that one's place; `None`: it does.
fn succeeds(
    mut server: Connection,
    after: &Position,
    last: Option<&Last>,
) -> Result<Option<String>, TailError> {
    if after.gtids.flavor() == Flavor::MySql {
        let query = format!("select gtid_subset('{}', @@global.gtid_executed)", after.gtids);
        let rows = server.rows(&query)?;
        let all = rows.first().and_then(|row| row.first().cloned().flatten());
        let lacks = || "it lacks some of them".to_owned();
        return Ok((all.as_deref() != Some("1")).then(lacks));
    }
    let Some(last) = last else {
        return Ok(Some("no transaction is known by which it could be recognised".to_owned()));
    };
    server.dump_after(&after.before(last), NOBODY, Wait::No)?;
    Ok(match first_found(&mut server)? {
        Look::Found(found) if found.gtid != last.gtid => Some(format!("{} is there", found.gtid)),
        Look::Found(found) if found.landmark.written != last.landmark.written => {
            Some(format!("its {} was written at another time", last.gtid))
        }
        Look::Found(_) => None,
        Look::Nothing | Look::NoFile => Some(format!("it does not have {}", last.gtid)),
    })
}

/// The names of the binlog files, the oldest first.
fn files(server: &mut Connection) -> Result<Vec<String>, TailError> {
    Ok(sizes(server)?.into_iter().map(|(name, _)| name).collect())
}

/// The same, with their bytes.
fn sizes(server: &mut Connection) -> Result<Vec<(String, u64)>, TailError> {
    let rows = server.rows("show binary logs")?;
    let file = |row: AnswerRow| {
        let mut columns = row.into_iter().flatten();
        Some((columns.next()?, columns.next()?.parse().ok()?))
    };
    Ok(rows.into_iter().filter_map(file).collect())
}

fn first_found(server: &mut Connection) -> Result<Look, TailError> {
    Scan::new(server).next_found()
}

/// Finds the transactions of a stream, without what is in them.
struct Scan<'a> {
    server: &'a mut Connection,
    tracker: Tracker,
    open: Option<Found>,
    ended: bool,
}

impl<'a> Scan<'a> {
    fn new(server: &'a mut Connection) -> Self {
        Self { server, tracker: Tracker::default(), open: None, ended: false }
    }

    /// The next transaction, known to be whole when another one begins or nothing more comes.
    fn next_found(&mut self) -> Result<Look, TailError> {
        while !self.ended {
            let packet = match self.server.next_packet() {
                Ok(packet) => packet,
                Err(error) => {
                    self.ended = true;
                    return match nothing_there(&error) {
                        Some(Look::Nothing) => Ok(self.take()),
                        Some(look) => Ok(look),
                        None => Err(error),
                    };
                }
            };
            if let Some(found) = self.look(packet.event()) {
                return Ok(Look::Found(found));
            }
        }
        Ok(Look::Nothing)
    }

    /// What was open, if this begins another.
    fn look(&mut self, event: &[u8]) -> Option<Found> {
        let header = Header::parse(event).ok()?;
        self.tracker.look(&header, event);
        if let Ok(Body::Begin { gtid, .. }) = Body::parse(&header, &event[HEADER_LENGTH..]) {
            return self.open.replace(Found { gtid, landmark: Landmark::default(), end: 0 });
        }
        if let (Some(open), Role::MayEnd) = (&mut self.open, Role::of(header.kind)) {
            open.landmark = self.tracker.landmark();
            open.end = header.end;
        }
        None
    }

    fn take(&mut self) -> Look {
        self.open.take().map_or(Look::Nothing, Look::Found)
    }
}

/// What an error says of a place in the binlog: its end, or no event there, or no file. `None`: nothing.
fn nothing_there(error: &TailError) -> Option<Look> {
    const CANNOT_READ_BINLOG: u16 = 1236;
    match error {
        TailError::PositionLost { reason } if reason.contains("first log file") => {
            Some(Look::NoFile)
        }
        TailError::PositionLost { .. }
        | TailError::Ended { .. }
        | TailError::Server { code: CANNOT_READ_BINLOG, .. } => Some(Look::Nothing),
        // In another history an event may begin anywhere.
        error if error.directive() == Directive::Suspect => Some(Look::Nothing),
        _ => None,
    }
}
