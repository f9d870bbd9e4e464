//! `GET /v1/templates`: an operator's templates, filtered and sorted.
//!
//! A page is made of chunks that are read by an index, and the filters choose among their rows. So a request reads a
//! bounded number of rows, however few of them match: a page may be short, even empty, and still have a next one.

use std::{fmt, str::FromStr};

use axum::{Json, extract::State};
use chrono::DateTime;
use coupon::{MerchantId, Template, TemplateId, TemplateState};
use mysql_store::{
    Listed, MySqlConnection, connect,
    list::{self, Account, Behind, Order},
};
use serde::Deserialize;

use super::name_search::PartOfName;
use crate::{
    auth::Operator,
    code::Code,
    http::{
        cursor::{self, NoCursor, Page, Part},
        extract::Params,
        instant::TIMES_MS,
        schemas::{self, Cursor},
    },
    problem::Problem,
    routes::bodies::template_rows::{ListedTemplate, StockJson},
    state::App,
};

/// Templates read at a time.
const CHUNK: u32 = 1_000;

/// Most templates read for one page: some megabytes, and milliseconds.
const READ_MAX: u32 = 10_000;

/// Most entries of an index that are read to count used coupons for one page: some tenths of a second.
const COUNTED_MAX: u64 = 1_000_000;

/// Value of `merchant_id` that means the templates of all merchants.
const ALL: &str = "all";

/// Every state, in the order of a template's life.
const STATES: [TemplateState; 4] =
    [TemplateState::Draft, TemplateState::Published, TemplateState::Paused, TemplateState::Ended];

#[derive(Deserialize)]
pub(crate) struct ListParams {
    limit: Option<u32>,
    cursor: Option<String>,
    state: Option<String>,
    q: Option<String>,
    merchant_id: Option<String>,
    include: Option<Include>,
    sort: Option<Sort>,
}

/// What a list may include besides the templates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Include {
    Stock,
}

/// Order of a list, as a client names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Sort {
    Newest,
    StartsAt,
    EndsAt,
}

/// Which templates are asked for.
struct Filter {
    state: Option<TemplateState>,
    part_of_name: Option<PartOfName>,
}

/// A position in a list by time, as clients see it: `milliseconds.template`. The list by age has the id alone.
struct TimeCursor(Behind);

/// `GET /v1/templates`
#[utoipa::path(
    get,
    path = "/v1/templates",
    operation_id = "list_templates",
    tag = "Templates",
    summary = "List templates",
    description = "A page may be short, even empty, and still have a next one: the filters choose among a bounded number of templates.",
    security(("operator_key" = [])),
    params(
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 100, description = "How many, at most; 20 if absent."),
        ("cursor" = Option<Cursor>, Query, description = "Where the page begins; absent: at the first. It belongs to its `sort`."),
        ("state" = Option<schemas::TemplateState>, Query, description = "Only those in this state."),
        ("q" = Option<String>, Query, description = "Only those whose name contains this, in upper or lower case, with or without accents; no character is a wildcard."),
        ("merchant_id" = Option<String>, Query, description = "Whose; another than one's own, and `all`, is for the platform's key and keys of the scope `emergency`."),
        ("include" = Option<String>, Query, description = "`stock`: with total, landed, left and used coupons."),
        ("sort" = Option<String>, Query, description = "`newest` (if absent), `starts_at` or `ends_at`: by their window, the earliest first.")
    ),
    responses((status = 200, description = "A page.", body = Page<ListedTemplate>)),
    extensions(("x-problems" = json!("PLATFORM_ONLY INVALID_LIMIT INVALID_CURSOR INVALID_STATUS")))
)]
pub(crate) async fn list(
    State(app): State<App>,
    operator: Operator,
    Params(params): Params<ListParams>,
) -> Result<Json<Page<ListedTemplate>>, Problem> {
    let limit = cursor::limit(params.limit)?;
    let merchant = merchant(operator, params.merchant_id.as_deref())?;
    let order = params.sort.map_or(Order::Newest, Order::from);
    let behind = behind(order, params.cursor.as_ref())?;
    let filter = Filter::of(&params)?;
    let page = async {
        let mut connection = connect::acquire(&app.pool).await?;
        let found = find(&mut connection, merchant, order, behind, limit, &filter).await?;
        let Part { rows: templates, unreadable, next } = found;
        let mut stocks = vec![None; templates.len()];
        if params.include == Some(Include::Stock) {
            stocks = stock_of(&mut connection, &templates).await?;
        }
        let names_merchant = params.merchant_id.is_some();
        let rows = templates.iter().zip(stocks);
        let rows = rows.map(|(one, stock)| ListedTemplate::of(one, names_merchant, stock));
        let next = next.map(|next| shown(order, next));
        let unreadable = unreadable.iter().map(|behind| behind.id);
        Ok::<_, Problem>(Page::new(rows.collect(), next).without(unreadable))
    };
    connect::within(page).await.map(Json)
}

/// Returns the merchant whose templates are asked for; `None`: all merchants.
fn merchant(operator: Operator, asked: Option<&str>) -> Result<Option<MerchantId>, Problem> {
    if asked == Some(ALL) {
        operator.needs_on_call()?;
        return Ok(None);
    }
    let asked: Option<MerchantId> = asked.map(str::parse).transpose().map_err(|_| {
        let detail = "The query string: merchant_id is the id of a merchant, or `all`.";
        Problem::new(Code::MalformedQuery, detail)
    })?;
    let merchant = asked.unwrap_or(operator.merchant_id);
    if !operator.sees(merchant) {
        operator.needs_on_call()?;
    }
    Ok(Some(merchant))
}

/// Reads chunks until the page is full, the list is over, or [`READ_MAX`] templates were read. Returns the templates,
/// and where the next page begins.
async fn find(
    connection: &mut MySqlConnection,
    merchant: Option<MerchantId>,
    order: Order,
    mut behind: Option<Behind>,
    limit: u32,
    filter: &Filter,
) -> Result<Part<Template, Behind>, Problem> {
    let mut found = Part { rows: Vec::new(), unreadable: Vec::new(), next: None };
    let mut read = 0;
    // Without a filter every row is shown: no more are read than needed.
    let size = if filter.is_empty() { limit + 1 } else { CHUNK };
    while read < READ_MAX {
        let chunk = list::chunk(connection, merchant, order, behind, size).await?;
        let is_last = chunk.len() < size as usize;
        for one in chunk {
            let position = one.position(|template| Behind::of(template, order));
            if one.row().is_none_or(|template| filter.admits(template)) {
                if found.rows.len() + found.unreadable.len() == limit as usize {
                    return Ok(Part { next: behind, ..found });
                }
                match one {
                    Listed::Row(template) => found.rows.push(template),
                    Listed::Unreadable(position) => found.unreadable.push(position),
                }
            }
            behind = Some(position);
        }
        if is_last {
            return Ok(found);
        }
        read += size;
    }
    Ok(Part { next: behind, ..found })
}

/// Templates that were found by a part of their name.
pub(crate) struct Named {
    /// The newest first.
    pub(crate) templates: Vec<Template>,
    /// Whether there may be more.
    pub(crate) more: bool,
}

/// Returns at most `limit` of a merchant's templates with `part` in their name, among the newest [`READ_MAX`].
pub(crate) async fn by_name(
    connection: &mut MySqlConnection,
    merchant: MerchantId,
    part: &str,
    limit: usize,
) -> Result<Named, Problem> {
    let Some(part) = PartOfName::of(part) else {
        return Ok(Named { templates: Vec::new(), more: false });
    };
    let filter = Filter { state: None, part_of_name: Some(part) };
    let limit = u32::try_from(limit).unwrap_or(u32::MAX);
    let found = find(connection, Some(merchant), Order::Newest, None, limit, &filter).await?;
    Ok(Named { templates: found.rows, more: found.next.is_some() })
}

/// Returns the stock of each template. Counting stops for all further ones when it has read enough.
async fn stock_of(
    connection: &mut MySqlConnection,
    templates: &[Template],
) -> Result<Vec<Option<StockJson>>, Problem> {
    let ids: Vec<TemplateId> = templates.iter().map(|template| template.id).collect();
    let accounts = list::accounts(connection, &ids).await?;
    let mut budget = COUNTED_MAX;
    let mut stocks = Vec::with_capacity(ids.len());
    for id in ids {
        // Deleted since.
        let Some(account) = accounts.get(&id).copied() else {
            stocks.push(None);
            continue;
        };
        let used = used(connection, id, account, &mut budget).await?;
        stocks.push(Some(StockJson::of(account, used)));
    }
    Ok(stocks)
}

/// Counts a template's used coupons within the budget. `None`: there are more.
async fn used(
    connection: &mut MySqlConnection,
    id: TemplateId,
    account: Account,
    budget: &mut u64,
) -> Result<Option<u64>, Problem> {
    if account.total == account.stock {
        return Ok(Some(0));
    }
    if *budget == 0 {
        return Ok(None);
    }
    let used = list::used(connection, id, *budget + 1).await?;
    let is_known = used <= *budget;
    *budget = budget.saturating_sub(used);
    Ok(is_known.then_some(used))
}

fn behind(order: Order, cursor: Option<&String>) -> Result<Option<Behind>, Problem> {
    if order == Order::Newest {
        let id: Option<TemplateId> = cursor::parse(cursor)?;
        return Ok(id.map(|id| Behind { at: DateTime::UNIX_EPOCH, id }));
    }
    let position: Option<TimeCursor> = cursor::parse(cursor)?;
    Ok(position.map(|TimeCursor(behind)| behind))
}

fn shown(order: Order, behind: Behind) -> String {
    if order == Order::Newest { behind.id.to_string() } else { TimeCursor(behind).to_string() }
}

impl From<Sort> for Order {
    fn from(sort: Sort) -> Self {
        match sort {
            Sort::Newest => Self::Newest,
            Sort::StartsAt => Self::Starts,
            Sort::EndsAt => Self::Ends,
        }
    }
}

impl Filter {
    fn of(params: &ListParams) -> Result<Self, Problem> {
        let state = params.state.as_deref().map(|word| {
            STATES.into_iter().find(|state| state.word() == word).ok_or_else(|| {
                let detail = "Use a `state` of draft, published, paused or ended.";
                Problem::new(Code::InvalidStatus, detail)
            })
        });
        let part_of_name = params.q.as_deref().and_then(PartOfName::of);
        Ok(Self { state: state.transpose()?, part_of_name })
    }

    fn is_empty(&self) -> bool {
        self.state.is_none() && self.part_of_name.is_none()
    }

    fn admits(&self, template: &Template) -> bool {
        self.state.is_none_or(|state| template.state == state)
            && self.part_of_name.as_ref().is_none_or(|part| part.is_in(&template.name))
    }
}

impl fmt::Display for TimeCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0.at.timestamp_millis(), self.0.id)
    }
}

impl FromStr for TimeCursor {
    type Err = NoCursor;

    fn from_str(text: &str) -> Result<Self, NoCursor> {
        let (at, id) = text.split_once('.').ok_or(NoCursor)?;
        let at = at.parse::<i64>().ok().filter(|ms| TIMES_MS.contains(ms));
        let at = at.and_then(DateTime::from_timestamp_millis).ok_or(NoCursor)?;
        let cursor = Self(Behind { at, id: id.parse().map_err(|_| NoCursor)? });
        // Accept only the form that we write.
        if cursor.to_string() == text { Ok(cursor) } else { Err(NoCursor) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_by_time_is_read_back_and_no_other_form_of_it() {
        let behind = Behind {
            at: DateTime::from_timestamp_millis(1_700_000_000_007).unwrap(),
            id: TemplateId(42),
        };
        for order in [Order::Starts, Order::Ends] {
            let text = shown(order, behind);
            assert_eq!(text, "1700000000007.42");
            assert_eq!(super::behind(order, Some(&text)).unwrap(), Some(behind));
            let beyond = format!("{}.42", TIMES_MS.end);
            for wrong in ["42", "", ".", "-1.42", "+1.42", "01.42", "1.x", "1.2.3", &beyond] {
                assert!(super::behind(order, Some(&wrong.to_owned())).is_err(), "{wrong:?}");
            }
        }
        assert_eq!(shown(Order::Newest, behind), "42");
        assert!(super::behind(Order::Newest, Some(&"1.42".to_owned())).is_err());
    }
}
