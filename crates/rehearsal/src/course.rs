//! [`Rehearsal`]: users come at a rate; [`Course`]: what they were answered.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use coupon::TemplateId;
use reqwest::{Client, redirect};
use tokio::{
    sync::Semaphore,
    task::JoinSet,
    time::{Instant, sleep_until},
};

use crate::{
    Latency,
    answer::{Answer, NO_ANSWER},
    visit::{Visit, Visited},
};

/// Most users who wait for an answer at a time: more would be connections that one machine does not have. Beyond it users come
/// later than their turn, which the course tells.
const AT_ONCE_MAX: usize = 4_096;

/// Time limit for connecting, and for one answer: longer than the five seconds after which the api asks a claim's client to
/// poll.
const CONNECT_MAX: Duration = Duration::from_secs(5);
const ANSWER_MAX: Duration = Duration::from_secs(15);

/// A rehearsal that is about to begin.
pub struct Rehearsal {
    /// Address of the api, e.g. `https://coupons.example`.
    pub api_url: String,
    pub template: TemplateId,
    /// A token for each user. Each claims one coupon.
    pub tokens: Vec<String>,
    /// Users who come in each second, at least 1.
    pub rate: u32,
}

/// What the users of a rehearsal were answered.
#[derive(Debug, Default)]
pub struct Course {
    /// Requests sent, with those that were sent again.
    pub requests: u64,
    /// Answers by status and code, e.g. `409 SOLD_OUT`, and `no answer`.
    pub answers: BTreeMap<String, u64>,
    /// Time from sending a request to its answer.
    pub answered: Latency,
    /// Requests that were answered "not now", or not at all, and were sent again.
    pub again: u64,
    /// Users whose claim was answered 201 or 202.
    pub promised: u64,
    /// Users without a final answer when their patience ended, by the last one that they had.
    pub given_up: BTreeMap<String, u64>,
    /// Users whose final answer decides no claim, by that answer, e.g. `401 UNAUTHENTICATED`. They were not served.
    pub refused: BTreeMap<String, u64>,
    /// When the first user was told that all is sold out, from the begin on.
    pub sold_out_after: Option<Duration>,
    /// From the begin until the last user came.
    pub coming: Duration,
    /// From the begin until the last user had a final answer or gave up.
    pub elapsed: Duration,
}

impl Rehearsal {
    /// Lets the users come, and waits for the last answer.
    ///
    /// # Errors
    /// The HTTP client cannot be set up.
    pub async fn run(self) -> Result<Course, reqwest::Error> {
        let client = Client::builder()
            .connect_timeout(CONNECT_MAX)
            .timeout(ANSWER_MAX)
            // A token must not be sent to any other address.
            .redirect(redirect::Policy::none())
            .build()?;
        let base_url = self.api_url.trim_end_matches('/');
        let url: Arc<str> = format!("{base_url}/v1/templates/{}/claims", self.template).into();
        let places = Arc::new(Semaphore::new(AT_ONCE_MAX));
        let began = Instant::now();
        let mut course = Course::default();
        let mut visits = JoinSet::new();
        for (number, token) in (0_u32..).zip(self.tokens) {
            sleep_until(began + Duration::from_secs(1) * number / self.rate.max(1)).await;
            let place = Arc::clone(&places).acquire_owned().await;
            let key = format!("rehearsal-{:032x}", fastrand::u128(..));
            let visit = Visit { client: client.clone(), url: Arc::clone(&url), token, key };
            visits.spawn(async move {
                let visited = visit.insist().await;
                drop(place);
                visited
            });
            course.coming = began.elapsed();
            while let Some(visited) = visits.try_join_next() {
                course.take(visited.unwrap_or_default(), began);
            }
        }
        while let Some(visited) = visits.join_next().await {
            course.take(visited.unwrap_or_default(), began);
        }
        Ok(course)
    }
}

impl Course {
    fn take(&mut self, visited: Visited, began: Instant) {
        let ended = visited.ended.map(|at| at.saturating_duration_since(began));
        match visited.last() {
            Some(last) if last.is_outcome() => {
                self.promised += u64::from(last.is_promise());
                let first = ended.filter(|_| last.is_sold_out());
                self.sold_out_after = earlier(self.sold_out_after, first);
            }
            Some(last) if !last.is_passing() => {
                *self.refused.entry(last.word()).or_default() += 1;
            }
            last => {
                let word = last.map_or_else(|| NO_ANSWER.to_owned(), Answer::word);
                *self.given_up.entry(word).or_default() += 1;
            }
        }
        self.elapsed = self.elapsed.max(ended.unwrap_or_default());
        for (answer, took) in visited.asked {
            self.requests += 1;
            self.again += u64::from(answer.is_passing());
            if answer.status.is_some() {
                self.answered.record(took);
            }
            *self.answers.entry(answer.word()).or_default() += 1;
        }
    }
}

fn earlier(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    one.into_iter().chain(other).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visited(answers: &[(u16, Option<&str>)], began: Instant, after_ms: u64) -> Visited {
        let answer = |&(status, code): &(u16, Option<&str>)| {
            let code = code.map(str::to_owned);
            (Answer { status: Some(status), code, after: None }, Duration::from_millis(5))
        };
        let ended = Some(began + Duration::from_millis(after_ms));
        Visited { asked: answers.iter().map(answer).collect(), ended }
    }

    #[test]
    fn a_course_counts_requests_users_and_the_first_who_came_too_late() {
        let began = Instant::now();
        let sold_out = (409, Some("SOLD_OUT"));
        let mut course = Course::default();
        for (answers, after_ms) in [
            (&[(201, None)][..], 10),
            (&[(503, Some("OVERLOADED")), (201, None)][..], 400),
            (&[sold_out][..], 900),
            (&[sold_out][..], 700),
            (&[(429, Some("RATE_LIMITED"))][..], 300),
        ] {
            course.take(visited(answers, began, after_ms), began);
        }
        course.take(Visited::default(), began);
        assert_eq!((course.requests, course.again, course.promised), (6, 2, 2));
        let given_up: Vec<(&str, u64)> =
            course.given_up.iter().map(|(word, count)| (word.as_str(), *count)).collect();
        let wanted = [("429 RATE_LIMITED", 1), (NO_ANSWER, 1)];
        assert_eq!(given_up, wanted, "one was told to come again to the end, one panicked");
        assert!(course.refused.is_empty(), "{course:?}");
        assert_eq!(course.sold_out_after, Some(Duration::from_millis(700)));
        assert_eq!(course.elapsed, Duration::from_millis(900));
        assert_eq!((course.answers["201"], course.answers["409 SOLD_OUT"]), (2, 2));
    }

    #[test]
    fn an_answer_that_decides_no_claim_serves_nobody() {
        let began = Instant::now();
        let mut course = Course::default();
        for answer in [
            (201, None),
            (202, None),
            (409, Some("INSUFFICIENT_STOCK")),
            (409, Some("LIMIT_REACHED")),
            (200, None),
            (401, Some("UNAUTHENTICATED")),
            (401, Some("UNAUTHENTICATED")),
            (403, None),
            (409, Some("PAUSED")),
            (422, Some("INVALID_QUANTITY")),
        ] {
            course.take(visited(&[answer], began, 5), began);
        }
        assert_eq!((course.promised, course.given_up.len()), (2, 0));
        let refused: Vec<(&str, u64)> =
            course.refused.iter().map(|(word, count)| (word.as_str(), *count)).collect();
        let wanted = [
            ("200", 1),
            ("401 UNAUTHENTICATED", 2),
            ("403", 1),
            ("409 PAUSED", 1),
            ("422 INVALID_QUANTITY", 1),
        ];
        assert_eq!(refused, wanted);
        course.take(visited(&[(500, Some("INTERNAL"))], began, 5), began);
        assert_eq!(course.given_up["500 INTERNAL"], 1);
    }
}
