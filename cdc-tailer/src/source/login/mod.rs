//! Logs in over a socket of our own.
//!
//! The server first sends its capabilities and a challenge. If the address requires TLS, the same socket is then
//! encrypted. Then the password is proven, and from then on the server only answers. Packets and digests are those of
//! `mysql_common`. Nothing here trusts the server: whatever it sends or omits, a login ends in time and with a clear
//! error.

mod password;
mod socket;
mod tls;

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream, ToSocketAddrs as _},
    time::Duration,
};

use mysql_common::{
    auth::plugins::mysql_native_password::SCRAMBLE_LENGTH,
    constants::CapabilityFlags,
    io::ParseBuf,
    packets::{AuthPlugin, AuthSwitchRequest, HandshakePacket, HandshakeResponse, SslRequest},
    proto::MySerialize,
};
use mysql_store::connect::SslMode;

use crate::{
    error::TailError,
    refusal,
    source::{
        address::Address,
        wire::{ERROR, OK},
    },
};
use password::Proof;
pub(crate) use socket::ServerSocket;
use socket::Socket;

/// Timeout per address of the server: the system retries after one second and after three. Without it the system would
/// try for two minutes, during which no other address is tried and a stop is not noticed.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// Timeout of a login after the connect. It takes a handful of round trips; a busy server starts a thread for it and
/// checks a signature.
const LOGIN_MAX: Duration = Duration::from_secs(10);

/// Maximum packet of a login. The longest that a server sends is its public key or an error, below 1 KiB.
const PACKET_BYTES_MAX: usize = 16 * 1024;

/// Protocol version of all servers of the last twenty years.
const PROTOCOL: u8 = 10;

/// Offset of the challenge length, counted from the end of the server version in the greeting.
const CHALLENGE_LENGTH_AT: usize = 21;

/// Maximum packet size that we announce: the server's own limit.
const CLIENT_PACKET_BYTES_MAX: u32 = 1024 * 1024 * 1024;

/// `utf8mb4_general_ci`, known to both families of servers.
const COLLATION: u8 = 45;

/// Server version given to the library, so that it uses the same collation. It has no other effect.
const ANY_VERSION: (u16, u16, u16) = (8, 0, 0);

/// First bytes of packets in which the server continues the exchange.
const MORE: u8 = 0x01;
const SWITCH: u8 = 0xfe;

/// Connects and logs in. Reads from the returned socket fail once the server is silent for `silence`.
pub(crate) fn log_in(address: &Address, silence: Duration) -> Result<ServerSocket, TailError> {
    log_in_within(address, silence, LOGIN_MAX)
}

fn log_in_within(
    address: &Address,
    silence: Duration,
    limit: Duration,
) -> Result<ServerSocket, TailError> {
    let addresses = (address.host.as_str(), address.port).to_socket_addrs();
    let socket = addresses.and_then(|addresses| reach(addresses, CONNECT_MAX)).map_err(away)?;
    let socket = Socket::new(socket, limit).map_err(away)?;
    let mut line = introduce(socket, address)?;
    line.wait_at_most(silence).map_err(away)?;
    Ok(line)
}

/// Connects to the first address that answers within `limit`.
fn reach(addresses: impl Iterator<Item = SocketAddr>, limit: Duration) -> io::Result<TcpStream> {
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "its host has no address");
    for address in addresses {
        match TcpStream::connect_timeout(&address, limit) {
            Ok(socket) => return Ok(socket),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

fn introduce(socket: Socket, address: &Address) -> Result<ServerSocket, TailError> {
    let user = &address.user;
    let password = address.password.expose();
    let mut turns = Turns { server: socket, number: 0 };
    let greeting = Greeting::parse(&turns.read()?)?;
    if !is_encrypted(address.tls.mode, &greeting)? {
        turns.prove(&greeting, user, password, false)?;
        return Ok(ServerSocket::Plain(turns.server));
    }
    // Nothing was read ahead, so bytes injected after the greeting cannot pass for the server's.
    let capabilities = greeting.wanted() | CapabilityFlags::CLIENT_SSL;
    turns.write(&written(&SslRequest::new(capabilities, CLIENT_PACKET_BYTES_MAX, COLLATION)))?;
    let server = ServerSocket::Tls(tls::upgrade(turns.server, address)?);
    let mut turns = Turns { server, number: turns.number };
    turns.prove(&greeting, user, password, true)?;
    Ok(turns.server)
}

/// Returns whether to encrypt the connection.
fn is_encrypted(mode: SslMode, greeting: &Greeting) -> Result<bool, TailError> {
    let is_offered = greeting.capabilities.contains(CapabilityFlags::CLIENT_SSL);
    match mode {
        SslMode::Disabled => Ok(false),
        SslMode::Preferred => Ok(is_offered),
        SslMode::Required | SslMode::VerifyCa | SslMode::VerifyIdentity if is_offered => Ok(true),
        SslMode::Required | SslMode::VerifyCa | SslMode::VerifyIdentity => Err(TailError::Login {
            reason: "the server does not support TLS, which ssl-mode of DATABASE_URL demands: give it a \
                     certificate (ssl_cert, ssl_key), or leave out ssl-mode where nobody is on the way to it"
                .to_owned(),
        }),
    }
}

/// The server's first packet.
#[derive(Debug)]
struct Greeting {
    capabilities: CapabilityFlags,
    nonce: Vec<u8>,
    plugin: AuthPlugin<'static>,
}

impl Greeting {
    fn parse(packet: &[u8]) -> Result<Self, TailError> {
        let wrong = || malformed("greeting");
        let (&protocol, behind) = packet.split_first().ok_or_else(wrong)?;
        let version = behind.iter().position(|byte| *byte == 0).ok_or_else(wrong)?;
        // The library treats it as a signed number, which may overflow.
        let length = behind.get(version + CHALLENGE_LENGTH_AT).copied().unwrap_or_default();
        if protocol != PROTOCOL || length > i8::MAX.unsigned_abs() {
            return Err(wrong());
        }
        let packet: HandshakePacket<'_> = ParseBuf(packet).parse(()).map_err(|_| wrong())?;
        let plugin = packet.auth_plugin().unwrap_or(AuthPlugin::MysqlNativePassword).into_owned();
        // Longer challenges belong to methods we do not support; the server then switches the method.
        let mut nonce = packet.nonce();
        nonce.truncate(SCRAMBLE_LENGTH);
        Ok(Self { capabilities: packet.capabilities(), nonce, plugin })
    }

    /// Returns the capabilities we use and the server has. Without `CLIENT_DEPRECATE_EOF`: rows end with an EOF packet.
    fn wanted(&self) -> CapabilityFlags {
        let ours = CapabilityFlags::CLIENT_LONG_PASSWORD
            | CapabilityFlags::CLIENT_LONG_FLAG
            | CapabilityFlags::CLIENT_PROTOCOL_41
            | CapabilityFlags::CLIENT_SECURE_CONNECTION
            | CapabilityFlags::CLIENT_PLUGIN_AUTH
            | CapabilityFlags::CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA;
        ours & self.capabilities
            | CapabilityFlags::CLIENT_PROTOCOL_41
            | CapabilityFlags::CLIENT_SECURE_CONNECTION
    }
}

/// The exchange of login packets, which both sides number.
struct Turns<S> {
    server: S,
    /// Number of the next packet.
    number: u8,
}

impl<S: Read + Write> Turns<S> {
    /// Sends the user and proves the password with the method the server requests.
    fn prove(
        &mut self,
        greeting: &Greeting,
        user: &str,
        password: &str,
        is_private: bool,
    ) -> Result<(), TailError> {
        // The server proposes a method before it knows the user, and then switches to the user's own.
        let of =
            |plugin: &AuthPlugin<'_>| Proof::new(plugin, &greeting.nonce, password, is_private);
        let mut proof = of(&greeting.plugin).or_else(|_| of(&AuthPlugin::MysqlNativePassword))?;
        let encrypted = match is_private {
            true => CapabilityFlags::CLIENT_SSL,
            false => CapabilityFlags::empty(),
        };
        self.write(&written(&HandshakeResponse::new(
            Some(proof.begin()),
            ANY_VERSION,
            Some(user.as_bytes()),
            None::<&[u8]>,
            Some(proof.plugin()),
            greeting.wanted() | encrypted,
            None,
            CLIENT_PACKET_BYTES_MAX,
        )))?;
        loop {
            let packet = self.read()?;
            let answer = match packet.split_first() {
                Some((&OK, _)) => return Ok(()),
                Some((&SWITCH, _)) => {
                    let asked: AuthSwitchRequest<'_> =
                        ParseBuf(&packet).parse(()).map_err(|_| malformed("question"))?;
                    let plugin = asked.auth_plugin();
                    let nonce = asked.plugin_data();
                    proof = Proof::new(&plugin, nonce, password, is_private)?;
                    Some(proof.begin())
                }
                Some((&MORE, said)) => proof.go_on(said)?,
                _ => return Err(malformed("answer")),
            };
            if let Some(answer) = answer {
                self.write(&answer)?;
            }
        }
    }

    /// Reads a packet; an error packet becomes an error.
    fn read(&mut self) -> Result<Vec<u8>, TailError> {
        let mut header = [0; 4];
        self.server.read_exact(&mut header).map_err(broken)?;
        let [low, middle, high, number] = header;
        let length = usize::from(low) | usize::from(middle) << 8 | usize::from(high) << 16;
        if length > PACKET_BYTES_MAX {
            return Err(malformed("packet"));
        }
        self.number = number.wrapping_add(1);
        let mut packet = vec![0; length];
        self.server.read_exact(&mut packet).map_err(broken)?;
        match packet.first() {
            Some(&ERROR) => Err(refusal::of_login(&packet)),
            _ => Ok(packet),
        }
    }

    /// Sends a packet in one write.
    fn write(&mut self, packet: &[u8]) -> Result<(), TailError> {
        let length = u32::try_from(packet.len()).unwrap_or(u32::MAX).to_le_bytes();
        let packet = [&length[..3], &[self.number], packet].concat();
        self.number = self.number.wrapping_add(1);
        self.server.write_all(&packet).and_then(|()| self.server.flush()).map_err(broken)
    }
}

/// Runs a login against the bytes of a server, for `fuzz.rs`.
pub(crate) fn rehearse(
    server: impl Read + Write,
    password: &str,
    is_private: bool,
) -> Result<(), TailError> {
    let mut turns = Turns { server, number: 0 };
    let greeting = Greeting::parse(&turns.read()?)?;
    turns.prove(&greeting, "user", password, is_private)
}

fn written(packet: &impl MySerialize) -> Vec<u8> {
    let mut bytes = Vec::new();
    packet.serialize(&mut bytes);
    bytes
}

fn malformed(what: &str) -> TailError {
    let reason =
        format!("the server's {what} in the login cannot be read: is it MySQL or MariaDB?");
    TailError::Connect { reason }
}

fn late() -> TailError {
    TailError::Connect { reason: "the server did not end the login in time".to_owned() }
}

/// Maps an I/O error in the middle of a login.
fn broken(error: io::Error) -> TailError {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => late(),
        io::ErrorKind::UnexpectedEof => {
            TailError::Connect { reason: "the server hung up during the login".to_owned() }
        }
        _ => away(error),
    }
}

fn away(error: io::Error) -> TailError {
    TailError::Connect { reason: error.to_string() }
}

#[cfg(test)]
mod tests;
