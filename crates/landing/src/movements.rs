//! Brings a gate's stock up to MySQL's movements: those that it does not contain, in order.
//!
//! Whoever makes a movement does this at once, the consumer of their topic does it again, and so do
//! the keeper, by its look, and a rebuild, for what came while it was loading. Each movement has its
//! effect once, however many of them meet.

use coupon::TemplateId;
use mysql_store::{MySqlConnection, connect, stock};
use redis_gate::{Gate, Meta, Moved};
use tracing::info;

use crate::rebuild::RebuildError;

/// How often the gate is read anew because its epoch changed meanwhile; rebuilds do not follow each
/// other faster, and each contains all movements before it.
const EPOCHS_MAX: u32 = 4;

/// Applies the movements that the gate of `template` does not contain. Where there is no open gate
/// there is nothing to do: it will read the stock when it is loaded.
///
/// # Errors
/// MySQL or the gate failed; the keeper goes on.
pub async fn catch_up(
    connection: &mut MySqlConnection,
    gate: &Gate,
    template: TemplateId,
) -> Result<(), RebuildError> {
    for _ in 0..EPOCHS_MAX {
        let meta = gate.meta(template).await?;
        let Some(meta) = meta.filter(Meta::is_open) else { return Ok(()) };
        let mut caught_up = true;
        let missing = stock::movements_after(connection, template, meta.movement);
        for movement in connect::within(missing).await? {
            let (seq, delta) = (movement.seq, movement.delta);
            match gate.apply_movement(template, meta.epoch, seq, delta).await? {
                Moved::Applied(left) => {
                    info!(template.id = %template, seq, delta, left, "moved a gate's stock");
                }
                Moved::Already => {}
                Moved::Gap(_) | Moved::NotLoaded | Moved::OtherEpoch(_) => {
                    caught_up = false;
                    break;
                }
            }
        }
        if caught_up {
            return Ok(());
        }
    }
    Ok(())
}
