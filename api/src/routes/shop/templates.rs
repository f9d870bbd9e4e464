//! `GET /v1/shop/templates`: what a merchant gives out now and next, public and from memory.
//!
//! The templates come from the template cache in the list's order, what is left of each from the gate through
//! [`crate::shop::stock`]: no request waits for MySQL.

use axum::{
    extract::State,
    http::{HeaderMap, HeaderValue},
    response::Response,
};
use coupon::MerchantId;
use futures::future::join_all;
use mysql_store::merchant::PLATFORM;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::page::{self, ShopTemplate};
use crate::{
    http::{
        cursor::{self, Page},
        extract::Params,
        schemas::{Cursor, Id, IfNoneMatch},
    },
    problem::Problem,
    state::App,
    template_cache::Position,
};

/// Bytes of a digest that are its entity tag: more than any chance makes equal.
const TAG_BYTES: usize = 16;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListParams {
    merchant_id: Option<MerchantId>,
    limit: Option<u32>,
    cursor: Option<String>,
}

/// `GET /v1/shop/templates`
#[utoipa::path(
    get,
    path = "/v1/shop/templates",
    operation_id = "list_shop_templates",
    tag = "Shop",
    summary = "What a shop gives out now and next",
    description = "Published templates whose window is open or ahead, in the order in which their windows open. Paused \
                   and ended ones are left out.",
    params(
        ("merchant_id" = Option<Id>, Query, description = "Whose; the platform's own merchant if absent."),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 100, description = "How many, at most; 20 if absent."),
        ("cursor" = Option<Cursor>, Query, description = "Where the page begins; absent: at what opened first."),
        ("If-None-Match" = Option<IfNoneMatch>, Header, description = "The `ETag` of an answer that is at hand.")
    ),
    responses(
        (status = 200, description = "A page, from memory.", body = Page<ShopTemplate>,
            headers(("ETag" = String, description = "Stands for templates, states, `left` and `total`."), ("Cache-Control" = String))),
        (status = 304, description = "It is as it was; countdowns run on.",
            headers(("ETag" = String), ("Cache-Control" = String)))
    ),
    extensions(("x-problems" = json!("INVALID_LIMIT INVALID_CURSOR")))
)]
pub(crate) async fn list(
    State(app): State<App>,
    Params(params): Params<ListParams>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let limit = cursor::limit(params.limit)? as usize;
    let behind: Option<Position> = cursor::parse(params.cursor.as_ref())?;
    let merchant = params.merchant_id.unwrap_or(PLATFORM);
    let now = app.sale_clock.now();
    // One extra template shows whether there is a next page.
    let mut templates = app.templates.listed(merchant, behind, limit + 1, now)?;
    let more = templates.len() > limit;
    templates.truncate(limit);
    let next = templates.last().filter(|_| more).map(|last| Position::of(last).to_string());
    let looks = templates.iter().map(|template| ShopTemplate::look(&app, template, now));
    let shown = join_all(looks).await;
    let marks = templates.iter().zip(&shown);
    let marks = marks.map(|(template, shown)| format!("{}.{}", template.id, shown.mark(template)));
    let etag = etag(marks, next.as_deref());
    let cache_control = cache_control(&shown);
    Ok(page::answer(&headers, &etag, cache_control, Page::new(shown, next)))
}

/// A page is cached as briefly as its template that changes next.
fn cache_control(shown: &[ShopTemplate]) -> HeaderValue {
    if shown.iter().any(ShopTemplate::is_opening) { page::OPENING } else { page::CHANGING }
}

/// Weak, as the tag of a single template is: countdowns differ between two answers with this tag.
fn etag(marks: impl Iterator<Item = String>, next: Option<&str>) -> String {
    let mut digest = Sha256::new();
    for mark in marks {
        digest.update(mark);
        digest.update(";");
    }
    digest.update(next.unwrap_or_default());
    let tag = digest.finalize();
    let tag: String = tag.iter().take(TAG_BYTES).map(|byte| format!("{byte:02x}")).collect();
    format!("W/\"{tag}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_another_tag_once_anything_on_it_is_another() {
        let tag = |marks: &[&str], next| etag(marks.iter().map(|mark| (*mark).to_owned()), next);
        let first = tag(&["1.2.Open.7", "2.2.Upcoming.unknown"], None);
        assert_eq!(first, tag(&["1.2.Open.7", "2.2.Upcoming.unknown"], None));
        let others = [
            tag(&["1.2.Open.6", "2.2.Upcoming.unknown"], None),
            tag(&["2.2.Upcoming.unknown", "1.2.Open.7"], None),
            tag(&["1.2.Open.7"], None),
            tag(&["1.2.Open.7", "2.2.Upcoming.unknown"], Some("1.2")),
            tag(&[], None),
        ];
        for other in others {
            assert_ne!(first, other);
        }
    }
}
