//! What the benches share: the machine they ran on, servers of their own, and the baselines.
//!
//! A figure is only printed beside a baseline of the same run on the same servers.

pub mod landed;
pub mod machine;
pub mod stage;
pub mod tailed;
pub mod thin;
