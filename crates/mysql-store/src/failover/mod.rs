//! What a failover of MySQL to a server that lacks the newest commits leaves behind.

pub mod lost_claim;
pub mod primary_server;
