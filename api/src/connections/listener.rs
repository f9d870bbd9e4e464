//! Accepts connections, limits their number, time and memory, and drains them at the end.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use axum::Router;
use hyper::{
    Request, Response,
    body::Incoming,
    header,
    server::conn::http1,
    service::{Service as _, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    sync::OwnedSemaphorePermit,
};
use tokio_util::sync::CancellationToken;
use tracing::{trace, warn};

use crate::{
    connections::{Connections, write_timeout::TimedStream},
    http::request_checks::{HEADER_BYTES_MAX, URI_BYTES_MAX},
};

/// Maximum bytes that are read of a head: somewhat above what `request_checks.rs` refuses with a problem, so that only larger
/// heads get hyper's bare 431. It also limits the request bytes that hyper buffers for each connection.
const HEAD_BYTES_MAX: usize = HEADER_BYTES_MAX + URI_BYTES_MAX + 4 * 1024;

/// Bytes of answers that the system buffers for a client that does not take them; it uses about twice as much memory.
/// The system's own limit is four megabytes, enough for 20 copies of the largest answer. With this limit a client 100
/// ms away still receives 600 KiB a second, and an ordinary answer is a few hundred bytes. Half of it would be less
/// than one packet to a proxy on this machine, and each packet would wait 40 ms for its acknowledgement. It also limits
/// how many requests of one client are answered ahead: no further one is begun while there is no room.
const SEND_BUFFER: u32 = 64 * 1024;

/// Bytes of requests that the system buffers until we read them: half of the largest body.
const RECEIVE_BUFFER: u32 = 32 * 1024;

/// Connections that the system queues until we accept them.
const BACKLOG: u32 = 1024;

/// Pause after the system failed to accept a connection, e.g. because its files are used up.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// Opens a socket that listens for clients. The connections it accepts have its buffer sizes.
///
/// # Errors
/// The address cannot be used.
pub(crate) fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A restarted process need not wait for the connections of its predecessor.
    socket.set_reuseaddr(true)?;
    socket.set_send_buffer_size(SEND_BUFFER)?;
    socket.set_recv_buffer_size(RECEIVE_BUFFER)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Serves until `stop` is cancelled, and then until every connection has the answer it waits for.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    connections: Arc<Connections>,
    stop: CancellationToken,
) {
    let limits = connections.limits();
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.head).max_buf_size(HEAD_BYTES_MAX);
    // A client may end its side behind its request, and gets its answer. `TimedStream` notices those that have left.
    http.half_close(true);
    let served = GracefulShutdown::new();
    while let Some(taken) = stop.run_until_cancelled(next(&listener, &connections)).await {
        let (permit, stream, peer) = match taken {
            Ok(taken) => taken,
            Err(error) if is_clients(&error) => continue,
            Err(error) => {
                warn!(error = runtime::report(&error), "a connection cannot be taken");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Some(connection) = connections.open(peer, permit) else {
            // Reset at once, so that the system keeps nothing of it.
            drop(stream.set_zero_linger());
            continue;
        };
        let line = TimedStream::new(stream, Arc::clone(&connection), limits.take);
        let routes = TowerToHyperService::new(router.clone());
        // Handlers find the connection in the request's extensions.
        let answers = service_fn(move |mut request: Request<Incoming>| {
            connection.begin();
            request.extensions_mut().insert(Arc::clone(&connection));
            let answer = routes.call(request);
            let connection = Arc::clone(&connection);
            async move {
                let answer = answer.await;
                connection.answered(answer.as_ref().is_ok_and(is_stream));
                answer
            }
        });
        let ended = served.watch(http.serve_connection(TokioIo::new(line), answers));
        tokio::spawn(async move {
            if let Err(error) = ended.await {
                trace!(error = runtime::report(&error), "a connection ended");
            }
        });
    }
    drop(listener);
    served.shutdown().await;
}

async fn next(
    listener: &TcpListener,
    connections: &Connections,
) -> io::Result<(OwnedSemaphorePermit, TcpStream, IpAddr)> {
    let permit = connections.permit().await.ok_or_else(|| io::Error::other("it is closed"))?;
    let (stream, peer) = listener.accept().await?;
    // Answers are written whole, so waiting for more gains nothing.
    stream.set_nodelay(true)?;
    Ok((permit, stream, peer.ip()))
}

/// Returns whether an answer is a stream of events, which has no end of its own.
fn is_stream<B>(answer: &Response<B>) -> bool {
    let kind = answer.headers().get(header::CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
}

/// Returns whether the failure is this client's, which left early: the next one can be accepted.
fn is_clients(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::InvalidInput
    )
}
