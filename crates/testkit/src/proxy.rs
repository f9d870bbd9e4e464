//! [`Proxy`]: a TCP proxy before one server. The test decides which parts of a conversation arrive.
//!
//! A request is identified by bytes that it contains. The request can be held before it reaches the server, or its
//! answer before it reaches the client; then the conversation continues, or is cut. All connections can be cut at once,
//! and new ones led to another server.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::AbortHandle,
};

/// A lander's commit as sent to MySQL: the command byte of a query, and its text.
pub const COMMIT: &[u8] = b"\x03COMMIT";

/// Bytes read at a time; every request that a test identifies is far smaller.
const CHUNK: usize = 64 * 1024;

/// A proxy; it ends with the test's runtime.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: AbortHandle,
}

struct Shared {
    /// Where new connections lead.
    server: Mutex<SocketAddr>,
    rules: Mutex<Vec<Rule>>,
    /// Changes when every connection ends.
    cuts: watch::Sender<()>,
}

struct Rule {
    needle: Vec<u8>,
    held: What,
    here: watch::Sender<bool>,
    then: watch::Receiver<Option<Then>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Request,
    Answer,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    GoOn,
    Cut,
}

/// A conversation that is held, or will be.
pub struct HeldMessage {
    here: watch::Receiver<bool>,
    then: watch::Sender<Option<Then>>,
}

impl HeldMessage {
    /// Waits until the request, or its answer, is held.
    ///
    /// # Panics
    /// The proxy has ended.
    pub async fn reached(&mut self) {
        self.here.wait_for(|here| *here).await.unwrap();
    }

    /// Delivers what is held.
    pub fn go_on(self) {
        self.then.send_replace(Some(Then::GoOn));
    }

    /// Closes the connection; what is held is lost.
    pub fn cut(self) {
        self.then.send_replace(Some(Then::Cut));
    }
}

impl Proxy {
    /// Starts a proxy before `server`.
    ///
    /// # Panics
    /// No port is free.
    pub async fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = Mutex::new(server);
        let rules = Mutex::default();
        let shared = Arc::new(Shared { server, rules, cuts: watch::Sender::new(()) });
        let of_all = Arc::clone(&shared);
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                // Subscribed here, so that a cut also ends a connection that is not established yet.
                let cut = of_all.cuts.subscribe();
                tokio::spawn(connect(client, cut, Arc::clone(&of_all)));
            }
        });
        Self { address, shared, accepting: accepting.abort_handle() }
    }

    /// Starts a proxy before the server of a URL.
    ///
    /// # Panics
    /// The URL names no address.
    pub async fn before(url: &str) -> Self {
        Self::start(server_of(url)).await
    }

    /// Sends new connections to another server; existing ones stay.
    pub fn lead_to(&self, server: SocketAddr) {
        *self.shared.server.lock().unwrap() = server;
    }

    /// Ends every connection and accepts new ones.
    pub fn cut(&self) {
        self.shared.cuts.send_replace(());
    }

    /// Ends every connection and accepts no new one.
    pub fn close(&self) {
        self.accepting.abort();
        self.cut();
    }

    /// Returns `url` with this proxy in place of its server.
    pub fn instead_of(&self, url: &str) -> String {
        let server = server_of(url).to_string();
        url.replacen(&server, &self.address.to_string(), 1)
    }

    /// Holds the next request that contains these bytes, before it reaches the server.
    pub fn hold_request(&self, needle: &[u8]) -> HeldMessage {
        self.hold(needle, What::Request)
    }

    /// Holds the answer to the next request that contains these bytes.
    pub fn hold_answer(&self, needle: &[u8]) -> HeldMessage {
        self.hold(needle, What::Answer)
    }

    fn hold(&self, needle: &[u8], held: What) -> HeldMessage {
        let (here, arrived) = watch::channel(false);
        let (then, decided) = watch::channel(None);
        let rule = Rule { needle: needle.to_vec(), held, here, then: decided };
        self.shared.rules.lock().unwrap().push(rule);
        HeldMessage { here: arrived, then }
    }
}

/// Returns the server of a URL such as `mysql://user:password@host:port/database`.
///
/// # Panics
/// The URL names no address.
pub fn server_of(url: &str) -> SocketAddr {
    let behind = url.split_once("://").map_or(url, |(_, rest)| rest);
    let behind = behind.rsplit_once('@').map_or(behind, |(_, rest)| rest);
    behind.split('/').next().unwrap_or_default().parse().unwrap()
}

impl Shared {
    /// Removes and returns the rule that matches a request.
    fn rule_for(&self, request: &[u8]) -> Option<Rule> {
        let mut rules = self.rules.lock().unwrap();
        let fits = |rule: &Rule| {
            request.windows(rule.needle.len()).any(|window| window == rule.needle.as_slice())
        };
        rules.iter().position(fits).map(|at| rules.remove(at))
    }
}

impl Rule {
    /// Waits for the test's decision; cuts if the test is over.
    async fn decided(mut self) -> Then {
        self.here.send_replace(true);
        let then = self.then.wait_for(Option::is_some).await;
        then.ok().and_then(|then| *then).unwrap_or(Then::Cut)
    }
}

async fn connect(client: TcpStream, mut cut: watch::Receiver<()>, shared: Arc<Shared>) {
    let server = *shared.server.lock().unwrap();
    let Ok(server) = TcpStream::connect(server).await else { return };
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    // However the conversation ends, both connections are closed.
    tokio::select! {
        _ = converse(client, server, &shared) => {}
        _ = cut.changed() => {}
    }
}

async fn converse(mut client: TcpStream, mut server: TcpStream, shared: &Shared) -> Option<()> {
    let mut request = vec![0; CHUNK];
    let mut answer = vec![0; CHUNK];
    loop {
        tokio::select! {
            read = client.read(&mut request) => {
                let request = &request[..some(read)?];
                let rule = shared.rule_for(request);
                match rule {
                    Some(rule) if rule.held == What::Request => {
                        (rule.decided().await == Then::GoOn).then_some(())?;
                        server.write_all(request).await.ok()?;
                    }
                    Some(rule) => {
                        server.write_all(request).await.ok()?;
                        let length = some(server.read(&mut answer).await)?;
                        (rule.decided().await == Then::GoOn).then_some(())?;
                        client.write_all(&answer[..length]).await.ok()?;
                    }
                    None => server.write_all(request).await.ok()?,
                }
            }
            read = server.read(&mut answer) => {
                client.write_all(&answer[..some(read)?]).await.ok()?;
            }
        }
    }
}

/// Returns how much was read; `None` if the conversation ended.
fn some(read: std::io::Result<usize>) -> Option<usize> {
    read.ok().filter(|length| *length > 0)
}
