//! Lists of a template's rows: as pages, and whole as NDJSON or CSV.
//!
//! An export is a stream of chunks. Each chunk is one statement behind the position of the last row, on a connection
//! that is given back before the rows are sent. So a slow client holds a few chunks of memory here and no connection,
//! and a fast one is never waited for: the next chunk is read while this one is sent.

use std::{fmt::Display, str::FromStr, time::Duration};

use axum::{
    Json,
    body::{Body, Bytes},
    http::{HeaderMap, HeaderValue, header},
    response::{IntoResponse, Response},
};
use coupon::{MerchantId, TemplateId};
use mysql_store::{Listed, MySqlConnection, MySqlPool, StoreError, connect};
use runtime::Backoff;
use serde::Serialize;
use serde_json::json;
use tokio::{sync::mpsc, time::timeout};
use tracing::{info, warn};

use crate::{
    auth::Operator,
    code::Code,
    exports::Exported,
    http::{
        accept::Form,
        csv::Line,
        cursor::{self, Page},
    },
    problem::Problem,
    state::App,
    work_limits::Place,
};

/// Rows of one statement of an export: half a megabyte, and tens of milliseconds of a connection.
const CHUNK: u32 = 2_000;

/// Rows of one statement of a page with filters.
const PAGE_CHUNK: u32 = 1_000;

/// Most rows that are read for a page, however few of them its filters admit.
const PAGE_READ_MAX: u32 = 10_000;

/// Chunks that wait for the client, besides the one that it takes.
const WAITING: usize = 1;

/// Longest export: a slow client would keep its place from others for hours.
const EXPORT_MAX: Duration = Duration::from_hours(1);

/// Attempts at a chunk, and the waits between them. Reading again does no harm.
const TRIES: u32 = 4;
const AGAIN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// A list of rows of a template.
pub(crate) trait List: Sized + Send + Sync + 'static {
    /// A row as it is stored.
    type Line: Send + Sync;
    /// Where a row stands that cannot be read.
    type Damaged: Send + Sync;
    /// A row as it is shown.
    type Row: Serialize + Send;
    /// A position behind a row, and the text of a cursor.
    type Position: Display + FromStr + Send + Sync;

    /// Name of the list in its path.
    const NAME: &'static str;
    /// Names of the columns, in the order of [`List::cells`].
    const COLUMNS: &'static [&'static str];

    /// Reads the rows behind a position.
    fn read(
        &self,
        connection: &mut MySqlConnection,
        behind: Option<&Self::Position>,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<Read<Self>>, StoreError>> + Send;

    fn position(read: &Read<Self>) -> Self::Position;

    /// Returns what names a row that cannot be read.
    fn name(damaged: &Self::Damaged) -> String;

    /// Whether the filters admit a row.
    fn admits(&self, line: &Self::Line) -> bool;

    fn row(&self, line: Self::Line) -> Self::Row;

    /// Whether a chunk that was read with this limit is the last.
    fn is_last(chunk: &[Read<Self>], limit: u32) -> bool {
        chunk.len() < limit as usize
    }

    /// Writes a row's cells.
    fn cells(row: &Self::Row, line: &mut Line<'_>);
}

/// A row of a list, or where one stands that cannot be read.
pub(crate) type Read<L> = Listed<<L as List>::Line, <L as List>::Damaged>;

/// Answers a request for a list: with a page or, if the client prefers it, with all rows.
pub(crate) async fn answer<L: List>(
    app: &App,
    operator: Operator,
    template: TemplateId,
    headers: &HeaderMap,
    limit: Option<u32>,
    cursor: Option<&String>,
    list: L,
) -> Result<Response, Problem> {
    let form = Form::preferred(headers).unwrap_or(Form::Page);
    if form == Form::Page {
        let limit = cursor::limit(limit)?;
        let behind = cursor::parse(cursor)?;
        return Ok(Json(page(&app.pool, &list, behind, limit).await?).into_response());
    }
    if limit.is_some() || cursor.is_some() {
        let detail = "The query string: limit and cursor are for pages; an export has every row.";
        return Err(Problem::new(Code::MalformedQuery, detail));
    }
    let place = app.exports.take(operator.merchant_id).map_err(|_| {
        let detail = "Too many exports are under way. Send the request again in a while.";
        Problem::new(Code::Overloaded, detail)
    })?;
    let mut answer = export(app.pool.clone(), list, form, template, place).into_response();
    answer
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(form.content_type()));
    let file = format!("attachment; filename=\"{}-{template}.{}\"", L::NAME, form.ending());
    if let Ok(file) = HeaderValue::from_str(&file) {
        answer.headers_mut().insert(header::CONTENT_DISPOSITION, file);
    }
    Ok(answer)
}

pub(super) async fn page<L: List>(
    pool: &MySqlPool,
    list: &L,
    mut behind: Option<L::Position>,
    limit: u32,
) -> Result<Page<L::Row>, Problem> {
    let mut rows = Vec::<L::Row>::new();
    let mut unreadable = Vec::new();
    let mut read = 0;
    while read < PAGE_READ_MAX {
        let chunk = read_chunk(pool, list, behind.as_ref(), PAGE_CHUNK).await?;
        let is_last = L::is_last(&chunk, PAGE_CHUNK);
        for line in chunk {
            let position = L::position(&line);
            // Filters cannot judge a row that cannot be read: it is always named.
            if line.row().is_none_or(|row| list.admits(row)) {
                if rows.len() + unreadable.len() == limit as usize {
                    let next = behind.map(|behind| behind.to_string());
                    return Ok(Page::new(rows, next).without(unreadable));
                }
                match line {
                    Listed::Row(row) => rows.push(list.row(row)),
                    Listed::Unreadable(damaged) => unreadable.push(L::name(&damaged)),
                }
            }
            behind = Some(position);
        }
        if is_last {
            return Ok(Page::new(rows, None).without(unreadable));
        }
        read += PAGE_CHUNK;
    }
    Ok(Page::new(rows, behind.map(|behind| behind.to_string())).without(unreadable))
}

/// Starts an export. It lasts until its client has all rows, at most [`EXPORT_MAX`].
fn export<L: List>(
    pool: MySqlPool,
    list: L,
    form: Form,
    template: TemplateId,
    place: Place<MerchantId>,
) -> Body {
    let (chunks, taken) = mpsc::channel(WAITING);
    tokio::spawn(async move {
        let _place = place;
        let sent = timeout(EXPORT_MAX, send_all(&pool, &list, form, &chunks)).await;
        match sent {
            Ok(Ok(rows)) => info!(template.id = %template, list = L::NAME, rows, "exported"),
            Ok(Err(Some(error))) => {
                let error = runtime::report(&error);
                warn!(template.id = %template, list = L::NAME, error, "an export broke off");
            }
            Ok(Err(None)) => info!(template.id = %template, list = L::NAME, "an export was left"),
            Err(_) => warn!(template.id = %template, list = L::NAME, "an export took too long"),
        }
    });
    Body::new(Exported::of(taken))
}

/// Sends all rows, and then `None` as their end. Returns their number.
///
/// # Errors
/// MySQL failed, or, if there is no error, the client has left.
async fn send_all<L: List>(
    pool: &MySqlPool,
    list: &L,
    form: Form,
    chunks: &mpsc::Sender<Option<Bytes>>,
) -> Result<u64, Option<StoreError>> {
    let mut rows = 0;
    let mut bytes = if form == Form::Csv { heads::<L>() } else { String::new() };
    let mut chunk = read_again(pool, list, None).await.map_err(Some)?;
    loop {
        let is_last = L::is_last(&chunk, CHUNK);
        let behind = chunk.last().map(L::position);
        let next = async {
            if is_last { Ok(Vec::new()) } else { read_again(pool, list, behind.as_ref()).await }
        };
        let send = async {
            for read in chunk {
                match read {
                    Listed::Row(line) if list.admits(&line) => {
                        write::<L>(&mut bytes, form, &list.row(line));
                    }
                    Listed::Row(_) => continue,
                    Listed::Unreadable(damaged) => {
                        write_damaged::<L>(&mut bytes, form, &L::name(&damaged));
                    }
                }
                rows += 1;
            }
            let bytes = Bytes::from(std::mem::take(&mut bytes));
            if bytes.is_empty() { Ok(()) } else { chunks.send(Some(bytes)).await }
        };
        // The next chunk is read while this one is sent.
        let (next, sent) = tokio::join!(next, send);
        sent.map_err(|_| None::<StoreError>)?;
        chunk = next.map_err(Some)?;
        // If the filters admit no row, nothing is sent, and no send fails when the client has left.
        if chunks.is_closed() {
            return Err(None);
        }
        if is_last {
            chunks.send(None).await.map_err(|_| None::<StoreError>)?;
            return Ok(rows);
        }
    }
}

fn heads<L: List>() -> String {
    let mut heads = String::new();
    let mut line = Line::begin(&mut heads);
    for column in L::COLUMNS {
        line.plain(column);
    }
    line.end();
    heads
}

fn write<L: List>(bytes: &mut String, form: Form, row: &L::Row) {
    if form == Form::Csv {
        let mut line = Line::begin(bytes);
        L::cells(row, &mut line);
        line.end();
        return;
    }
    // Rows are structs of texts and numbers, which JSON can always express.
    bytes.push_str(&serde_json::to_string(row).unwrap_or_default());
    bytes.push('\n');
}

/// Writes a line for a row that cannot be read, so that nobody takes the rest for the whole.
fn write_damaged<L: List>(bytes: &mut String, form: Form, name: &str) {
    if form == Form::Csv {
        let mut line = Line::begin(bytes);
        line.plain(format_args!("unreadable {name}"));
        for _ in 1..L::COLUMNS.len() {
            line.maybe(None::<&str>);
        }
        line.end();
        return;
    }
    bytes.push_str(&json!({ "unreadable": name }).to_string());
    bytes.push('\n');
}

/// Reads a chunk of an export, again after a failure.
async fn read_again<L: List>(
    pool: &MySqlPool,
    list: &L,
    behind: Option<&L::Position>,
) -> Result<Vec<Read<L>>, StoreError> {
    let mut backoff = Backoff::new(AGAIN.0, AGAIN.1);
    let mut tries = 1;
    loop {
        match read_chunk(pool, list, behind, CHUNK).await {
            Err(error) if tries < TRIES && error.is_unavailable() => {
                tries += 1;
                backoff.wait().await;
            }
            read => return read,
        }
    }
}

/// Reads a chunk on a connection that is given back at once.
async fn read_chunk<L: List>(
    pool: &MySqlPool,
    list: &L,
    behind: Option<&L::Position>,
    limit: u32,
) -> Result<Vec<Read<L>>, StoreError> {
    connect::within(async {
        let mut connection = connect::acquire(pool).await?;
        list.read(&mut connection, behind, limit).await
    })
    .await
}
