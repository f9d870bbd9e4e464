//! Whether a server was started anew while no tailer followed it. It may have run without its binlog meanwhile, and what
//! it committed then is in no file: the GTIDs before and after such a run are continuous.
//!
//! Each start of a server begins a binlog file whose head says when. Other files follow the one before them under the
//! same run, and have the next number.

use std::sync::Arc;

use crate::{
    binlog::{
        event::{Body, HEADER_LENGTH, Header},
        position::{File, file_number},
    },
    error::{Directive, TailError},
    source::{
        BinlogSource as _, Server,
        connection::{Connection, FIRST_EVENT},
        same_history::files,
    },
};

/// Whether a server's run goes on.
pub(crate) enum Run {
    /// It does, up to this file.
    GoesOnTo(Arc<File>),
    /// For this reason it may have run without its binlog meanwhile.
    Unknown(String),
}

/// Checks the files behind the last one that a tailer has followed.
///
/// # Errors
/// It could not be checked.
pub(crate) fn since(server: &Server, followed: Arc<File>) -> Result<Run, TailError> {
    let mut beside = Connection::beside(server)?;
    // Another one has its own runs: what it has by replication is proven by GTIDs.
    if followed.name.is_empty() || !is_one_server(beside.identity(), &followed.server) {
        return Ok(Run::GoesOnTo(followed));
    }
    let mut newest = followed.name.clone();
    let mut number = file_number(&followed.name);
    for file in files(&mut beside)? {
        let next = file_number(&file);
        if next <= number {
            continue;
        }
        if next > number + 1 {
            return Ok(Run::Unknown(format!(
                "files between {newest} and {file} are gone, and the server may have run without its binlog before \
                 one of them"
            )));
        }
        let begins_a_run = match begins_a_run(server, &file) {
            // It was purged meanwhile.
            Err(error) if error.directive() == Directive::Resnapshot => true,
            looked => looked?,
        };
        if begins_a_run {
            return Ok(Run::Unknown(format!(
                "the server was started anew at {file} while no tailer followed it, and may have run without its \
                 binlog before"
            )));
        }
        (newest, number) = (file, next);
    }
    Ok(Run::GoesOnTo(Arc::new(File { server: followed.server.clone(), name: newest })))
}

/// Returns whether two identities, `server_id/uuid`, are of one server. Its id is a setting.
pub(crate) fn is_one_server(one: &str, other: &str) -> bool {
    let uuid = |identity: &str| identity.split_once('/').map(|(_, uuid)| uuid.to_owned());
    one == other || uuid(one).is_some_and(|uuid| !uuid.is_empty()) && uuid(one) == uuid(other)
}

/// Returns whether a file is the first one of a server's run.
fn begins_a_run(server: &Server, file: &str) -> Result<bool, TailError> {
    let mut connection = Connection::beside(server)?;
    connection.dump_file(file, FIRST_EVENT)?;
    loop {
        let packet = connection.next_packet()?;
        let event = packet.event();
        let truncated = |source| TailError::Truncated { kind: 0, source };
        let header = Header::parse(event).map_err(truncated)?;
        if let Body::FormatDescription { begins_a_run } =
            Body::parse(&header, &event[HEADER_LENGTH..]).map_err(truncated)?
        {
            return Ok(begins_a_run);
        }
    }
}
