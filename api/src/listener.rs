//! Connections: taken, bounded in number, patience and memory, and drained at the end.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use axum::Router;
use hyper::{
    Request,
    body::Incoming,
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
    connections::Connections,
    front::{HEADER_BYTES_MAX, URI_BYTES_MAX},
    line::Line,
};

/// Bytes that are read of a head: somewhat above what `front.rs` refuses with a problem, so that only what is beyond
/// gets hyper's bare 431. It is also what hyper keeps of a request's bytes at a time, for each connection.
const HEAD_BYTES_MAX: usize = HEADER_BYTES_MAX + URI_BYTES_MAX + 4 * 1024;

/// Bytes of answers that the system keeps for a client who does not take them; it takes about twice as much memory for
/// them. Four megabytes are the system's own limit, enough for 20 copies of the largest answer there is. A client
/// 100 ms away is still sent 600 KiB a second, and an ordinary answer is a few hundred bytes. Half as much would be less than
/// one packet on the way to a proxy on this machine, and each would wait 40 ms for its acknowledgement. It bounds as well how
/// many requests are answered ahead of a client who sends many: no further one is begun while there is no room.
const SEND_BUFFER: u32 = 64 * 1024;

/// Bytes of requests that the system keeps until we read them: half of the largest body.
const RECEIVE_BUFFER: u32 = 32 * 1024;

/// Connections that the system keeps until we take them.
const BACKLOG: u32 = 1024;

/// Pause after the system refused a connection, e.g. for want of files.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// A socket at which clients are waited for; those that it takes have its buffers.
///
/// # Errors
/// The address cannot be used.
pub(crate) fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A process that is started again need not wait for the connections of the one before.
    socket.set_reuseaddr(true)?;
    socket.set_send_buffer_size(SEND_BUFFER)?;
    socket.set_recv_buffer_size(RECEIVE_BUFFER)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Serves until `stop`, and then until every connection has had the answer it waits for.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    connections: Arc<Connections>,
    stop: CancellationToken,
) {
    let limits = connections.limits();
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.head).max_buf_size(HEAD_BYTES_MAX);
    let served = GracefulShutdown::new();
    while let Some(taken) = stop.run_until_cancelled(next(&listener, &connections)).await {
        let (place, stream, peer) = match taken {
            Ok(taken) => taken,
            Err(error) if is_clients(&error) => continue,
            Err(error) => {
                warn!(error = runtime::report(&error), "a connection cannot be taken");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Some(connection) = connections.open(peer, place) else {
            // At once, and without a trace in the system.
            drop(stream.set_zero_linger());
            continue;
        };
        let line = Line::new(stream, Arc::clone(&connection), limits.take);
        let routes = TowerToHyperService::new(router.clone());
        // Whoever looks at a request finds its connection.
        let answers = service_fn(move |mut request: Request<Incoming>| {
            connection.begin();
            request.extensions_mut().insert(Arc::clone(&connection));
            let (answer, connection) = (routes.call(request), Arc::clone(&connection));
            async move {
                let answer = answer.await;
                connection.answered();
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
    let place = connections.place().await.ok_or_else(|| io::Error::other("it is closed"))?;
    let (stream, peer) = listener.accept().await?;
    // Answers are written whole: nothing is gained by waiting for more.
    stream.set_nodelay(true)?;
    Ok((place, stream, peer.ip()))
}

/// The client went before it was served; the next one may not.
fn is_clients(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::InvalidInput
    )
}
