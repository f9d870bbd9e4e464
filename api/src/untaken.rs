//! How much of what was sent a client does not have yet.

use std::os::fd::AsRawFd as _;

use nix::libc;
use tokio::net::TcpStream;

/// Bytes that the system keeps for the client: those that its system has not acknowledged (`SIOCOUTQ`). What is
/// acknowledged lies in the client's memory, and is forgotten in ours.
#[expect(unsafe_code, reason = "no crate of ours asks the system for it")]
pub(crate) fn untaken(stream: &TcpStream) -> u64 {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the descriptor is open as long as `stream` is borrowed, and the system writes one integer.
    let answer =
        unsafe { libc::ioctl(stream.as_raw_fd(), libc::TIOCOUTQ, std::ptr::from_mut(&mut bytes)) };
    // Of a connection that the client has reset the system goes on saying what was not acknowledged, for ever.
    if answer == 0 && bytes > 0 && stream.peer_addr().is_ok() {
        u64::try_from(bytes).unwrap_or(0)
    } else {
        0
    }
}
