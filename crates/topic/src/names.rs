//! The names of the topics. One prefix per platform, so that tests can share a broker.

/// Builds the topics' names from their common prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicNames {
    prefix: String,
}

impl TopicNames {
    /// Names under `prefix`, without a dot at its end: `TopicNames::new("coupon")`.
    pub fn new(prefix: impl Into<String>) -> Self {
        Self { prefix: prefix.into() }
    }

    /// The prefix itself; client ids and transactional ids begin with it too.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Changes of `user_coupon`; key: user id in decimal, so that one user's changes stay in order.
    pub fn user_coupon(&self) -> String {
        self.named("user_coupon")
    }

    /// Changes of `coupon_template`; key: template id; compacted.
    pub fn template(&self) -> String {
        self.named("template")
    }

    /// Rows of `stock_movement`; key: template id.
    pub fn stock_movement(&self) -> String {
        self.named("stock_movement")
    }

    /// Wake-ups for the expiry worker; partition = shard modulo the partition count, set explicitly.
    pub fn expiry(&self) -> String {
        self.named("expiry")
    }

    /// Coupons that end soon; key: user id in decimal.
    pub fn expiring(&self) -> String {
        self.named("expiring")
    }

    /// The tailer's position; key: database name; compacted.
    pub fn checkpoint(&self) -> String {
        self.named("checkpoint")
    }

    /// Messages that could not be decoded, as they were.
    pub fn dead_letter(&self) -> String {
        self.named("dead_letter")
    }

    fn named(&self, topic: &str) -> String {
        format!("{}.{topic}", self.prefix)
    }
}
