//! Connections: taken, bounded in number and patience, and drained at the end.

use std::{io, sync::Arc, time::Duration};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use tokio::{net::TcpListener, sync::Semaphore};
use tokio_util::sync::CancellationToken;
use tracing::{trace, warn};

use crate::{front::HEADER_BYTES_MAX, limits::Limits, line::Line};

/// Bytes that are read of a head: above what `front.rs` refuses with a problem, so that only what is far
/// beyond gets hyper's bare 431.
const HEAD_BYTES_MAX: usize = 4 * HEADER_BYTES_MAX;

/// Pause after the system refused a connection, e.g. for want of files.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// Serves until `stop`, and then until every connection has had the answer it waits for.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    limits: Limits,
    stop: CancellationToken,
) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.head).max_buf_size(HEAD_BYTES_MAX);
    let connections = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(limits.connections));
    let next = async || -> io::Result<_> {
        let place = Arc::clone(&places).acquire_owned().await.map_err(io::Error::other)?;
        let (stream, _) = listener.accept().await?;
        // Answers are written whole: nothing is gained by waiting for more.
        stream.set_nodelay(true)?;
        Ok((place, stream))
    };
    while let Some(taken) = stop.run_until_cancelled(next()).await {
        let (place, stream) = match taken {
            Ok(taken) => taken,
            Err(error) if is_clients(&error) => continue,
            Err(error) => {
                warn!(error = runtime::report(&error), "a connection cannot be taken");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let service = TowerToHyperService::new(router.clone());
        let line = TokioIo::new(Line::new(stream, limits.take));
        let connection = connections.watch(http.serve_connection(line, service));
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                trace!(error = runtime::report(&error), "a connection ended");
            }
            drop(place);
        });
    }
    drop(listener);
    connections.shutdown().await;
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
