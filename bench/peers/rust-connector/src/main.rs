//! A tailer as a competent user would write it by hand in Rust: mysql-binlog-connector-rust reads the binlog, each row
//! becomes a JSON message keyed by its user, rdkafka produces it, and the position is saved only when everything before
//! it was acknowledged. The bench compares ours with it.

use std::{
    collections::HashMap,
    env, fs,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, Result, bail};
use mysql_binlog_connector_rust::{
    binlog_client::{BinlogClient, StartPosition},
    column::column_value::ColumnValue,
    event::{
        event_data::EventData, event_header::EventHeader, row_event::RowEvent,
        table_map_event::TableMapEvent,
    },
};
use rdkafka::{
    ClientConfig,
    error::{KafkaError, RDKafkaErrorCode},
    producer::{BaseRecord, DefaultProducerContext, Producer as _, ThreadedProducer},
};
use serde_json::{Map, Value, json};

/// Interval for saving the position; each save waits for all acknowledgements.
const SAVE_EVERY: Duration = Duration::from_secs(1);

/// Longest wait for acknowledgements.
const FLUSH_MAX: Duration = Duration::from_secs(60);

struct Tailer {
    producer: ThreadedProducer<DefaultProducerContext>,
    topic: String,
    database: String,
    table: String,
    tables: HashMap<u64, TableMapEvent>,
    file: String,
    saved: Instant,
}

impl Tailer {
    fn handle(&mut self, header: &EventHeader, event: EventData) -> Result<()> {
        match event {
            EventData::Rotate(rotate) => self.file = rotate.binlog_filename,
            EventData::TableMap(table) => drop(self.tables.insert(table.table_id, table)),
            EventData::WriteRows(rows) => {
                for row in rows.rows {
                    self.send(header, rows.table_id, "c", None, Some(row))?;
                }
            }
            EventData::UpdateRows(rows) => {
                for (before, after) in rows.rows {
                    self.send(header, rows.table_id, "u", Some(before), Some(after))?;
                }
            }
            EventData::DeleteRows(rows) => {
                for row in rows.rows {
                    self.send(header, rows.table_id, "d", Some(row), None)?;
                }
            }
            EventData::Xid(_) if self.saved.elapsed() >= SAVE_EVERY => {
                self.producer.flush(FLUSH_MAX)?;
                // Replaced by a rename: a torn position is worse than an old one.
                fs::write(
                    "position.new",
                    format!("{}:{}\n", self.file, header.next_event_position),
                )?;
                fs::rename("position.new", "position")?;
                self.saved = Instant::now();
            }
            _ => {}
        }
        Ok(())
    }

    fn send(
        &self,
        header: &EventHeader,
        table_id: u64,
        op: &str,
        before: Option<RowEvent>,
        after: Option<RowEvent>,
    ) -> Result<()> {
        let table = self.tables.get(&table_id).context("rows of a table that was not described")?;
        if table.database_name != self.database || table.table_name != self.table {
            return Ok(());
        }
        let before = columns(table, before)?;
        let after = columns(table, after)?;
        let key =
            [&after, &before].iter().find_map(|row| row.get("user_id")).context("no user_id")?;
        let key = key.to_string();
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as u64;
        let message = json!({
            "op": op,
            "before": before,
            "after": after,
            "source": {
                "db": table.database_name, "table": table.table_name, "file": self.file,
                "pos": header.next_event_position, "ts_ms": u64::from(header.timestamp) * 1000,
            },
            "ts_ms": now,
        });
        let payload = serde_json::to_vec(&message)?;
        loop {
            match self.producer.send(BaseRecord::to(&self.topic).key(&key).payload(&payload)) {
                Ok(()) => return Ok(()),
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), _)) => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err((error, _)) => bail!(error),
            }
        }
    }
}

/// Returns a row as an object, or null.
fn columns(table: &TableMapEvent, row: Option<RowEvent>) -> Result<Value> {
    let Some(row) = row else { return Ok(Value::Null) };
    let metadata = table.table_metadata.as_ref().context("binlog_row_metadata is not FULL")?;
    let mut object = Map::with_capacity(row.column_values.len());
    for (column, value) in metadata.columns.iter().zip(row.column_values) {
        let name = column.column_name.clone().context("a column without a name")?;
        object.insert(name, json_of(value));
    }
    Ok(Value::Object(object))
}

fn json_of(value: ColumnValue) -> Value {
    match value {
        ColumnValue::None => Value::Null,
        ColumnValue::Tiny(number) => number.into(),
        ColumnValue::Short(number) => number.into(),
        ColumnValue::Long(number) => number.into(),
        ColumnValue::LongLong(number) => number.into(),
        ColumnValue::DateTime(text) => text.into(),
        ColumnValue::String(text) | ColumnValue::Blob(text) => {
            String::from_utf8_lossy(&text).into()
        }
        other => format!("{other:?}").into(),
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let options: HashMap<String, String> = env::args()
        .skip(1)
        .filter_map(|option| {
            let (name, value) = option.strip_prefix("--")?.split_once('=')?;
            Some((name.to_owned(), value.to_owned()))
        })
        .collect();
    let option =
        |name: &str| options.get(name).cloned().with_context(|| format!("--{name} is missing"));
    let producer: ThreadedProducer<_> = ClientConfig::new()
        .set("bootstrap.servers", option("brokers")?)
        .set("compression.type", "lz4")
        .set("acks", "all")
        .set("enable.idempotence", "true")
        .set("linger.ms", option("linger-ms")?)
        .create()?;
    let from = option("from")?;
    let (file, offset) = from.split_once(':').context("--from is not file:offset")?;
    let table = option("table")?;
    let (database, table) = table.split_once('.').context("--table is not database.table")?;
    let mut tailer = Tailer {
        producer,
        topic: option("topic")?,
        database: database.to_owned(),
        table: table.to_owned(),
        tables: HashMap::new(),
        file: file.to_owned(),
        saved: Instant::now(),
    };
    let start = StartPosition::BinlogPosition(file.to_owned(), offset.parse()?);
    let mut client = BinlogClient::new(&option("mysql")?, 184_200, start)
        .with_master_heartbeat(Duration::from_secs(1));
    let mut stream = client.connect().await?;
    loop {
        let (header, event) = stream.read().await?;
        tailer.handle(&header, event)?;
    }
}
