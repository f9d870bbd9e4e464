//! Finds a claim's messages: by partition and time, within limits of time and number.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use coupon::partition_of;
use landing::ids::made_at;
use topic::{
    Event, HistorySpan, Message, ONLY_BUCKET, Search, TopicError, UserCouponRow, claims_partition,
    decode, decode_claim, find_message,
};

use super::{
    Stories, StorySubject, Turn,
    facts::{Admitted, Change, End, Known, Relayed},
    stock_of,
};

/// Longest search of one topic. With all else it is shorter than the 8 s of a request that reads.
const SEARCH_MAX: Duration = Duration::from_secs(3);

/// Maximum number of messages searched: in a busy partition those of some seconds after the claim.
const SEARCHED_MAX: u64 = 1_000_000;

/// Largest difference between two processes' clocks at which no message is missed. With NTP it is milliseconds.
const CLOCK_SLACK: TimeDelta = TimeDelta::seconds(10);

const FORGOTTEN: &str = "the topic has deleted the messages of that time: it keeps them for 7 days";
const TOO_MANY: &str = "more was sent to its partition since then than is read for a story";
const AWAY: &str = "Kafka cannot be read at the moment";

impl Stories {
    /// Looks for the message of a queued claim.
    pub(super) async fn relayed(
        &self,
        turn: &Turn,
        asked: &StorySubject,
        ever_queued: bool,
    ) -> Known<Relayed> {
        if !ever_queued {
            return Known::Never("it took the direct way: its template never queued a claim");
        }
        let template = asked.template;
        let id = asked.id;
        let span = span(made_at(id.0), decided_at(&asked.end));
        let partition = move |partitions| claims_partition(template, ONLY_BUCKET, partitions);
        let held = Turn::clone(turn);
        let text = format!("\"{id}\"");
        let fits = move |_: &[u8], payload: &[u8]| {
            let _turn = &held;
            // Decoding each claim of a sale would take seconds.
            payload.windows(text.len()).any(|part| part == text.as_bytes())
                && decode_claim(payload).is_ok_and(|queued| {
                    let claim = &queued.admission.claim;
                    claim.id == id && claim.template_id == template
                })
        };
        match find_message(&self.brokers, &self.names.claims(), partition, span, fits).await {
            Ok(Search::Found(message)) => match relayed(*message) {
                Some(relayed) => Known::Is(relayed),
                None => Known::Unknown("its message cannot be read".to_owned()),
            },
            Ok(Search::Nothing) => match &asked.end {
                End::UnderWay => {
                    Known::NotYet("it is in the gate's outbox, or is landing directly")
                }
                End::Landed(_) | End::Lost { .. } | End::GivenUp { .. } => {
                    Known::Never("it took the direct way")
                }
                End::Rejected { .. } => Known::Unknown("the topic has no message of it".to_owned()),
            },
            Ok(other) => Known::Unknown(unfound(&other)),
            Err(error) => away(&error),
        }
    }

    /// Looks for the event of a landed claim's first coupon.
    pub(super) async fn change(&self, turn: &Turn, asked: &StorySubject) -> Known<Change> {
        let (End::Landed(coupons), Some(user)) = (&asked.end, asked.user) else {
            return Known::Never("it has no coupons");
        };
        let Some(first) = coupons.iter().min() else {
            return Known::Unknown("its coupons were not found".to_owned());
        };
        let held = Turn::clone(turn);
        let id = asked.id;
        let key = user.to_string();
        let fits = move |of: &[u8], payload: &[u8]| {
            let _turn = &held;
            of == key.as_bytes() && coupon_event(payload).is_some_and(|(_, claim)| claim == id.0)
        };
        let partition = move |partitions| partition_of(user, partitions);
        let topic = self.names.user_coupon();
        let span = span(made_at(first.0), None);
        match find_message(&self.brokers, &topic, partition, span, fits).await {
            Ok(Search::Found(message)) => match change(*message) {
                Some(change) => Known::Is(change),
                None => Known::Unknown("its event cannot be read".to_owned()),
            },
            Ok(Search::Nothing) => Known::NotYet("no event of it is on the topic yet"),
            Ok(other) => Known::Unknown(unfound(&other)),
            Err(error) => away(&error),
        }
    }
}

/// Returns the messages from a time on, until another or without an end.
fn span(from: DateTime<Utc>, until: Option<DateTime<Utc>>) -> HistorySpan {
    let until_ms = until.map(|until| (until + CLOCK_SLACK).timestamp_millis());
    HistorySpan {
        from_ms: (from - CLOCK_SLACK).timestamp_millis(),
        until_ms: until_ms.unwrap_or(i64::MAX),
        within: SEARCH_MAX,
        messages_max: SEARCHED_MAX,
    }
}

/// Returns when a queued claim had left its queue, at the latest. A claim that was given up may be queued all the same.
fn decided_at(end: &End) -> Option<DateTime<Utc>> {
    match end {
        End::Landed(coupons) => coupons.iter().min().map(|first| made_at(first.0)),
        End::Rejected { at, .. } => Some(*at),
        End::UnderWay | End::Lost { .. } | End::GivenUp { .. } => None,
    }
}

fn relayed(message: Message) -> Option<Relayed> {
    let queued = decode_claim(message.payload.as_deref()?).ok()?;
    let stock = stock_of(queued.left_after, queued.admission.claim.quantity);
    Some(Relayed {
        topic: message.topic,
        partition: message.partition,
        offset: message.offset,
        at: message.timestamp_ms.and_then(DateTime::from_timestamp_millis),
        accept_after: queued.accept_after,
        admitted: Admitted { at: queued.admitted_at, stock },
    })
}

/// Reads an event of a coupon, with the id of the coupon's claim.
fn coupon_event(payload: &[u8]) -> Option<(Event<UserCouponRow>, i64)> {
    let event: Event<UserCouponRow> = decode(payload).ok()?;
    let claim = event.after.as_ref()?.claim_id;
    Some((event, claim))
}

fn change(message: Message) -> Option<Change> {
    let (event, _) = coupon_event(message.payload.as_deref()?)?;
    Some(Change {
        topic: message.topic,
        partition: message.partition,
        offset: message.offset,
        at: message.timestamp_ms.and_then(DateTime::from_timestamp_millis),
        read_at: DateTime::from_timestamp_millis(event.ts_ms),
        source: event.source,
    })
}

/// Says why a search found nothing.
fn unfound(search: &Search) -> String {
    let why = if *search == Search::Forgotten { FORGOTTEN } else { TOO_MANY };
    why.to_owned()
}

fn away<T>(error: &TopicError) -> Known<T> {
    runtime::seldom!("messages cannot be looked for, for a story", runtime::report(error));
    Known::Unknown(AWAY.to_owned())
}
