//! [`SlotMove`]: a slot of a cluster on its way from one master to another.

use std::net::SocketAddr;

use crate::{Result, servers::redis};

/// Milliseconds that a key has for its way.
const KEY_WITHIN_MS: u64 = 5_000;

/// Most keys of a slot: far more than a gate has.
const KEYS_MAX: usize = 1_000;

/// A slot that is moving. It stays so until it is finished or cancelled.
#[derive(Debug)]
pub struct SlotMove {
    slot: u16,
    from: SocketAddr,
    to: SocketAddr,
}

impl SlotMove {
    pub(crate) async fn begin(slot: u16, from: SocketAddr, to: SocketAddr) -> Result<Self> {
        let old = redis::node_id(from).await?;
        let new = redis::node_id(to).await?;
        redis::command(to, &format!("CLUSTER SETSLOT {slot} IMPORTING {old}")).await?;
        redis::command(from, &format!("CLUSTER SETSLOT {slot} MIGRATING {new}")).await?;
        Ok(Self { slot, from, to })
    }

    /// Moves those keys of the slot whose names contain `part`, and returns how many.
    ///
    /// # Errors
    /// A master does not run, or refuses.
    pub async fn keys(&self, part: &str) -> Result<usize> {
        self.migrate(self.from, self.to, part, "").await
    }

    /// Moves what is left, and gives the slot to the new master.
    ///
    /// # Errors
    /// A master does not run, or refuses.
    pub async fn finish(self) -> Result<()> {
        self.keys("").await?;
        let new = redis::node_id(self.to).await?;
        for node in [self.to, self.from] {
            redis::command(node, &format!("CLUSTER SETSLOT {} NODE {new}", self.slot)).await?;
        }
        Ok(())
    }

    /// Leaves the slot with the old master, and with the new one the keys that have moved, which nobody can reach.
    ///
    /// # Errors
    /// A master does not run, or refuses.
    pub async fn cancel(&self) -> Result<()> {
        for node in [self.to, self.from] {
            redis::command(node, &format!("CLUSTER SETSLOT {} STABLE", self.slot)).await?;
        }
        Ok(())
    }

    /// Brings back the keys that a cancelled move left with the new master, in place of those of the same name, as
    /// `redis-cli --cluster fix` does. Returns how many.
    ///
    /// # Errors
    /// A master does not run, or refuses.
    pub async fn bring_back(&self) -> Result<usize> {
        let old = redis::node_id(self.from).await?;
        // Without it the new master would not touch keys of a slot that it does not have.
        let open = format!("CLUSTER SETSLOT {} IMPORTING {old}", self.slot);
        redis::command(self.to, &open).await?;
        let moved = self.migrate(self.to, self.from, "", "REPLACE").await?;
        redis::command(self.to, &format!("CLUSTER SETSLOT {} STABLE", self.slot)).await?;
        Ok(moved)
    }

    async fn migrate(
        &self,
        from: SocketAddr,
        to: SocketAddr,
        part: &str,
        option: &str,
    ) -> Result<usize> {
        let list = format!("CLUSTER GETKEYSINSLOT {} {KEYS_MAX}", self.slot);
        let said = redis::command(from, &list).await?;
        // Lengths stand between the names.
        let names = said.lines().filter(|line| !line.is_empty() && !line.starts_with(['*', '$']));
        let keys: Vec<&str> = names.filter(|name| name.contains(part)).collect();
        if !keys.is_empty() {
            let host = to.ip();
            let port = to.port();
            let names = keys.join(" ");
            let words =
                format!("MIGRATE {host} {port} \"\" 0 {KEY_WITHIN_MS} {option} KEYS {names}");
            redis::command(from, &words).await?;
        }
        Ok(keys.len())
    }
}
