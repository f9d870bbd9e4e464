//! [`Lines`]: keep-alive connections to one api, for claims by the hundred thousand. A general HTTP
//! client needs about as much CPU per request as the api, and a crowd shares its machine with the
//! api.

use std::{
    error::Error,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use http_body_util::{BodyExt, Full};
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
    client::conn::http1::{self, SendRequest},
    header::{HOST, HeaderValue},
};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpStream, time::timeout};

/// How long to wait for an answer: longer than the five seconds after which the api asks a claim's
/// client to poll.
pub(crate) const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Connect timeout, enough for connections on one machine.
pub(crate) const CONNECT_MAX: Duration = Duration::from_secs(3);

/// Reason for a missing answer.
pub(crate) type NoAnswer = Box<dyn Error + Send + Sync>;

type Connection = SendRequest<Full<Bytes>>;

/// Connections to one api; as many as there are concurrent requests.
pub(crate) struct Lines {
    authority: String,
    idle: Mutex<Vec<Connection>>,
}

impl Lines {
    /// Creates lines to an `http://` URL; they connect on first use.
    pub(crate) fn new(base_url: &str) -> Self {
        let behind = base_url.split_once("://").map_or(base_url, |(_, rest)| rest);
        let authority = behind.split('/').next().unwrap_or_default().to_owned();
        Self { authority, idle: Mutex::default() }
    }

    /// Sends a request and reads its answer completely. Dropping the future earlier closes the
    /// connection.
    pub(crate) async fn send(
        &self,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Response<Bytes>, NoAnswer> {
        request.headers_mut().insert(HOST, HeaderValue::from_str(&self.authority)?);
        timeout(ANSWER_MAX, self.ask(request)).await?
    }

    async fn ask(&self, mut request: Request<Full<Bytes>>) -> Result<Response<Bytes>, NoAnswer> {
        let (response, line) = loop {
            let (mut line, used) = match self.free() {
                Some(line) => (line, true),
                None => (self.open().await?, false),
            };
            match line.try_send_request(request).await {
                Ok(response) => break (response, line),
                // The api closed an idle connection before the request was sent: try another one.
                Err(mut error) => match error.take_message() {
                    Some(unsent) if used => request = unsent,
                    _ => return Err(error.into_error().into()),
                },
            }
        };
        let response = whole(response).await?;
        self.idle().push(line);
        Ok(response)
    }

    fn free(&self) -> Option<Connection> {
        let mut idle = self.idle();
        while let Some(line) = idle.pop() {
            if line.is_ready() {
                return Some(line);
            }
        }
        None
    }

    async fn open(&self) -> Result<Connection, NoAnswer> {
        let stream = timeout(CONNECT_MAX, TcpStream::connect(&self.authority)).await??;
        stream.set_nodelay(true)?;
        let (line, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // Ends when the line is dropped or the api closes it; requests on it then fail.
        tokio::spawn(async move { drop(connection.await) });
        Ok(line)
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn whole(response: Response<Incoming>) -> Result<Response<Bytes>, hyper::Error> {
    let (head, body) = response.into_parts();
    Ok(Response::from_parts(head, body.collect().await?.to_bytes()))
}
