//! Speed of the two libraries below a tailer alone: decoding the binlog, and producing messages.

use std::time::Instant;

use anyhow::{Context as _, Result, anyhow, ensure};
use mysql_cdc::{
    binlog_client::BinlogClient, binlog_options::BinlogOptions, events::binlog_event::BinlogEvent,
    replica_options::ReplicaOptions,
};
use rdkafka::{
    ClientConfig, Message as _,
    error::KafkaError,
    message::OwnedMessage,
    producer::{BaseProducer, BaseRecord, Producer as _},
    types::RDKafkaErrorCode,
    util::Timeout,
};

use super::{broker::Broker, load::Part, peers::ServerAccess};

/// Our server id among the replicas while decoding.
const SERVER_ID: u32 = 184_200;

/// Distinct messages that are produced repeatedly: few enough for memory, too many for a CPU cache.
const DISTINCT: usize = 50_000;

/// Messages between two polls for acknowledgements.
const POLL_EVERY: usize = 1_000;

/// Rows per second that the bare crate's iterator decodes, ignoring positions and sending nothing.
///
/// # Errors
/// Decoding fails, or ends before the part's last row.
pub fn decode_per_s(access: &ServerAccess, part: &Part) -> Result<f64> {
    let place = &part.from;
    let offset = u32::try_from(place.offset)?;
    let mut client = BinlogClient::new(ReplicaOptions {
        hostname: access.host.clone(),
        port: access.port,
        username: access.user.clone(),
        password: access.password.clone(),
        server_id: SERVER_ID,
        blocking: false,
        binlog: BinlogOptions::from_position(place.file.clone(), offset),
        ..ReplicaOptions::default()
    });
    let failed = |error| anyhow!("mysql_cdc: {error:?}");
    let began = Instant::now();
    let mut rows = 0;
    let wanted = usize::try_from(part.rows)?;
    for event in client.replicate().map_err(failed)? {
        let (_, event) = event.map_err(failed)?;
        rows += match event {
            BinlogEvent::WriteRowsEvent(event) => event.rows.len(),
            BinlogEvent::UpdateRowsEvent(event) => event.rows.len(),
            BinlogEvent::DeleteRowsEvent(event) => event.rows.len(),
            _ => 0,
        };
        if rows >= wanted {
            return Ok(wanted as f64 / began.elapsed().as_secs_f64());
        }
    }
    Err(anyhow!("mysql_cdc ended after {rows} of {wanted} rows"))
}

/// Acknowledged messages per second of the bare client. It sends the messages of `from` repeatedly to a separate topic,
/// idempotent and with `acks=all` like the tailer.
///
/// # Errors
/// The broker refuses.
pub async fn produce_per_s(broker: &Broker, from: &str, messages: usize) -> Result<f64> {
    let topic = "bench.ceiling";
    broker.create(topic).await?;
    let distinct = broker.first(from, DISTINCT.min(messages)).await?;
    let address = broker.address().to_owned();
    tokio::task::spawn_blocking(move || {
        // Twice: in the first run the broker's JVM compiles its code.
        produce(&address, topic, &distinct, messages / 4)?;
        produce(&address, topic, &distinct, messages)
    })
    .await?
}

fn produce(address: &str, topic: &str, distinct: &[OwnedMessage], messages: usize) -> Result<f64> {
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", address)
        .set("enable.idempotence", "true")
        .set("acks", "all")
        .set("linger.ms", "0")
        .set("partitioner", "murmur2_random")
        .set("compression.type", "lz4")
        .set("queue.buffering.max.kbytes", "16384")
        .create()?;
    let began = Instant::now();
    for (number, message) in distinct.iter().cycle().take(messages).enumerate() {
        let key = message.key().unwrap_or_default();
        let payload = message.payload().unwrap_or_default();
        let mut record = BaseRecord::to(topic).key(key).payload(payload);
        record.headers = message.headers().cloned();
        while let Err((error, back)) = producer.send(record) {
            let full = KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull);
            ensure!(error == full, "the client refuses a message: {error}");
            producer.poll(Timeout::After(std::time::Duration::from_millis(1)));
            record = back;
        }
        if number % POLL_EVERY == 0 {
            producer.poll(Timeout::After(std::time::Duration::ZERO));
        }
    }
    producer.flush(Timeout::Never).context("not all messages were acknowledged")?;
    Ok(messages as f64 / began.elapsed().as_secs_f64())
}
