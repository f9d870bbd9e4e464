//! Topic names. Each platform has its own prefix, so that tests can share a broker.

/// Builds the topics' names from their common prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicNames {
    prefix: String,
}

impl TopicNames {
    /// Builds names from `prefix`, which has no dot at its end: `TopicNames::new("coupon")`.
    pub fn new(prefix: impl Into<String>) -> Self {
        Self { prefix: prefix.into() }
    }

    /// Returns the prefix. Client ids and transactional ids begin with it too.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Changes of `user_coupon`. Key: user id in decimal, so that one user's changes stay in order.
    pub fn user_coupon(&self) -> String {
        self.named("user_coupon")
    }

    /// Changes of `coupon_template`. Key: template id. Compacted.
    pub fn template(&self) -> String {
        self.named("template")
    }

    /// Rows of `stock_movement`. Key: template id.
    pub fn stock_movement(&self) -> String {
        self.named("stock_movement")
    }

    /// Wake-ups for the expiry worker. The sender sets the partition: shard modulo the partition count.
    pub fn expiry(&self) -> String {
        self.named("expiry")
    }

    /// Coupons that end soon. Key: user id in decimal.
    pub fn expiring(&self) -> String {
        self.named("expiring")
    }

    /// Statistics of the answers to claims. Key: template id.
    pub fn claim_stats(&self) -> String {
        self.named("claim_stats")
    }

    /// Queued claims. Key: template and bucket; the sender sets the partition by [`claims_partition`].
    ///
    /// [`claims_partition`]: crate::claims_partition
    pub fn claims(&self) -> String {
        self.named("claims")
    }

    /// How far each partition of [`TopicNames::claims`] has landed. Key: the partition. Compacted.
    pub fn claim_progress(&self) -> String {
        self.named("claim_progress")
    }

    /// The consumer group that lands queued claims.
    pub fn claim_lander_group(&self) -> String {
        format!("{}-claim-lander", self.prefix)
    }

    /// Payments that confirm held coupons, by shops. Key: claim id in decimal.
    pub fn payments(&self) -> String {
        self.named("payments")
    }

    /// The consumer group that takes payments.
    pub fn payments_group(&self) -> String {
        format!("{}-claim-lander.payments", self.prefix)
    }

    /// The consumer group that writes the users' views.
    pub fn views_group(&self) -> String {
        format!("{}.sync-consumer", self.prefix)
    }

    /// The tailer's position. Key: database name. Compacted.
    pub fn checkpoint(&self) -> String {
        self.named("checkpoint")
    }

    /// Messages that could not be read, landed or taken as payments, and the keys of messages too long to publish.
    pub fn dead_letter(&self) -> String {
        self.named("dead_letter")
    }

    /// Returns the names of all topics.
    pub(crate) fn all(&self) -> [String; 11] {
        [
            self.user_coupon(),
            self.template(),
            self.stock_movement(),
            self.expiry(),
            self.expiring(),
            self.claim_stats(),
            self.claims(),
            self.claim_progress(),
            self.payments(),
            self.checkpoint(),
            self.dead_letter(),
        ]
    }

    fn named(&self, topic: &str) -> String {
        format!("{}.{topic}", self.prefix)
    }
}
