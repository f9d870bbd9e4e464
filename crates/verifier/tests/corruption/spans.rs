//! Parts of the platform, a template or some users: what is found there, as a value, and nothing of the rest.

use coupon::{Epoch, FindingKind, TemplateId, UserId};
use runtime::Clock;
use verifier::{
    About, Finding,
    spans::{self, Span},
};

use crate::stage::{HOLDER, SPENDER, Stage, TEMPLATE};

/// A template that is not there.
const OTHER: TemplateId = TemplateId(8);

fn users(from: UserId, to: UserId) -> Span {
    Span { from, to, ..Span::of(TEMPLATE) }
}

/// What each finding is about.
fn subjects(found: &[Finding]) -> Vec<(FindingKind, Option<TemplateId>, About)> {
    found.iter().map(|finding| (finding.kind, finding.template, finding.about)).collect()
}

#[tokio::test]
async fn a_claim_with_too_few_coupons_is_found_in_the_spans_that_have_it_and_in_no_other() {
    let stage = Stage::new("spans of claims").await;
    let connection = &mut stage.mysql().await;
    stage.sql("update claim set quantity = 2 where user_id = 1").await;
    for (span, meant) in [
        (Span::ALL, 1),
        (Span::of(TEMPLATE), 1),
        (users(HOLDER, HOLDER), 1),
        (users(HOLDER, SPENDER), 1),
        (users(SPENDER, UserId(9)), 0),
        (Span::of(OTHER), 0),
    ] {
        let found = spans::uneven(connection, &span).await.unwrap();
        assert_eq!(found.len(), meant, "{span:?}: {found:?}");
        for finding in found {
            assert_eq!(finding.line, "claim 101 is for 2 and has 1 coupons");
            assert_eq!((finding.kind, finding.template), (FindingKind::Claim, Some(TEMPLATE)));
            assert_eq!((finding.expected.as_str(), finding.seen.as_str()), ("2", "1"));
            assert_eq!(finding.coupons, -1);
        }
    }
    stage.sql("update claim set quantity = 1, state = 2 where user_id = 1").await;
    let found = spans::orphans(connection, &users(HOLDER, SPENDER)).await.unwrap();
    assert_eq!(subjects(&found), [(FindingKind::Claim, Some(TEMPLATE), About::User(HOLDER))]);
    assert_eq!(spans::orphans(connection, &users(SPENDER, SPENDER)).await.unwrap(), []);
}

#[tokio::test]
async fn a_coupon_beyond_the_limit_and_one_without_a_number_are_found_in_their_users_spans() {
    let stage = Stage::new("spans of limits").await;
    let connection = &mut stage.mysql().await;
    stage.sql("update user_coupon set version = version + 1, claim_no = 9 where user_id = 1").await;
    stage
        .sql("update user_coupon set version = version + 1, claim_no = id where user_id = 2")
        .await;
    let over = spans::over_limit(connection, &Span::of(TEMPLATE)).await.unwrap();
    assert_eq!(subjects(&over), [(FindingKind::Limit, Some(TEMPLATE), About::User(HOLDER))]);
    assert_eq!(spans::over_limit(connection, &users(SPENDER, UserId(9))).await.unwrap(), []);
    let without = spans::unnumbered(connection, &Span::of(TEMPLATE)).await.unwrap();
    assert_eq!(subjects(&without), [(FindingKind::Limit, Some(TEMPLATE), About::User(SPENDER))]);
    assert_eq!(spans::unnumbered(connection, &users(HOLDER, HOLDER)).await.unwrap(), []);
}

#[tokio::test]
async fn the_account_of_one_template_is_looked_at_alone() {
    let stage = Stage::new("spans of accounts").await;
    let connection = &mut stage.mysql().await;
    assert_eq!(spans::ledger_of(connection, TEMPLATE).await.unwrap(), None);
    assert_eq!(spans::ledger_of(connection, OTHER).await.unwrap(), None, "there is none");
    stage.sql("update template_stock set stock = stock + 2").await;
    let found = spans::ledger_of(connection, TEMPLATE).await.unwrap().unwrap();
    assert_eq!(
        (found.kind, found.about, found.coupons),
        (FindingKind::Account, About::Template, 2)
    );
    assert!(found.epoch.is_some_and(|epoch| epoch > Epoch::UNKNOWN), "{found:?}");
    assert!(found.line.starts_with("template 7: stock 9, movements 10 - landed 3"), "{found:?}");
}

#[tokio::test]
async fn the_views_of_some_users_are_looked_at_without_the_others() {
    let stage = Stage::new("spans of views").await;
    let view = stage.scope.endpoints.view_redis_url.clone();
    stage.redis(&view, "ZREM {p}view:1:{1}:list 7_1001").await;
    let now = Clock::system().now();
    let found = spans::of_users(&stage.sources, &[HOLDER], now).await.unwrap();
    assert_eq!(subjects(&found), [(FindingKind::View, None, About::User(HOLDER))]);
    assert!(found[0].line.contains("7_1001 is listed at nothing"), "{found:?}");
    assert_eq!(spans::of_users(&stage.sources, &[SPENDER], now).await.unwrap(), []);
}
