//! Bytes that no HTTP client sends. A head that is not HTTP is no request that could get a problem as its answer:
//! the status alone reports the error, and the connection ends.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use pipeline_tests::STATE_MAX;

/// Longest wait for the end of the connection.
const ANSWER_MAX: Duration = STATE_MAX;

/// Names, bytes, and the expected status. Bytes after a refused head must not be treated as a second request.
pub(super) const CASES: [(&str, &str, u16); 17] = [
    ("no HTTP", "hello\r\n\r\n", 400),
    ("no version", "GET /v1/me/coupons\r\n\r\n", 400),
    ("another version", "GET / HTTP/9.9\r\n\r\n", 400),
    ("a header without a colon", "GET / HTTP/1.1\r\nhost: a\r\nbroken\r\n\r\n", 400),
    ("a space before the colon", "GET / HTTP/1.1\r\nhost: a\r\nx-api-key : b\r\n\r\n", 400),
    ("a folded header", "GET / HTTP/1.1\r\nhost: a\r\nx-a: b\r\n c\r\n\r\n", 400),
    ("no host", "GET / HTTP/1.1\r\nconnection: close\r\n\r\n", 400),
    ("two hosts", "GET / HTTP/1.1\r\nhost: a\r\nhost: a\r\nconnection: close\r\n\r\n", 400),
    ("a zero in a header", "GET / HTTP/1.1\r\nhost: a\r\nx-a: b\0c\r\n\r\n", 400),
    (
        "two lengths",
        "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
        400,
    ),
    ("a negative length", "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: -1\r\n\r\n", 400),
    ("a length in words", "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: one\r\n\r\n", 400),
    (
        "a coding that is none",
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        400,
    ),
    (
        "a chunk that is none",
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nGET / HTTP/1.1\r\nhost: a\r\n\r\n",
        404,
    ),
    (
        "a length and chunks, and a request behind them",
        "POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 40\r\n\
         transfer-encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\nhost: a\r\n\r\n",
        404,
    ),
    ("a space in the path", "GET /v1/me coupons HTTP/1.1\r\nhost: a\r\n\r\n", 400),
    ("a path that is none", "GET v1 HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n", 404),
];

/// Returns the cases that are answered differently.
pub(super) fn wrong(api_url: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut many = "GET / HTTP/1.1\r\nhost: a\r\n".to_owned();
    many.push_str(&"x-a: b\r\n".repeat(200));
    let endless = format!("GET / HTTP/1.1\r\nhost: a\r\nx-a: {}\r\n\r\n", "b".repeat(100_000));
    let cases = CASES.iter().map(|(name, bytes, status)| (*name, (*bytes).to_owned(), *status));
    let more =
        [("two hundred headers", format!("{many}\r\n"), 431), ("an endless header", endless, 431)];
    for (name, bytes, status) in cases.chain(more) {
        let answer = answer(api_url, &bytes);
        let line = answer.lines().next().unwrap_or_default();
        if !line.starts_with(&format!("HTTP/1.1 {status} ")) {
            wrong.push(format!("{name}, not {status}: {line:?}"));
        }
        if answer.matches("HTTP/1.1 ").count() > 1 {
            wrong.push(format!("{name}: two answers: {answer:?}"));
        }
    }
    wrong
}

/// Returns all that the api sends until it closes the connection.
fn answer(api_url: &str, bytes: &str) -> String {
    let mut line = TcpStream::connect(api_url.strip_prefix("http://").unwrap()).unwrap();
    line.set_read_timeout(Some(ANSWER_MAX)).unwrap();
    // The api may close before all is sent.
    drop(line.write_all(bytes.as_bytes()));
    let mut answer = Vec::new();
    drop(line.read_to_end(&mut answer));
    String::from_utf8_lossy(&answer).into_owned()
}
