//! What every leadership needs: configuration, clock, names and the server's address.

use runtime::{Clock, Part};
use topic::TopicNames;

use crate::{
    binlog::gtid::Flavor,
    config::Config,
    source::{Server, address::Address},
};

/// The context of a leadership.
pub(crate) struct LeaderContext<'a> {
    pub(crate) config: &'a Config,
    pub(crate) clock: &'a Clock,
    pub(crate) part: &'a Part,
    pub(crate) names: TopicNames,
    pub(crate) database: String,
    pub(crate) address: Address,
}

impl LeaderContext<'_> {
    /// Returns the time in milliseconds since 1970.
    pub(crate) fn now_ms(&self) -> i64 {
        self.clock.now().timestamp_millis()
    }

    /// Returns the server to read, with connection settings.
    pub(crate) fn server(&self, flavor: Flavor) -> Server {
        Server {
            flavor,
            server_id: self.config.server_id(&self.database),
            packet_bytes_max: self.config.packet_bytes_max,
            address: self.address.clone(),
        }
    }
}
