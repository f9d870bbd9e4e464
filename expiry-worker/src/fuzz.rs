//! Lead times, and what becomes of a wake-up, for `fuzz/` and the test that runs its corpus. Not for other callers.

use chrono::{DateTime, TimeDelta};
use topic::ExpiryWakeUp;

use crate::{config, deadlines::Deadlines};

/// A moment of the year 2027, in milliseconds since 1970.
const NOW_MS: i64 = 1_800_000_000_000;

/// Partitions of the wake-ups' topic.
const PARTITIONS: i32 = 32;

/// Checks that lead times that parse still mean the same after being written and parsed again.
pub fn lead_times(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let Ok(leads) = config::leads(text) else { return };
    assert!(!leads.0.contains(&0), "a lead time of nothing: {text:?}");
    let written: Vec<String> = leads.0.iter().map(u32::to_string).collect();
    assert_eq!(config::leads(&written.join(",")), Ok(leads), "{text:?} is not what it was");
}

/// Takes the data as the payload of a wake-up, and does with it what the worker does. Panics only if that does, or a
/// shard that does not exist is watched.
pub fn wake_up(data: &[u8]) {
    let Ok(wake_up) = topic::decode::<ExpiryWakeUp>(data) else { return };
    let now = DateTime::from_timestamp_millis(NOW_MS).unwrap_or_default();
    let mut deadlines = Deadlines::new(PARTITIONS);
    deadlines.fold(wake_up);
    let watched = deadlines.shards();
    assert!(watched.iter().all(|(shard, _)| *shard < 64), "{watched:?}");
    let is_due = deadlines.wait(now).is_some_and(|wait| wait.is_zero());
    let due = deadlines.take_turns(now, usize::MAX);
    assert_eq!(is_due, !due.is_empty(), "{wake_up:?}");
    for shard in due {
        deadlines.put_off(shard, now + TimeDelta::seconds(1));
    }
    deadlines.look_twice();
    deadlines.look_twice();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_number_in_a_wake_up_ends_the_worker() {
        let times = [
            i64::MIN,
            -8_334_601_228_800_001,
            -8_334_601_228_800_000,
            -1,
            0,
            NOW_MS,
            8_210_266_876_799_999,
            8_210_266_876_800_000,
            i64::MAX,
        ];
        for (shard, deadline_ms) in
            times.iter().flat_map(|time| [0, 63, 64, 255].map(|one| (one, time)))
        {
            wake_up(format!(r#"{{"shard":{shard},"deadline_ms":{deadline_ms}}}"#).as_bytes());
        }
    }
}
