//! Free ports of 127.0.0.1, chosen below the kernel's range for outgoing connections, so that no client of
//! another process can occupy a server's port while that server restarts. A process takes them from blocks that it
//! reserves for as long as it lives: a server listens some seconds after its port was chosen, and another process that
//! chooses meanwhile gets another one.

use std::collections::HashSet;
use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::sync::{LazyLock, Mutex, PoisonError};

use crate::{Error, Result, paths};

/// Lowest port tried: above the well-known services people run by hand.
const LOWEST: u16 = 15_000;
/// Highest port tried: below 32,768, where Linux's range for outgoing connections begins.
const HIGHEST: u16 = 32_000;
/// Ports of a block: more than one stack needs.
const BLOCK: u16 = 100;
/// Number of blocks.
const BLOCKS: u16 = (HIGHEST - LOWEST) / BLOCK;

/// The blocks that this process has reserved.
static RESERVED: LazyLock<Mutex<Reserved>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct Reserved {
    /// Ports of the last block that were not tried yet.
    left: Vec<u16>,
    /// The blocks' files, each locked until this process ends.
    files: Vec<File>,
}

/// Ports handed out by this process, so that two servers starting at once do not get the same.
static TAKEN: LazyLock<Mutex<HashSet<u16>>> = LazyLock::new(Mutex::default);

/// Returns a port on which no process listens, and that no other process is given.
///
/// # Errors
/// Every block is reserved.
pub fn free() -> Result<u16> {
    let mut reserved = RESERVED.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        while let Some(port) = reserved.left.pop() {
            if take(port) {
                return Ok(port);
            }
        }
        reserved.reserve()?;
    }
}

impl Reserved {
    /// Reserves another block.
    fn reserve(&mut self) -> Result<()> {
        let folder = paths::project_root().join(".dev/ports");
        fs::create_dir_all(&folder).map_err(Error::file("create", &folder))?;
        let first = fastrand::u16(..BLOCKS);
        for block in (0..BLOCKS).map(|number| (first + number) % BLOCKS) {
            let path = folder.join(block.to_string());
            let file = File::create(&path).map_err(Error::file("create", &path))?;
            if file.try_lock().is_ok() {
                let lowest = LOWEST + block * BLOCK;
                self.left = (lowest..lowest + BLOCK).collect();
                fastrand::shuffle(&mut self.left);
                self.files.push(file);
                return Ok(());
            }
        }
        Err(Error::NoPort { low: LOWEST, high: HIGHEST })
    }
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
