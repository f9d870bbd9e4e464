//! How many sent bytes a client does not have yet.

use std::os::fd::AsRawFd as _;

use nix::libc;
use tokio::net::TcpStream;

/// Returns the bytes that the system keeps because the client's system has not acknowledged them (`SIOCOUTQ`).
/// Acknowledged bytes are in the client's memory, and no longer in ours.
#[expect(unsafe_code, reason = "no crate of ours asks the system for it")]
pub(crate) fn unacked(stream: &TcpStream) -> u64 {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the descriptor is open as long as `stream` is borrowed, and the system writes one integer.
    let answer =
        unsafe { libc::ioctl(stream.as_raw_fd(), libc::TIOCOUTQ, std::ptr::from_mut(&mut bytes)) };
    // If the client has reset the connection, the system keeps reporting unacknowledged bytes forever.
    if answer == 0 && bytes > 0 && stream.peer_addr().is_ok() {
        u64::try_from(bytes).unwrap_or(0)
    } else {
        0
    }
}
