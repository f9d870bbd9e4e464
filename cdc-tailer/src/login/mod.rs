//! Logging in: a socket of our own, which stays ours.
//!
//! The server speaks first: what it can and a challenge. Where the address asks for TLS the same socket is
//! encrypted then; the password is proven, and from there on the server speaks only when it is asked. Packets
//! and digests are those of `mysql_common`. Nothing here trusts a server: whatever it sends or leaves out, a
//! login ends with a sentence, and in time.

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
    address::Address,
    error::TailError,
    refusal,
    wire::{ERROR, OK},
};
use password::Proof;
pub(crate) use socket::Line;
use socket::Socket;

/// How long each address of the server may take to answer: the system asks again after one second and after
/// three. By itself it would go on for two minutes, in which nobody tries the next address or notices that
/// the tailer shall stop.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// How long a login may take as a whole, behind that. It is a handful of turns; a server that is busy starts
/// a thread for it and checks a signature.
const LOGIN_MAX: Duration = Duration::from_secs(10);

/// Longest packet of a login: the longest that a server sends is its public key or an error, below one KiB.
const PACKET_BYTES_MAX: usize = 16 * 1024;

/// The version of the protocol that all servers have had for twenty years.
const PROTOCOL: u8 = 10;

/// Where the length of the challenge stands behind the server's version in its greeting.
const CHALLENGE_LENGTH_AT: usize = 21;

/// What the server is told that we take: its own limit for a packet.
const CLIENT_PACKET_BYTES_MAX: u32 = 1024 * 1024 * 1024;

/// `utf8mb4_general_ci`, in which both families of servers read what we send.
const COLLATION: u8 = 45;

/// The version by which the library takes that collation too; the server's own says nothing else to it.
const ANY_VERSION: (u16, u16, u16) = (8, 0, 0);

/// First bytes of packets in which the server asks on.
const MORE: u8 = 0x01;
const SWITCH: u8 = 0xfe;

/// Connects and logs in. Reading from what is returned fails once the server is silent for `silence`.
pub(crate) fn log_in(address: &Address, silence: Duration) -> Result<Line, TailError> {
    log_in_within(address, silence, LOGIN_MAX)
}

fn log_in_within(address: &Address, silence: Duration, limit: Duration) -> Result<Line, TailError> {
    let places = (address.host.as_str(), address.port).to_socket_addrs();
    let socket = places.and_then(|places| reach(places, CONNECT_MAX)).map_err(away)?;
    let socket = Socket::new(socket, limit).map_err(away)?;
    let mut line = introduce(socket, address)?;
    line.wait_at_most(silence).map_err(away)?;
    Ok(line)
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

fn introduce(socket: Socket, address: &Address) -> Result<Line, TailError> {
    let (user, password) = (&address.user, address.password.expose());
    let mut turns = Turns { server: socket, number: 0 };
    let greeting = Greeting::parse(&turns.read()?)?;
    if !is_encrypted(address.tls.mode, &greeting)? {
        turns.prove(&greeting, user, password, false)?;
        return Ok(Line::Plain(turns.server));
    }
    // Nothing was read ahead: what somebody on the way adds behind the greeting is not taken for the server's.
    let capabilities = greeting.wanted() | CapabilityFlags::CLIENT_SSL;
    turns.write(&written(&SslRequest::new(capabilities, CLIENT_PACKET_BYTES_MAX, COLLATION)))?;
    let server = Line::Tls(tls::upgrade(turns.server, address)?);
    let mut turns = Turns { server, number: turns.number };
    turns.prove(&greeting, user, password, true)?;
    Ok(turns.server)
}

/// Whether the connection shall be encrypted.
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

/// What the server says first.
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
        // The library computes with it as a signed number, which may overflow.
        let length = behind.get(version + CHALLENGE_LENGTH_AT).copied().unwrap_or_default();
        if protocol != PROTOCOL || length > i8::MAX.unsigned_abs() {
            return Err(wrong());
        }
        let packet: HandshakePacket<'_> = ParseBuf(packet).parse(()).map_err(|_| wrong())?;
        let plugin = packet.auth_plugin().unwrap_or(AuthPlugin::MysqlNativePassword).into_owned();
        // Longer ones belong to ways that are not ours, for which the server asks once more.
        let mut nonce = packet.nonce();
        nonce.truncate(SCRAMBLE_LENGTH);
        Ok(Self { capabilities: packet.capabilities(), nonce, plugin })
    }

    /// What we make use of, as far as the server has it. Its rows end with a packet that says so.
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

/// The packets of a login, which both sides count.
struct Turns<S> {
    server: S,
    /// Of the next packet.
    number: u8,
}

impl<S: Read + Write> Turns<S> {
    /// Says who we are, and proves it in the server's way.
    fn prove(
        &mut self,
        greeting: &Greeting,
        user: &str,
        password: &str,
        is_private: bool,
    ) -> Result<(), TailError> {
        // The server proposes a way before it knows the user, and asks for the user's own then.
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
                    let (plugin, nonce) = (asked.auth_plugin(), asked.plugin_data());
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

    /// Reads a packet that is no error.
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

    /// Sends a packet in one piece.
    fn write(&mut self, packet: &[u8]) -> Result<(), TailError> {
        let length = u32::try_from(packet.len()).unwrap_or(u32::MAX).to_le_bytes();
        let packet = [&length[..3], &[self.number], packet].concat();
        self.number = self.number.wrapping_add(1);
        self.server.write_all(&packet).and_then(|()| self.server.flush()).map_err(broken)
    }
}

/// What becomes of a login by what a server sends, for `fuzz.rs`.
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

/// A connection that ended in the middle of a login.
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
