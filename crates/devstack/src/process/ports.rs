//! Free ports of 127.0.0.1, chosen below the kernel's range for outgoing connections, so that no client of
//! another process can occupy a server's port while that server restarts.

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
/// Ports tried before giving up.
const TRIES: usize = 200;

/// Ports handed out by this process, so that two servers starting at once do not get the same.
static TAKEN: LazyLock<Mutex<HashSet<u16>>> = LazyLock::new(Mutex::default);

/// Returns a port on which no process listens.
///
/// # Errors
/// None was found.
pub fn free() -> Result<u16> {
    (0..TRIES)
        .map(|_| fastrand::u16(LOWEST..=HIGHEST))
        .find(|port| take(*port))
        .ok_or(Error::NoPort { low: LOWEST, high: HIGHEST })
}

/// Returns the port stored in `file` if no process listens on it, otherwise a free one, which it stores there.
/// A stack that goes down and up again keeps its URLs.
pub(crate) fn remembered(file: &Path) -> Result<u16> {
    let port = match stored(file) {
        Some(port) if take(port) => port,
        _ => free()?,
    };
    fs::write(file, port.to_string()).map_err(Error::file("write", file))?;
    Ok(port)
}

/// Returns the port stored in `file`, if there is one.
pub(crate) fn stored(file: &Path) -> Option<u16> {
    fs::read_to_string(file).ok().and_then(|text| text.trim().parse().ok())
}

fn take(port: u16) -> bool {
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner).insert(port)
        && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}
