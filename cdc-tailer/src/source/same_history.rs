//! Checks whether a position, such as a checkpoint's, still fits the server: its binlog history must be the one that
//! was read.
//!
//! GTIDs are not sufficient. After `reset master`, and on a server restored from a backup, new transactions get GTIDs
//! that were already published. On MariaDB even unrelated servers may assign the same GTIDs. Resuming by GTID alone
//! would skip the new transactions. So each position records the transaction that ends there: its offset, its time and
//! a checksum of its bytes. Every connection first looks for that transaction:
//!
//! - On the same server, at its file and offset: its first and last event must have the same bytes. For MySQL the uuid
//!   alone identifies the server: its server id is a setting, and GTIDs do not contain it.
//! - On another server, by its GTID: its rows must have been written in the same second, as a replica keeps that time.
//!   Another MySQL must also have executed all our GTIDs: a GTID names the server that assigned it, but not which of
//!   that server's histories it belongs to.
//! - If its file was purged, everything up to our position must have been purged: the oldest file begins exactly there.
//!
//! The head of each later file names what the files before it hold. All of it must have been read.
//!
//! In every other case the history differs, and the tailer takes a snapshot.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    binlog::{
        event::{Body, HEADER_LENGTH, Header, Role},
        gtid::{Flavor, Gtid, GtidSet},
        position::{File, Landmark, Last, Position, Tracker, file_number},
    },
    error::{Directive, TailError},
    source::{
        BinlogSource as _, Origin, Server,
        connection::{Connection, FIRST_EVENT, NO_SERVER_ID, Wait},
        restarts,
        wire::AnswerRow,
    },
};

/// Interval between checks of an idle stream. Each makes the server list its files.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// A transaction found in a binlog.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Found {
    gtid: Gtid,
    landmark: Landmark,
    /// Offset of its end.
    end: u32,
}

/// Result of searching at an offset.
enum Look {
    Found(Found),
    /// No such offset, or no transaction there.
    Nothing,
    /// No such file.
    NoFile,
}

/// Proves, by the transaction that ends at the origin's position, that the server has the history that led there.
/// `identity` is that of the server to which the stream was opened.
///
/// # Errors
/// [`TailError::PositionLost`] if the history differs. Other errors if it could not be checked.
pub(crate) fn prove(origin: &Origin, identity: &str) -> Result<(), TailError> {
    let after = &origin.after;
    // Before the first transaction nothing can have been skipped.
    if after.gtids.is_empty() {
        return Ok(());
    }
    let mut server = Connection::beside(&origin.server)?;
    if server.identity() != identity {
        let reason = "its address leads to several servers".to_owned();
        return Err(TailError::Connect { reason });
    }
    let is_known = is_same_server(after.gtids.flavor(), &after.file.server, identity);
    let otherwise = match (&after.last, is_known) {
        (Some(last), true) => {
            server.dump_file(&after.file.name, last.landmark.start)?;
            match first_found(&mut server)? {
                Look::Found(found) if is_same(&found, last, after.offset) => None,
                Look::Found(found) => Some(format!("{} is there", found.gtid)),
                Look::Nothing => Some("nothing is there".to_owned()),
                Look::NoFile => begins_elsewhere(&origin.server, after)?,
            }
        }
        (None, true) => begins_elsewhere(&origin.server, after)?,
        (last, false) => continues_another(server, after, last.as_ref())?,
    };
    let Some(otherwise) = otherwise else { return Ok(()) };
    let was = &after.file.server;
    let at = &after.gtids;
    Err(TailError::PositionLost {
        reason: format!(
            "its history is another one than was read up to {at} of server {was} ({} at {}): {otherwise}",
            after.file.name, after.offset
        ),
    })
}

/// Checks at the head of a file that everything in the files before it has been read. The server does not notice that
/// a file between two others is missing: it goes on with the next one of its index.
///
/// # Errors
/// [`TailError::PositionLost`] if something has not been read.
pub(crate) fn is_whole(after: &Position, file: &File, before: &GtidSet) -> Result<(), TailError> {
    if after.gtids.covers(before) {
        return Ok(());
    }
    let reason = format!(
        "{} begins behind {before}, and {} was read: a file is missing between",
        file.name, after.gtids
    );
    Err(TailError::PositionLost { reason })
}

/// Checks from time to time that the file of an idle stream still exists, and that the address still leads to its server.
/// After a reset of the binlog, the server lets readers of the old file wait until the new file is longer. After a
/// failover, the old primary may keep running, and nothing happens there any more.
#[derive(Default)]
pub(crate) struct Watch {
    beside: Option<Connection>,
    looked: Option<Instant>,
}

impl Watch {
    /// Checks `file`, which the stream has read up to `offset`.
    ///
    /// # Errors
    /// The server has no such file, or a shorter one; or it takes no more writes and the address leads to another one.
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
        // The stream itself detects a server that is unreachable.
        let Ok(mut beside) = self.beside.take().map_or_else(|| Connection::beside(server), Ok)
        else {
            return Ok(());
        };
        let Ok(files) = sizes(&mut beside) else { return Ok(()) };
        if beside.identity() != file.server || has_moved(server, &mut beside) {
            let reason = "its address leads to another server now".to_owned();
            return Err(TailError::Connect { reason });
        }
        self.beside = Some(beside);
        let held = files.iter().find(|(name, _)| *name == file.name).map(|(_, bytes)| *bytes);
        if held.is_some_and(|bytes| bytes >= u64::from(offset)) {
            return Ok(());
        }
        let reason = format!("{} was removed or replaced under the stream", file.name);
        Err(TailError::Unreadable { reason })
    }
}

/// Returns whether a server takes no more writes and its address leads to another one.
fn has_moved(server: &Server, beside: &mut Connection) -> bool {
    let Ok(rows) = beside.rows("select @@global.read_only") else { return false };
    let is_read_only = rows.first().and_then(|row| row.first().cloned().flatten());
    // A replica that is followed on purpose is still where its address leads.
    is_read_only.as_deref() == Some("1")
        && Connection::beside(server).is_ok_and(|now| now.identity() != beside.identity())
}

/// Returns the position at the end of `gtids`, with the transaction that identifies it.
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
        seen.pass(gtid, file, end, landmark, None);
    }
    Ok(Position { gtids, ..seen })
}

/// Returns whether two identities, `server_id/uuid`, belong to one server.
///
/// A MySQL with another server id may have restarted its GTIDs; then only the landmark shows that its history differs.
/// A MariaDB with another server id is a replica that took its place, or it writes other GTIDs; `continues_another`
/// distinguishes the two.
fn is_same_server(flavor: Flavor, one: &str, other: &str) -> bool {
    match flavor {
        Flavor::MariaDb => one == other,
        Flavor::MySql => restarts::is_one_server(one, other),
    }
}

fn is_same(found: &Found, last: &Last, offset: u64) -> bool {
    found.gtid == last.gtid && found.landmark == last.landmark && u64::from(found.end) == offset
}

/// Returns where the position's own file, or else the oldest one, begins; `None` if it begins exactly at the position.
fn begins_elsewhere(server: &Server, after: &Position) -> Result<Option<String>, TailError> {
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

/// Returns the GTIDs before a file.
fn beginning(server: &mut Connection, file: &str, flavor: Flavor) -> Result<GtidSet, TailError> {
    let query = match flavor {
        Flavor::MariaDb => format!("select binlog_gtid_pos('{file}', {FIRST_EVENT})"),
        Flavor::MySql => format!("show binlog events in '{file}' limit 2"),
    };
    // MySQL returns them in the last column of the second event.
    let rows = server.rows(&query)?;
    let text = rows.last().and_then(|row| row.last().cloned().flatten()).unwrap_or_default();
    let text: String = text.split_whitespace().collect();
    Ok(GtidSet::parse(flavor, &text)?)
}

/// Returns why a server other than the position's continues another history; `None` if it continues the same one.
fn continues_another(
    mut server: Connection,
    after: &Position,
    last: Option<&Last>,
) -> Result<Option<String>, TailError> {
    let is_mysql = after.gtids.flavor() == Flavor::MySql;
    if is_mysql && !has_all(&mut server, &after.gtids)? {
        return Ok(Some("it lacks some of them".to_owned()));
    }
    let Some(last) = last else {
        return Ok(Some("no transaction is known by which it could be recognised".to_owned()));
    };
    server.dump_after(&after.before(last), NO_SERVER_ID, Wait::No)?;
    let mut scan = Scan::new(&mut server);
    let look = loop {
        match scan.next_found()? {
            // A MySQL may have transactions before ours that we have not read.
            Look::Found(found) if is_mysql && found.gtid != last.gtid => {}
            look => break look,
        }
    };
    Ok(match look {
        Look::Found(found) if found.gtid != last.gtid => Some(format!("{} is there", found.gtid)),
        Look::Found(found) if found.landmark.written != last.landmark.written => {
            Some(format!("its {} was written at another time", last.gtid))
        }
        Look::Found(_) => None,
        Look::Nothing | Look::NoFile => Some(format!("it does not have {}", last.gtid)),
    })
}

/// Returns whether a MySQL has executed all of `gtids`.
fn has_all(server: &mut Connection, gtids: &GtidSet) -> Result<bool, TailError> {
    let query = format!("select gtid_subset('{gtids}', @@global.gtid_executed)");
    let rows = server.rows(&query)?;
    let all = rows.first().and_then(|row| row.first().cloned().flatten());
    Ok(all.as_deref() == Some("1"))
}

/// Returns the names of the binlog files, oldest first.
pub(super) fn files(server: &mut Connection) -> Result<Vec<String>, TailError> {
    Ok(sizes(server)?.into_iter().map(|(name, _)| name).collect())
}

/// Returns the names and sizes of the binlog files.
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

/// Finds the transactions of a stream, without their contents.
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

    /// Returns the next transaction. It is complete once another one begins or the stream ends.
    fn next_found(&mut self) -> Result<Look, TailError> {
        while !self.ended {
            let packet = match self.server.next_packet() {
                Ok(packet) => packet,
                Err(error) => {
                    self.ended = true;
                    return match meaning_of(&error) {
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

    /// Returns the open transaction if this event begins another.
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

/// Returns what an error means for a search: no transaction at the offset, or no such file. `None`: the search itself
/// failed.
fn meaning_of(error: &TailError) -> Option<Look> {
    const CANNOT_READ_BINLOG: u16 = 1236;
    match error {
        TailError::PositionLost { reason } if reason.contains("first log file") => {
            Some(Look::NoFile)
        }
        TailError::PositionLost { .. }
        | TailError::Ended { .. }
        | TailError::Server { code: CANNOT_READ_BINLOG, .. } => Some(Look::Nothing),
        // In another history the offset may lie inside an event.
        error if error.directive() == Directive::Suspect => Some(Look::Nothing),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_whose_head_names_what_was_not_read_has_one_missing_before_it() {
        const UUID: &str = "00000000-0000-0000-0000-000000000001";
        let mysql = |numbers: &str| (Flavor::MySql, format!("{UUID}:{numbers}"));
        let mariadb = |sequence: &str| (Flavor::MariaDb, format!("0-1-{sequence}"));
        let parsed = |(flavor, text): (Flavor, String)| GtidSet::parse(flavor, &text).unwrap();
        let file = File { server: "1/u".into(), name: "binlog.000003".into() };
        for (read, before, whole) in [
            (mysql("1-7"), mysql("1-7"), true),
            (mysql("1-7"), mysql("1-5"), true),
            (mysql("1-7"), mysql("1-8"), false),
            (mysql("1-3:5-7"), mysql("1-7"), false),
            (mariadb("7"), mariadb("7"), true),
            (mariadb("7"), mariadb("8"), false),
        ] {
            let read = parsed(read);
            let before = parsed(before);
            let said = is_whole(&Position::of(read), &file, &before).map_err(|it| it.to_string());
            assert_eq!(said.is_ok(), whole, "{before}: {said:?}");
            assert!(said.is_ok() || said.unwrap_err().contains("a file is missing between"));
        }
    }
}
