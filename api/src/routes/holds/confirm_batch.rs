//! Confirms several payments in one transaction ([`crate::routes::shop::batch`]).
//!
//! Plain cases only: a new reference, whose coupons are held, of its claim, in time by both clocks, and locked by no
//! other transaction. [`super::confirm`] handles the others.

use std::collections::HashMap;

use chrono::SubsecRound as _;
use mysql_store::{
    confirmation_batch::{self, RequestedPayment},
    connect,
};

use crate::{
    problem::Problem,
    routes::shop::batch::Together,
    shop::payment::{Made, Wanted},
    state::App,
};

impl Together for Wanted {
    const WHAT: &'static str = "payments";

    async fn serve(app: &App, wanted: &[&Self]) -> Result<HashMap<usize, Made>, Problem> {
        let Some(first) = wanted.first() else { return Ok(HashMap::new()) };
        let asked: Vec<RequestedPayment<'_>> = wanted.iter().map(|one| one.asked()).collect();
        let mut transaction = connect::begin(&app.pool).await?;
        // As columns store it, so that a later answer has the same bytes.
        let now = app.clock.now().trunc_subsecs(3);
        let confirmed =
            confirmation_batch::confirm_all(&mut transaction, first.merchant, &asked, now).await?;
        let confirmed = confirmed.ok_or_else(Problem::overtaken)?;
        if confirmed.is_empty() {
            return Ok(HashMap::new());
        }
        app.commit(transaction).await?;
        let made = |(at, coupons)| (at, Made { confirmed_at: now, coupons });
        Ok(confirmed.into_iter().map(made).collect())
    }
}
