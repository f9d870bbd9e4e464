//! Logging in as a replica, through a relay of ours.
//!
//! The only file that names `mysql_cdc`. The crate knows the handshake and the ways to prove a password,
//! but it keeps its socket to itself and reads it unbuffered: two system calls for each event, of which a
//! small transaction has five. So it logs in over a relay on the loopback device, and the connection to
//! the server stays ours. Its iterator and its `commit()` lose changes and are never called.

use std::{
    fmt::Write as _,
    io::{self, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs as _},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use mysql_cdc::{
    binlog_client::BinlogClient, binlog_options::BinlogOptions, errors::Error as ClientError,
    replica_options::ReplicaOptions,
};

use crate::{error::TailError, source::Server};

/// How long each address of the server may take to answer: the system asks again after one second and after
/// three. By itself it would go on for two minutes, in which nobody tries the next address or notices that
/// the tailer shall stop.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// How long the relay waits for one side before it looks at the other: a login is a handful of turns.
const TURN: Duration = Duration::from_millis(1);

/// Bytes that the relay carries at once: more than any packet of a login.
const RELAY_BYTES: usize = 16 * 1024;

/// Logs in, and asks for a sign of life every `heartbeat`.
pub(crate) fn log_in(server: &Server, heartbeat: Duration) -> Result<TcpStream, TailError> {
    let places = (server.address.host.as_str(), server.address.port).to_socket_addrs();
    let socket = places.and_then(|places| reach(places, CONNECT_MAX)).map_err(away)?;
    let prepared = socket.set_nodelay(true).and_then(|()| {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let at = listener.local_addr()?;
        Ok((listener, at))
    });
    let (listener, at) = prepared.map_err(away)?;
    let done = AtomicBool::new(false);
    let (said, carried) = thread::scope(|scope| {
        let relay = scope.spawn(|| carry(&listener, &socket, &done));
        let said = handshake(server, at, heartbeat);
        done.store(true, Ordering::Release);
        (said, relay.join())
    });
    said?;
    match carried {
        Ok(Ok(())) => Ok(socket),
        Ok(Err(error)) => Err(away(error)),
        Err(_) => Err(TailError::Connect { reason: "the relay of the login panicked".into() }),
    }
}

/// Connects to the first of the addresses that answers within `limit`.
fn reach(places: impl Iterator<Item = SocketAddr>, limit: Duration) -> io::Result<TcpStream> {
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "its host has no address");
    for place in places {
        match TcpStream::connect_timeout(&place, limit) {
            Ok(socket) => return Ok(socket),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// What the crate does.
fn handshake(server: &Server, at: SocketAddr, heartbeat: Duration) -> Result<(), TailError> {
    let client = BinlogClient::new(ReplicaOptions {
        hostname: at.ip().to_string(),
        port: at.port(),
        username: server.address.user.clone(),
        password: server.address.password.expose().to_owned(),
        server_id: server.server_id,
        heartbeat_interval: heartbeat,
        binlog: BinlogOptions::from_end(),
        ..ReplicaOptions::default()
    });
    let spoken = catch_unwind(AssertUnwindSafe(|| {
        let mut client = client;
        let (mut channel, _) = client.connect()?;
        client.set_master_heartbeat(&mut channel)?;
        // Last: after a quick proof of the password it reads one packet more than it is answered, and
        // only this answer has one to spare.
        client.set_master_binlog_checksum(&mut channel)
    }));
    match spoken {
        Ok(checksum) => checksum.map(drop).map_err(refused),
        // It takes what the server sends for well formed.
        Err(_) => Err(TailError::Connect { reason: "malformed handshake".into() }),
    }
}

/// Carries bytes between the crate and the server until the crate hangs up: the server speaks only when it
/// was asked, so that nothing of it is on its way then. `done`: whoever has not called by now never will.
fn carry(listener: &TcpListener, mut server: &TcpStream, done: &AtomicBool) -> io::Result<()> {
    let mut client = loop {
        match listener.accept() {
            Ok((client, _)) => break client,
            Err(error) if is_patient(&error) && !done.load(Ordering::Acquire) => {
                thread::sleep(TURN);
            }
            Err(error) => return Err(error),
        }
    };
    client.set_nonblocking(false)?;
    client.set_nodelay(true)?;
    client.set_read_timeout(Some(TURN))?;
    server.set_read_timeout(Some(TURN))?;
    let mut bytes = [0; RELAY_BYTES];
    loop {
        match turn(&mut client, &mut bytes)? {
            Said::Bytes(asked) => server.write_all(&bytes[..asked])?,
            Said::Nothing => {}
            Said::Goodbye => return Ok(()),
        }
        match turn(&mut server, &mut bytes)? {
            Said::Bytes(answered) => client.write_all(&bytes[..answered])?,
            Said::Nothing => {}
            Said::Goodbye => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// What one side had to say within its turn.
enum Said {
    Bytes(usize),
    Nothing,
    Goodbye,
}

fn turn(side: &mut impl io::Read, bytes: &mut [u8]) -> io::Result<Said> {
    match side.read(bytes) {
        Ok(0) => Ok(Said::Goodbye),
        Ok(length) => Ok(Said::Bytes(length)),
        Err(error) if is_patient(&error) => Ok(Said::Nothing),
        Err(error) => Err(error),
    }
}

fn is_patient(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

fn away(error: io::Error) -> TailError {
    TailError::Connect { reason: error.to_string() }
}

/// The client library's errors have no text of their own; the server's number is inside.
fn refused(error: ClientError) -> TailError {
    let mut reason = String::new();
    // Writing to a string cannot fail.
    let _written = match error {
        ClientError::String(text) => write!(reason, "{text}"),
        ClientError::IoError(error) => write!(reason, "{error}"),
        other => write!(reason, "{other:?}"),
    };
    // Access denied, to a database, by plugin, for lack of a privilege; unknown plugin.
    let denied = ["1045", "1044", "1698", "1227", "1251"];
    let said = |code: &&str| reason.contains(&format!("error_code: {code}"));
    match denied.iter().any(said) || reason.contains("auth plugin is not supported") {
        true => TailError::Denied { reason },
        false => TailError::Connect { reason },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{address::Address, position::Flavor};

    /// More than any listener of the standard library lets wait.
    const CALLERS_MAX: usize = 5_000;

    fn server_at(at: SocketAddr) -> Server {
        let address = Address::parse(&format!("mysql://u:p@{at}/db")).unwrap();
        Server { address, flavor: Flavor::MariaDb, server_id: 1, packet_bytes_max: 1024 }
    }

    /// What becomes of a login at a server that says `greeting` and hangs up.
    fn at_one_that_says(greeting: &'static [u8]) -> TailError {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let server = server_at(listener.local_addr().unwrap());
        let speaker = thread::spawn(move || {
            let (mut caller, _) = listener.accept().unwrap();
            caller.write_all(greeting).unwrap();
        });
        let ended = log_in(&server, Duration::from_secs(1)).map(drop).unwrap_err();
        speaker.join().unwrap();
        ended
    }

    #[test]
    fn a_server_that_hangs_up_or_talks_nonsense_is_one_that_cannot_be_reached() {
        for greeting in
            [&b""[..], b"\x01", b"\x05\x00\x00\x00\x0a1.2", b"\x00\x00\x00\x00", &[0xff; 64]]
        {
            let ended = at_one_that_says(greeting);
            assert!(matches!(ended, TailError::Connect { .. }), "{greeting:?}: {ended:?}");
        }
    }

    #[test]
    fn a_server_that_refuses_the_user_is_told_from_one_that_is_away() {
        // Error 1045.
        let ended = at_one_that_says(b"\x10\x00\x00\x00\xff\x15\x04#28000Denied.");
        assert!(matches!(ended, TailError::Denied { .. }), "{ended:?}");
    }

    #[test]
    fn a_server_that_is_not_there_is_said_to_be_away() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let server = server_at(listener.local_addr().unwrap());
        drop(listener);
        let ended = log_in(&server, Duration::from_secs(1)).map(drop).unwrap_err();
        assert!(matches!(ended, TailError::Connect { .. }), "{ended:?}");
    }

    #[test]
    fn of_several_addresses_the_first_that_answers_is_taken() {
        let [one, other] = [(); 2].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
        let places = [&one, &other].map(|listener| listener.local_addr().unwrap());
        drop(one);
        let limit = Duration::from_secs(1);
        let reached = reach(places.into_iter(), limit).unwrap();
        assert_eq!(reached.peer_addr().unwrap(), places[1]);
        drop(other);
        assert!(reach(places.into_iter(), limit).is_err());
        assert!(reach([].into_iter(), limit).is_err());
    }

    #[test]
    fn an_address_that_does_not_answer_is_given_up_in_time() {
        let limit = Duration::from_millis(200);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let silent = listener.local_addr().unwrap();
        // Nobody accepts: once its queue is full, it leaves callers without an answer.
        let mut waiting = Vec::new();
        while let Ok(caller) = TcpStream::connect_timeout(&silent, limit) {
            waiting.push(caller);
            assert!(waiting.len() < CALLERS_MAX, "the queue of a listener has no end");
        }
        let answering = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let places = [silent, answering.local_addr().unwrap()];
        let reached = reach(places.into_iter(), limit).unwrap();
        assert_eq!(reached.peer_addr().unwrap(), places[1]);
        let given_up = reach([silent].into_iter(), limit).unwrap_err();
        assert_eq!(given_up.kind(), io::ErrorKind::TimedOut);
    }
}
