//! Handles a damaged view that a reader finds. The consumer drops damaged views itself when it writes.

use coupon::UserId;
use metrics::counter;
use tracing::{debug, error, warn};

use crate::{ViewError, ViewStore, reader::metric::DROPPED_VIEWS};

/// Drops a view whose contents cannot be read, so that the next reader rebuilds it. Any other error is only logged.
pub(crate) async fn drop_if_damaged(store: &ViewStore, user: UserId, error: &ViewError) {
    let Some((_, reason)) = error.damage() else {
        // The connection logs an outage once; each reader would repeat it.
        debug!(user.id = %user, error = runtime::report(error), "view not read: MySQL answers");
        return;
    };
    error!(user.id = %user, error = runtime::report(error), "the user's view cannot be read: view dropped");
    counter!(DROPPED_VIEWS.name, "reason" => reason).increment(1);
    if let Err(error) = store.drop_view(user).await {
        warn!(user.id = %user, error = runtime::report(&error), "view not dropped");
    }
}
