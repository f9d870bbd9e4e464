//! Many clients that wait for their claims at once: the api's memory, and whether each learns of its end.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use reqwest::Method;
use shopper::Accepted;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinSet,
    time::timeout,
};

use super::{accept, template};
use crate::stage::Stage;

/// Clients that wait.
const CLIENTS: usize = 10_000;

/// Claims that they wait for: each several times, since claims are not what is measured.
const CLAIMS: i64 = 1_000;

/// Clients that connect at a time.
const AT_A_TIME: usize = 100;

/// How long a client waits for its claim's end.
const PATIENCE: Duration = Duration::from_secs(120);

/// Part of the last event of a landed claim.
const LANDED: &[u8] = br#""status":"landed""#;

#[derive(Debug)]
pub struct Waiting {
    pub clients: usize,
    /// The api's memory before they came, in MiB.
    pub before_mib: f64,
    /// While they wait, in MiB.
    pub waiting_mib: f64,
    /// The api's peak memory, with all of them notified at once, in MiB.
    pub peak_mib: f64,
}

/// Opens the streams while the lander is stopped, then starts it.
///
/// # Errors
/// The platform fails, too few files may be open, or a client did not learn of its claim's end.
///
/// # Panics
/// The task of a client panicked.
pub async fn measure(stage: &mut Stage) -> Result<Waiting> {
    allow_files(CLIENTS)?;
    let template = template(stage, CLAIMS, "topic").await?;
    stage.platform.lander.stop().await?;
    let accepted = accept(stage, template, 0..CLAIMS).await?.accepted;
    let before_mib = stage.platform.apis[0].resident_mib().context("the api does not run")?;
    let mut open = Vec::with_capacity(CLIENTS);
    let all: Vec<&Accepted> = accepted.iter().cycle().take(CLIENTS).collect();
    for some in all.chunks(AT_A_TIME) {
        let streams = some.iter().map(|claim| open_stream(stage, claim));
        open.extend(futures::future::try_join_all(streams).await?);
    }
    let waiting_mib = stage.platform.apis[0].resident_mib().context("the api does not run")?;
    stage.platform.lander.spawn()?;
    let mut clients = JoinSet::new();
    for stream in open {
        clients.spawn(timeout(PATIENCE, until_told(stream)));
    }
    while let Some(client) = clients.join_next().await {
        let told = client.expect("a client does not panic");
        told.context("a client was not told in time")??;
    }
    let peak_mib = stage.platform.apis[0].peak_mib().context("the api does not run")?;
    Ok(Waiting { clients: CLIENTS, before_mib, waiting_mib, peak_mib })
}

/// Raises the limit of open files of this process, which the connections count against.
fn allow_files(clients: usize) -> Result<()> {
    let needed = u64::try_from(clients)? + 1_024;
    let (now, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    ensure!(most >= needed, "only {most} files may be open: `ulimit -n {needed}`");
    if now < needed {
        setrlimit(Resource::RLIMIT_NOFILE, needed, most)?;
    }
    Ok(())
}

/// Opens a claim's stream of events, on a bare connection: an HTTP client would need more memory than the api.
async fn open_stream(stage: &Stage, claim: &Accepted) -> Result<TcpStream> {
    let path = claim.events();
    let request = stage.api.shopper(claim.user)?.request(Method::GET, &path).build()?;
    let token = request.headers()["authorization"].to_str()?.to_owned();
    let address = stage.platform.api_url().trim_start_matches("http://").to_owned();
    let mut stream = TcpStream::connect(&address).await?;
    let head = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: {token}\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await?;
    ensure!(&answer == b"HTTP/1.1 200", "a stream was answered {:?}", answer.escape_ascii());
    Ok(stream)
}

/// Reads until the claim has landed.
async fn until_told(mut stream: TcpStream) -> Result<()> {
    let mut said = Vec::new();
    while !said.windows(LANDED.len()).any(|window| window == LANDED) {
        let read = stream.read_buf(&mut said).await?;
        ensure!(read > 0, "a stream ended before its claim, after {}", said.escape_ascii());
    }
    Ok(())
}
