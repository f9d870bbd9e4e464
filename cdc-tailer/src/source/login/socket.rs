//! Our end of the connection to the server: blocking, plain or encrypted.
//!
//! Readers read large pieces and buffer the rest. With TLS the encrypted bytes are buffered as well: OpenSSL reads five
//! bytes and then the rest of each record, and a server that sends events one by one makes a record of each.

use std::{
    io::{self, BufReader, Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use openssl::ssl::SslStream;

/// Encrypted bytes to read ahead: several records per system call.
const READ_AHEAD_BYTES: usize = 64 * 1024;

/// A socket that ends a login after a time limit, however many bytes the server sends.
#[derive(Debug)]
pub(crate) struct Socket {
    server: TcpStream,
    /// End of the time limit; `None`: only the read timeout applies.
    until: Option<Instant>,
}

/// The encrypted bytes of a TLS connection, buffered.
#[derive(Debug)]
pub(crate) struct Ahead(BufReader<Socket>);

/// A connection to the server.
#[derive(Debug)]
pub(crate) enum ServerSocket {
    Plain(Socket),
    Tls(Box<SslStream<Ahead>>),
}

impl Socket {
    /// Creates a socket on which reads and writes fail after `limit`.
    pub(crate) fn new(server: TcpStream, limit: Duration) -> io::Result<Self> {
        server.set_nodelay(true)?;
        server.set_write_timeout(Some(limit))?;
        Ok(Self { server, until: Some(Instant::now() + limit) })
    }
}

impl Read for Socket {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(until) = self.until {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                self.server.set_read_timeout(Some(left))?;
            }
            match self.server.read(bytes) {
                // Interrupted by a signal; OpenSSL would treat it as the end of the stream.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.server.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.server.flush()
    }
}

impl Ahead {
    pub(crate) fn new(socket: Socket) -> Self {
        Self(BufReader::with_capacity(READ_AHEAD_BYTES, socket))
    }
}

impl Read for Ahead {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.read(bytes)
    }
}

impl Write for Ahead {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.get_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.get_mut().flush()
    }
}

impl ServerSocket {
    /// Replaces the time limit: from now on each read ends after `silence`.
    pub(crate) fn wait_at_most(&mut self, silence: Duration) -> io::Result<()> {
        let socket = match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => stream.get_mut().0.get_mut(),
        };
        socket.until = None;
        socket.server.set_read_timeout(Some(silence))
    }

    /// Returns whether more bytes are buffered, even if only a part of a record.
    pub(crate) fn has_more(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(stream) => {
                stream.ssl().pending() > 0 || !stream.get_ref().0.buffer().is_empty()
            }
        }
    }
}

impl Read for ServerSocket {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(bytes),
            Self::Tls(stream) => stream.read(bytes),
        }
    }
}

impl Write for ServerSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}
