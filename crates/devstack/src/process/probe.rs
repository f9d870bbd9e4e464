//! Readiness probes: one request per kind of server, in its own protocol, on a new connection.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Longest wait for one response. A server that is merely slow is asked again.
const ANSWER_WITHIN: Duration = Duration::from_millis(500);
/// Longest response read; all of ours are far shorter.
const LONGEST_ANSWER: u64 = 4_096;

/// Kafka's Metadata request, version 1, correlation id 7, no client id, no topics. A broker responds with the
/// registered brokers, so it lists itself only once the controller has registered it.
const KAFKA_METADATA: [u8; 18] = [
    0, 0, 0, 14, // length of what follows
    0, 3, 0, 1, // Metadata, version 1
    0, 0, 0, 7, // correlation id
    0xff, 0xff, // client id: null
    0, 0, 0, 0, // topics: none
];

/// TLS's first message, a `ClientHello` of version 1.2 (RFC 5246, 7.4.1.2), up to its 32 random bytes.
const TLS_HELLO_HEAD: [u8; 11] = [
    22, 3, 1, 0, 79, // record: handshake, the length of what follows
    1, 0, 0, 75, // ClientHello, likewise
    3, 3, // TLS 1.2
];
/// What follows the random bytes.
const TLS_HELLO_TAIL: [u8; 41] = [
    0, // no session
    0, 8, 0xc0, 0x2b, 0xc0, 0x2f, 0xc0, 0x2c, 0xc0,
    0x30, // ECDHE with AES-GCM, by ECDSA and RSA
    1, 0, // no compression
    0, 26, // extensions
    0, 10, 0, 6, 0, 4, 0, 29, 0, 23, // curves: X25519, P-256
    0, 13, 0, 8, 0, 6, 4, 1, 4, 3, 8, 4, // signatures: RSA, ECDSA and PSS with SHA-256
    0, 23, 0, 0, // extended master secret
];
/// The type of record in which a TLS server answers.
const TLS_HANDSHAKE: u8 = 22;

/// What counts as ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Probe {
    /// MariaDB or MySQL greets with protocol version 10.
    MySql,
    /// Redis answers PING with PONG (not while it loads its file).
    Redis,
    /// Kafka lists at least one broker.
    Kafka,
    /// `GET /readyz` answers 200.
    Readyz,
    /// A server answers TLS's first message. The first time, a JVM loads its whole TLS for that.
    Tls,
}

impl Probe {
    /// Whether the server at `address` is ready now. The error says what it answered instead, or why it did not.
    pub(crate) async fn ask(self, address: SocketAddr) -> Result<(), String> {
        match timeout(ANSWER_WITHIN, self.answer(address)).await {
            Ok(Ok((true, _))) => Ok(()),
            Ok(Ok((false, said))) => {
                Err(format!("it answers {:?}", String::from_utf8_lossy(&said)))
            }
            Ok(Err(error)) => Err(format!("it does not answer ({error})")),
            Err(_) => Err(format!("it does not answer within {ANSWER_WITHIN:?}")),
        }
    }

    /// Returns whether the server is ready, and what it answered.
    async fn answer(self, address: SocketAddr) -> io::Result<(bool, Vec<u8>)> {
        let mut stream = TcpStream::connect(address).await?;
        Ok(match self {
            Self::MySql => {
                // Four bytes of packet header, then the version (or 0xff and an error).
                let mut greeting = [0; 5];
                stream.read_exact(&mut greeting).await?;
                (greeting[4] == 10, greeting.to_vec())
            }
            Self::Redis => {
                stream.write_all(b"PING\r\n").await?;
                let mut answer = [0; 5];
                stream.read_exact(&mut answer).await?;
                (&answer == b"+PONG", answer.to_vec())
            }
            Self::Kafka => {
                let brokers = brokers_listed(&mut stream).await?;
                (brokers > 0, format!("{brokers} brokers").into_bytes())
            }
            Self::Readyz => {
                let request =
                    format!("GET /readyz HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
                stream.write_all(request.as_bytes()).await?;
                let mut answer = Vec::new();
                stream.take(LONGEST_ANSWER).read_to_end(&mut answer).await?;
                (answer.starts_with(b"HTTP/1.1 200"), answer)
            }
            Self::Tls => {
                let hello = [&TLS_HELLO_HEAD[..], &[7; 32], &TLS_HELLO_TAIL].concat();
                stream.write_all(&hello).await?;
                let kind = stream.read_u8().await?;
                (kind == TLS_HANDSHAKE, vec![kind])
            }
        })
    }
}

/// Returns the number of brokers that the Kafka node at `address` lists, itself included; 0 if it does not
/// answer.
pub(crate) async fn kafka_brokers(address: SocketAddr) -> u32 {
    let ask = async { brokers_listed(&mut TcpStream::connect(address).await?).await };
    timeout(ANSWER_WITHIN, ask).await.map_or(0, |listed| listed.unwrap_or(0))
}

async fn brokers_listed(stream: &mut TcpStream) -> io::Result<u32> {
    stream.write_all(&KAFKA_METADATA).await?;
    // Length, correlation id, number of brokers.
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await?;
    let [.., a, b, c, d] = answer;
    Ok(u32::from_be_bytes([a, b, c, d]))
}
