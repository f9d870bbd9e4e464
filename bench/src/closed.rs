//! A closed loop: a number of connections, each of which begins its next request when its last one is answered.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::Result;
use shopper::Latency;
use tokio::task::JoinSet;

/// Sends one request for each item, and returns how long each took.
///
/// # Errors
/// A request fails.
///
/// # Panics
/// A task of the load panicked.
pub async fn run<T, F>(
    connections: usize,
    items: Vec<T>,
    send: impl Fn(T) -> F + Clone + Send + 'static,
) -> Result<Vec<Duration>>
where
    T: Send + 'static,
    F: Future<Output = Result<()>> + Send,
{
    let left = Arc::new(Mutex::new(items));
    let mut tasks = JoinSet::new();
    for _ in 0..connections {
        let send = send.clone();
        let left = Arc::clone(&left);
        tasks.spawn(async move {
            let mut times = Vec::new();
            while let Some(item) = next(&left) {
                let began = Instant::now();
                send(item).await?;
                times.push(began.elapsed());
            }
            anyhow::Ok(times)
        });
    }
    let times: Result<Vec<Vec<Duration>>> = tasks.join_all().await.into_iter().collect();
    Ok(times?.concat())
}

/// Collects times.
pub fn latency(times: Vec<Duration>) -> Latency {
    let mut latency = Latency::default();
    times.into_iter().for_each(|time| latency.record(time));
    latency
}

fn next<T>(left: &Mutex<Vec<T>>) -> Option<T> {
    left.lock().unwrap_or_else(PoisonError::into_inner).pop()
}
