//! Free ports of 127.0.0.1, chosen below the range that the kernel hands out for outgoing connections:
//! a client of a neighbour can then never sit on a server's port while that server restarts.

use std::collections::HashSet;
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::sync::{LazyLock, Mutex, PoisonError};

use crate::{Error, Result};

/// Lowest port tried: above the well-known services people run by hand.
const LOWEST: u16 = 15_000;
/// Highest port tried: below 32,768, where Linux's range for outgoing connections begins.
const HIGHEST: u16 = 32_000;
/// Ports tried before giving up; a machine with that many taken in a row has none to give.
const TRIES: usize = 200;

/// Ports handed out by this process, so that two servers starting at once do not get the same.
static TAKEN: LazyLock<Mutex<HashSet<u16>>> = LazyLock::new(Mutex::default);

/// A port nobody listens on.
///
/// # Errors
/// There is none.
pub fn free() -> Result<u16> {
    (0..TRIES)
        .map(|_| fastrand::u16(LOWEST..=HIGHEST))
        .find(|port| take(*port))
        .ok_or(Error::NoPort { low: LOWEST, high: HIGHEST })
}

/// The port that `file` remembers if nobody listens on it now, else a free one, remembered there:
/// a stack that goes down and up again keeps its URLs.
pub(crate) fn remembered(file: &Path) -> Result<u16> {
    let before = fs::read_to_string(file).ok().and_then(|text| text.trim().parse().ok());
    let port = match before {
        Some(port) if take(port) => port,
        _ => free()?,
    };
    fs::write(file, port.to_string()).map_err(Error::file("write", file))?;
    Ok(port)
}

fn take(port: u16) -> bool {
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner).insert(port)
        && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}
