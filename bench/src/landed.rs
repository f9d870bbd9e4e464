//! Claims over HTTP: how many land per second on one hot template, and how soon a coupon is seen.

use std::time::Duration;

use anyhow::{Result, ensure};
use chrono::TimeDelta;
use coupon::UserId;
use shopper::{Crowd, NewTemplate, Run, Tally, Wish};

use crate::stage::Stage;

/// How long one user tries.
const PATIENCE: Duration = Duration::from_secs(60);

/// Longer than any bench: nothing expires while it runs.
const VALID_FOR: TimeDelta = TimeDelta::days(1);

/// `users` users claim one coupon each of one template, at most `connections` requests under way;
/// every `watch_every`-th winner then watches the list (0: nobody).
///
/// # Errors
/// A claim did not land, although there was enough for all.
pub async fn claims(
    stage: &Stage,
    users: i64,
    connections: usize,
    watch_every: usize,
) -> Result<Run> {
    let new = NewTemplate::simple("hot", users, stage.clock.now(), VALID_FOR);
    let template = stage.api.publish_new(&new).await?;
    let wishes = (1..=users).map(|user| Wish {
        watch: watch_every > 0 && user % watch_every as i64 == 0,
        ..Wish::one(template.id, UserId(user))
    });
    let crowd = Crowd::new(vec![stage.api.clone()], connections, PATIENCE);
    let run = crowd.run(wishes.collect()).await?;
    let tally = Tally::of(&run.history);
    ensure!(
        i64::try_from(tally.landed) == Ok(users) && run.given_up == 0,
        "{} of {users} claims landed; {tally:?}",
        tally.landed
    );
    Ok(run)
}
