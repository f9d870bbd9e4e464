//! Tests with fake and broken servers. `src/tests/logins.rs` tests real ones.

use std::{
    net::{Ipv4Addr, Shutdown, TcpListener},
    thread,
};

use proptest::prelude::*;

use super::*;
use crate::error::Directive;

/// More than the backlog of any listener of the standard library.
const CALLERS_MAX: usize = 5_000;

/// Time limit of a login that must fail.
const SOON: Duration = Duration::from_millis(300);

const SILENCE: Duration = Duration::from_secs(1);

/// Capabilities of a server: protocol, challenge, authentication plugins; and TLS.
const PLAIN: u32 = 0x0028_8201;
const WITH_TLS: u32 = PLAIN | 0x800;

fn address(at: SocketAddr, options: &str) -> Address {
    Address::parse(&format!("mysql://u:p@{at}/db{options}")).unwrap()
}

/// Returns a packet with its length and number.
fn packet(number: u8, bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap().to_le_bytes();
    [&length[..3], &[number], bytes].concat()
}

/// Returns a server's greeting.
fn greeting(plugin: &str, capabilities: u32, challenge_length: u8) -> Vec<u8> {
    let [one, two, three, four] = capabilities.to_le_bytes();
    let parts = [
        b"\x0a9.7.0\0\x07\0\0\0".as_slice(),
        b"01234567\0",
        &[one, two, COLLATION, 2, 0, three, four, challenge_length],
        &[0; 10],
        b"890123456789\0",
        plugin.as_bytes(),
        &[0],
    ];
    packet(0, &parts.concat())
}

/// Logs in to a server that sends `said` and then runs `then`; returns the error.
fn at_one_that(
    options: &str,
    said: Vec<u8>,
    then: impl FnOnce(TcpStream) + Send + 'static,
) -> TailError {
    within(LOGIN_MAX, options, said, then)
}

fn within(
    limit: Duration,
    options: &str,
    said: Vec<u8>,
    then: impl FnOnce(TcpStream) + Send + 'static,
) -> TailError {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = address(listener.local_addr().unwrap(), options);
    let speaker = thread::spawn(move || {
        let (mut caller, _) = listener.accept().unwrap();
        caller.write_all(&said).unwrap();
        then(caller);
    });
    let ended = log_in_within(&address, SILENCE, limit).map(drop).unwrap_err();
    speaker.join().unwrap();
    ended
}

/// Reads until the client disconnects.
fn listen(mut caller: TcpStream) {
    while !matches!(caller.read(&mut [0; 1024]), Ok(0) | Err(_)) {}
}

#[test]
fn a_server_that_hangs_up_or_talks_nonsense_is_one_that_cannot_be_reached() {
    let native = || greeting("mysql_native_password", PLAIN, 21);
    for said in [
        vec![],
        vec![1],
        b"\x05\x00\x00\x00\x0a1.2".to_vec(),
        vec![0; 4],
        vec![0xff; 64],
        b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
        // Invalid length of the challenge.
        greeting("mysql_native_password", PLAIN, 0x80),
        [native(), packet(2, b"")].concat(),
        [native(), packet(2, b"\x05")].concat(),
        [native(), packet(2, b"\xfe")].concat(),
        [native(), packet(2, b"\x01\x04")].concat(),
        // Error 1040: too many connections.
        packet(0, b"\xff\x10\x04Too many connections"),
        [greeting("caching_sha2_password", PLAIN, 21), packet(2, b"\x01no key")].concat(),
    ] {
        let ended = at_one_that("", said.clone(), |mut caller| {
            // Closing with unread bytes resets the connection and discards what was sent.
            drop(caller.shutdown(Shutdown::Write));
            let _rest = caller.read_to_end(&mut Vec::new());
        });
        assert!(matches!(ended, TailError::Connect { .. }), "{said:?}: {ended:?}");
        assert_eq!(ended.directive(), Directive::Reconnect);
    }
}

#[test]
fn a_server_that_says_nothing_or_hardly_anything_is_given_up_in_time() {
    let late = |ended: TailError| {
        assert!(ended.to_string().contains("did not end the login in time"), "{ended}");
    };
    late(within(SOON, "", vec![], listen));
    late(within(SOON, "", greeting("mysql_native_password", PLAIN, 21), listen));
    let by_tls = "?ssl-mode=REQUIRED";
    late(within(SOON, by_tls, greeting("mysql_native_password", WITH_TLS, 21), listen));
    // A byte at short intervals keeps each single read short.
    late(within(SOON, "", vec![0xff, 0, 0, 0], |mut caller| {
        while caller.write_all(&[0]).is_ok() {
            thread::sleep(SOON / 20);
        }
    }));
}

#[test]
fn a_server_that_refuses_the_user_is_distinguished_from_one_that_is_away() {
    let denied = packet(0, b"\xff\x15\x04#28000Denied.");
    let ended = at_one_that("", denied, listen);
    assert!(matches!(&ended, TailError::Denied { reason } if reason == "Denied."), "{ended:?}");
    let prohibited = packet(0, b"\xff\x57\x0c#HY000Insecure transport is prohibited.");
    let ended = at_one_that("", prohibited, listen).to_string();
    assert!(ended.contains("prohibited. Add ssl-mode=VERIFY_IDENTITY"), "{ended}");
}

#[test]
fn a_password_that_is_asked_for_in_another_way_than_ours_stays_here() {
    for plugin in ["client_ed25519", "mysql_clear_password", "dialog"] {
        let switch = [b"\xfe", plugin.as_bytes(), b"\0", &[7; 32]].concat();
        // Proposed to every user, or requested for this user alone.
        for proposed in [plugin, "mysql_native_password"] {
            let said = [greeting(proposed, PLAIN, 21), packet(2, &switch)].concat();
            let ended = at_one_that("", said, listen);
            assert!(ended.to_string().contains(plugin), "{ended}");
            assert_eq!(ended.directive(), Directive::Stop);
        }
    }
}

#[test]
fn tls_that_is_asked_for_and_not_to_be_had_ends_the_login() {
    let greeting = |capabilities| greeting("mysql_native_password", capabilities, 21);
    for mode in ["REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY"] {
        let ended = at_one_that(&format!("?ssl-mode={mode}"), greeting(PLAIN), listen);
        assert!(ended.to_string().contains("does not support TLS"), "{ended}");
        assert_eq!(ended.directive(), Directive::Stop);
    }
    for mode in ["PREFERRED", "REQUIRED"] {
        let said = [greeting(WITH_TLS), b"no records of TLS".to_vec()].concat();
        let ended = at_one_that(&format!("?ssl-mode={mode}"), said, listen);
        assert!(ended.to_string().contains("the TLS handshake failed"), "{ended}");
        let ended = at_one_that(&format!("?ssl-mode={mode}"), greeting(WITH_TLS), |mut caller| {
            caller.read_exact(&mut [0; 40]).unwrap();
            drop(caller.shutdown(Shutdown::Write));
            listen(caller);
        });
        assert!(matches!(ended, TailError::Connect { .. }), "{ended:?}");
    }
}

#[test]
fn a_server_that_is_not_there_is_said_to_be_away() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = address(listener.local_addr().unwrap(), "");
    drop(listener);
    let ended = log_in(&address, SILENCE).map(drop).unwrap_err();
    assert!(matches!(ended, TailError::Connect { .. }), "{ended:?}");
}

#[test]
fn of_several_addresses_the_first_that_answers_is_taken() {
    let [one, other] = [(); 2].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    let addresses = [&one, &other].map(|listener| listener.local_addr().unwrap());
    drop(one);
    let limit = Duration::from_secs(1);
    let reached = reach(addresses.into_iter(), limit).unwrap();
    assert_eq!(reached.peer_addr().unwrap(), addresses[1]);
    drop(other);
    assert!(reach(addresses.into_iter(), limit).is_err());
    assert!(reach([].into_iter(), limit).is_err());
}

#[test]
fn an_address_that_does_not_answer_is_given_up_in_time() {
    let limit = Duration::from_millis(200);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let silent = listener.local_addr().unwrap();
    // The listener accepts nothing: once its queue is full, connection attempts get no answer.
    let mut waiting = Vec::new();
    while let Ok(caller) = TcpStream::connect_timeout(&silent, limit) {
        waiting.push(caller);
        assert!(waiting.len() < CALLERS_MAX, "the queue of a listener has no end");
    }
    let answering = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let addresses = [silent, answering.local_addr().unwrap()];
    let reached = reach(addresses.into_iter(), limit).unwrap();
    assert_eq!(reached.peer_addr().unwrap(), addresses[1]);
    let given_up = reach([silent].into_iter(), limit).unwrap_err();
    assert_eq!(given_up.kind(), io::ErrorKind::TimedOut);
}

proptest! {
    #[test]
    fn any_greeting_is_read_or_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..120), is_ten: bool) {
        if let Some(first) = bytes.first_mut().filter(|_| is_ten) {
            *first = PROTOCOL;
        }
        if let Ok(greeting) = Greeting::parse(&bytes) {
            prop_assert_eq!(greeting.nonce.len(), SCRAMBLE_LENGTH);
        }
    }

    #[test]
    fn any_question_behind_a_greeting_is_answered_or_refused(
        plugin in prop::sample::select(vec!["mysql_native_password", "caching_sha2_password", "sha256_password"]),
        first in prop::sample::select(vec![OK, MORE, SWITCH, ERROR, 7]),
        asked in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..4),
        is_private: bool,
    ) {
        let mut said = greeting(plugin, PLAIN, 21);
        for asked in &asked {
            said.extend(packet(2, &[&[first], asked.as_slice()].concat()));
        }
        let mut server = io::Cursor::new(said);
        let ended = rehearse(Both { said: &mut server }, "p", is_private);
        let is_in = first == OK && !asked.is_empty();
        prop_assert_eq!(ended.is_ok(), is_in, "{:?}", ended);
    }
}

/// Sends prepared bytes and ignores what it receives.
struct Both<'a> {
    said: &'a mut io::Cursor<Vec<u8>>,
}

impl Read for Both<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.said.read(bytes)
    }
}

impl Write for Both<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
