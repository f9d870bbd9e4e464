//! What `/readyz` says about this worker's partitions.

use runtime::Part;

/// Reported while the partitions are lost.
const LOST: &str = "no broker answers: the shards of before are looked at every second";

/// Whether an assignment of the group stands, and what is wrong with its partitions.
pub(crate) struct Standing {
    part: Part,
    stands: bool,
    /// Why shards of others are swept here.
    neglected: Option<String>,
    /// Which partitions cannot be read on.
    held_up: Option<String>,
}

impl Standing {
    /// Before the first assignment.
    pub(crate) fn new(part: Part) -> Self {
        Self { part, stands: false, neglected: None, held_up: None }
    }

    /// Whether an assignment of the group stands.
    pub(crate) fn stands(&self) -> bool {
        self.stands
    }

    pub(crate) fn assigned(&mut self, stands: bool) {
        self.stands = stands;
        self.neglected = None;
        self.show();
    }

    pub(crate) fn neglected(&mut self, why: Option<String>) {
        self.neglected = why;
        self.show();
    }

    pub(crate) fn held_up(&mut self, why: Option<String>) {
        self.held_up = why;
        self.show();
    }

    fn show(&self) {
        if !self.stands {
            return self.part.not_ready(LOST);
        }
        let whys: Vec<&str> =
            [&self.neglected, &self.held_up].into_iter().flatten().map(String::as_str).collect();
        if whys.is_empty() { self.part.ready() } else { self.part.not_ready(whys.join("; ")) }
    }
}

#[cfg(test)]
mod tests {
    use runtime::Health;

    use super::*;

    #[test]
    fn all_that_is_wrong_is_said_until_it_is_over() {
        let health = Health::default();
        let mut standing = Standing::new(health.part("partitions"));
        let why = |health: &Health| health.unready().get("partitions").cloned();
        standing.assigned(true);
        assert_eq!(why(&health), None);
        standing.neglected(Some("shard 3".to_owned()));
        standing.held_up(Some("partition 1".to_owned()));
        assert_eq!(why(&health).as_deref(), Some("shard 3; partition 1"));
        standing.assigned(false);
        assert_eq!(why(&health).as_deref(), Some(LOST));
        standing.assigned(true);
        assert_eq!(why(&health).as_deref(), Some("partition 1"));
        standing.held_up(None);
        assert_eq!(why(&health), None);
    }
}
