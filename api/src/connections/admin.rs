//! The api's routes on its admin listener. A balancer sends nothing to an api that is not ready, and then its console
//! is wanted most. Whoever reaches the listener still needs a key.

use std::{io, task::Poll};

use axum::{
    Router,
    body::{Body, HttpBody as _},
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use futures::{StreamExt as _, stream};
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use runtime::{AdminRoutes, Context};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// The routes on the admin listener, until [`Served::end`].
pub(crate) struct Served {
    routes: AdminRoutes,
    ended: CancellationToken,
}

/// Serves the routes on the process's admin listener too.
pub(crate) fn serve(context: &Context, router: Router) -> Served {
    let routes = context.admin.clone();
    let ended = CancellationToken::new();
    let service = TowerToHyperService::new(router);
    let until = ended.clone();
    routes.open(move |request| {
        let answer = service.call(request);
        let ended = until.clone();
        Box::pin(async move {
            let answered = ended.run_until_cancelled(answer).await;
            match answered {
                Some(Ok(answer)) => ending_with(ended, answer),
                Some(Err(never)) => match never {},
                None => StatusCode::SERVICE_UNAVAILABLE.into_response(),
            }
        })
    });
    Served { routes, ended }
}

impl Served {
    /// Ends what is under way too: what it holds would keep the process from draining.
    pub(crate) fn end(self) {
        self.routes.close();
        self.ended.cancel();
    }
}

/// Breaks a stream off once the listener serves these routes no more. A task holds the stream, since a client that
/// takes nothing would hold it for ever.
fn ending_with(ended: CancellationToken, answer: Response) -> Response {
    if answer.body().size_hint().exact().is_some() {
        return answer;
    }
    let (head, body) = answer.into_parts();
    let (given, mut taken) = mpsc::channel(1);
    let until = ended.clone();
    tokio::spawn(async move {
        let mut body = body.into_data_stream();
        let given = &given;
        let all = async {
            while let Some(part) = body.next().await {
                if given.send(part).await.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            () = all => {}
            () = given.closed() => {}
            () = until.cancelled() => {}
        }
    });
    let parts = stream::poll_fn(move |context| match taken.poll_recv(context) {
        // An export that was cut off must not look whole.
        Poll::Ready(None) if ended.is_cancelled() => {
            let error = io::Error::other("the process ends");
            Poll::Ready(Some(Err(axum::Error::new(error))))
        }
        part => part,
    });
    Response::from_parts(head, Body::from_stream(parts))
}

#[cfg(test)]
mod tests {
    use axum::body::{Bytes, to_bytes};

    use super::*;

    fn streamed(
        parts: impl futures::Stream<Item = io::Result<Bytes>> + Send + 'static,
    ) -> Response {
        Body::from_stream(parts).into_response()
    }

    #[tokio::test]
    async fn a_stream_that_ends_by_itself_is_passed_on_whole() {
        let parts = stream::iter([Ok(Bytes::from("a")), Ok(Bytes::from("b"))]);
        let answer = ending_with(CancellationToken::new(), streamed(parts));
        assert_eq!(to_bytes(answer.into_body(), 10).await.unwrap(), "ab");
    }

    #[tokio::test]
    async fn a_stream_without_an_end_is_broken_off_and_never_looks_whole() {
        let ended = CancellationToken::new();
        let parts = stream::iter([Ok(Bytes::from("a"))]).chain(stream::pending());
        let answer = ending_with(ended.clone(), streamed(parts));
        let mut parts = answer.into_body().into_data_stream();
        assert_eq!(parts.next().await.unwrap().unwrap(), "a");
        ended.cancel();
        assert!(parts.next().await.unwrap().is_err());
    }
}
