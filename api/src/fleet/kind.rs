//! The six processes of the platform, by name.

/// A process of the platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Api,
    OutboxRelay,
    ClaimLander,
    CdcTailer,
    SyncConsumer,
    ExpiryWorker,
}

impl Kind {
    pub(crate) const ALL: [Self; 6] = [
        Self::Api,
        Self::OutboxRelay,
        Self::ClaimLander,
        Self::CdcTailer,
        Self::SyncConsumer,
        Self::ExpiryWorker,
    ];

    /// The name that the process gives itself.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::OutboxRelay => "outbox-relay",
            Self::ClaimLander => "claim-lander",
            Self::CdcTailer => "cdc-tailer",
            Self::SyncConsumer => "sync-consumer",
            Self::ExpiryWorker => "expiry-worker",
        }
    }

    pub(crate) fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }

    /// Returns the process that a host is named after: in containers each has a name of its own, perhaps with that of the
    /// stack before it, or a number behind it.
    pub(super) fn of_host(host: &str) -> Option<Self> {
        let label = host.split('.').next().unwrap_or_default();
        Self::ALL.into_iter().find(|kind| {
            let around = label.split_once(kind.word());
            around.is_some_and(|(before, behind)| {
                let is_begin = before.is_empty() || before.ends_with('-');
                let is_end = behind.is_empty() || behind.starts_with('-');
                is_begin && is_end
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_is_named_after_a_process_stands_for_it() {
        let of = |host| Kind::of_host(host).map(Kind::word);
        assert_eq!(of("cdc-tailer"), Some("cdc-tailer"));
        assert_eq!(of("shop-outbox-relay-2.coupons.svc"), Some("outbox-relay"));
        assert_eq!(of("api"), Some("api"));
        for other in ["127", "10.0.0.1", "capital", "apis", "cdc.tailer", ""] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
