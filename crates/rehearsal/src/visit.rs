//! One user's claim, sent until its answer is final.

use std::{sync::Arc, time::Duration};

use reqwest::{Client, header};
use tokio::time::{Instant, sleep};

use crate::answer::Answer;

/// How long a user tries: as long as one looks at a page that does not load.
const PATIENCE: Duration = Duration::from_secs(30);

/// Shortest and longest pause before a request is sent again, in milliseconds. The longest is that of `Retry-After`, whatever
/// it says.
const PAUSE_MIN_MS: u64 = 100;
const PAUSE_MAX_MS: u64 = 5_000;

/// A user who is about to claim.
pub(crate) struct Visit {
    pub(crate) client: Client,
    /// Where claims of the template go.
    pub(crate) url: Arc<str>,
    pub(crate) token: String,
    /// The claim's name: all attempts have the same.
    pub(crate) key: String,
}

/// What became of a user.
#[derive(Debug, Default)]
pub(crate) struct Visited {
    /// Each request: what was answered, and after how long.
    pub(crate) asked: Vec<(Answer, Duration)>,
    /// When the last answer came.
    pub(crate) ended: Option<Instant>,
}

impl Visited {
    /// The answer that the user is left with.
    pub(crate) fn last(&self) -> Option<&Answer> {
        self.asked.last().map(|(answer, _)| answer)
    }
}

impl Visit {
    pub(crate) async fn insist(self) -> Visited {
        let began = Instant::now();
        let mut visited = Visited::default();
        loop {
            let sent = Instant::now();
            let answer = self.send().await;
            let is_final = !answer.is_passing() || began.elapsed() >= PATIENCE;
            let after = answer.after.unwrap_or_default();
            visited.asked.push((answer, sent.elapsed()));
            if is_final {
                visited.ended = Some(Instant::now());
                return visited;
            }
            // Jitter keeps users apart who were refused together.
            let jitter = Duration::from_millis(fastrand::u64(PAUSE_MIN_MS..=2 * PAUSE_MIN_MS));
            sleep((after + jitter).min(Duration::from_millis(PAUSE_MAX_MS))).await;
        }
    }

    async fn send(&self) -> Answer {
        let request = self
            .client
            .post(&*self.url)
            .header(header::AUTHORIZATION, format!("Bearer {}", self.token))
            .header(header::CONTENT_TYPE, "application/json")
            .header("idempotency-key", &self.key)
            .body(r#"{"quantity":1}"#);
        match request.send().await {
            Ok(response) => Answer::read(response).await.unwrap_or_else(|_| Answer::none()),
            Err(_) => Answer::none(),
        }
    }
}
