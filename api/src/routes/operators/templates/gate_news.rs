//! How a change of a template reaches its gate, and the answer to the operator if it does not. MySQL's guard is exact
//! for direct claims, so a gate that learns of the change late only admits claims that cannot land. Accepted claims
//! land even after a pause: for them the pause holds from when the gate knows it.

use std::time::Duration;

use chrono::{DateTime, Utc};
use coupon::{Template, TemplateId, TemplateState};
use mysql_store::{StoreError, connect, stock};
use runtime::Backoff;
use tokio::time::Instant;
use tracing::warn;

use crate::{code::Code, problem::Problem, state::App};

/// How long a pause or an end of a template that queues claims waits for its gate: a short outage of Redis. The keeper
/// goes on after it.
const INFORM_MAX: Duration = Duration::from_secs(3);

/// First and longest pause between two attempts.
const INFORM_AGAIN: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(500));

/// The change is made, and claims wait for the gate. Whoever takes a 503 for an unknown outcome reads `made`.
fn gate_loading() -> Problem {
    let detail = "The change is made; its gate is not loaded yet, and will be by itself.";
    Problem::new(Code::GateLoading, detail).with("made", true)
}

/// Updates the gate's state. If the template gives out coupons, waits for its gate, and answers that it is loading if
/// that fails. Any other gate that cannot be updated is left to the keeper. Returns whether the gate knows of a pause or
/// an end, if that matters: the template queues claims.
pub(super) async fn show_gate(app: &App, template: &Template) -> Result<Option<bool>, Problem> {
    let wanted = app.gates.wants(template, app.sale_clock.now());
    let gives = template.state == TemplateState::Published && wanted;
    let halts = matches!(template.state, TemplateState::Paused | TemplateState::Ended);
    if halts && template.claim_mode.queues() {
        return Ok(Some(inform(app, template).await));
    }
    let shown = if gives {
        app.gates.show(template).await
    } else {
        app.gates.send_state(template).await.map(|_| true)
    };
    let shown = match shown {
        Ok(shown) => shown,
        Err(error) => {
            let error = runtime::report(&error);
            warn!(template.id = %template.id, error, "the gate does not know a template's state");
            // A gate that missed both this change and an earlier one of the mode still queues claims.
            if halts && may_queue(app, template.id).await.unwrap_or(true) {
                return Ok(Some(inform(app, template).await));
            }
            !gives
        }
    };
    if shown {
        return Ok(None);
    }
    app.gates.ask_look(template.id);
    Err(gate_loading())
}

/// Returns whether the gate may know the template as one whose claims are queued, whatever its mode is now.
async fn may_queue(app: &App, template: TemplateId) -> Result<bool, StoreError> {
    let facts = connect::within(async {
        let mut connection = connect::acquire(&app.pool).await?;
        stock::queue_facts(&mut connection, template).await
    });
    Ok(facts.await?.is_some_and(|facts| facts.ever_queued && !facts.queue_closed))
}

/// Sends a pause or an end to the gate, and tries again for [`INFORM_MAX`]. Returns whether the gate knows it: one that
/// is not loaded admits nothing, and will read it from MySQL.
async fn inform(app: &App, template: &Template) -> bool {
    let give_up = Instant::now() + INFORM_MAX;
    let mut backoff = Backoff::new(INFORM_AGAIN.0, INFORM_AGAIN.1);
    loop {
        let Err(error) = app.gates.send_state(template).await else { return true };
        if Instant::now() >= give_up {
            let error = runtime::report(&error);
            warn!(template.id = %template.id, error, "the gate does not know that a template gives out nothing");
            app.gates.ask_look(template.id);
            return false;
        }
        backoff.wait().await;
    }
}

/// Sends the mode to the gate, except for a draft: the gate decides how each claim is answered. A gate that is not
/// loaded will read the mode from MySQL.
pub(super) async fn show_mode(app: &App, template: &Template) -> Result<(), Problem> {
    if template.state == TemplateState::Draft {
        return Ok(());
    }
    let Err(error) = app.gates.send_state(template).await else { return Ok(()) };
    let error = runtime::report(&error);
    warn!(template.id = %template.id, error, "the gate does not know a template's mode");
    app.gates.ask_look(template.id);
    Err(gate_loading())
}

/// Waits until the gate knows the window, if the template needs a gate. MySQL lets no claim land by an earlier window;
/// a gate that does not know the new one would admit claims that cannot land.
pub(super) async fn show_window(app: &App, template: &Template) -> Result<(), Problem> {
    let now = app.sale_clock.now();
    if !app.gates.wants(template, now) && !has_gate_too_early(app, template, now).await {
        return Ok(());
    }
    let shown = app.gates.bring_up(template.id).await.unwrap_or_else(|error| {
        let error = runtime::report(&error);
        warn!(template.id = %template.id, error, "the gate does not know a template's window");
        false
    });
    if shown || template.state == TemplateState::Paused {
        return Ok(());
    }
    app.gates.ask_look(template.id);
    Err(gate_loading())
}

/// Returns whether a gate is loaded although its window was moved to later. No keeper visits it until the new window is
/// near, so it learns of the move here.
async fn has_gate_too_early(app: &App, template: &Template, now: DateTime<Utc>) -> bool {
    let is_early = matches!(template.state, TemplateState::Published | TemplateState::Paused)
        && now < template.window.starts_at;
    is_early && app.gates.gate().meta(template.id).await.is_ok_and(|meta| meta.is_some())
}
