//! What counting costs a claim, for a measured test. Not for other callers.

use std::{
    thread,
    time::{Duration, Instant},
};

use coupon::TemplateId;
use runtime::Clock;

use super::counter::{Answered, Counter};
use crate::code::Code;

/// Counts `answers` answers in each of `threads` threads at once, all for one template, as in a rush. Returns how long
/// one answer took its thread on average, with the waits for each other.
///
/// # Panics
/// A thread cannot be started.
pub fn of_counting(threads: u32, answers: u32) -> Duration {
    let counter = Counter::new("price", Clock::system());
    let begun = Instant::now();
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                for number in 0..answers {
                    let took = Duration::from_micros(u64::from(number) % 50_000);
                    let answered = match number % 10 {
                        0 => Answered::Landed,
                        _ => Answered::Refused(Code::SoldOut),
                    };
                    counter.count(Some(TemplateId(7)), answered, took);
                }
            });
        }
    });
    begun.elapsed() / answers
}
