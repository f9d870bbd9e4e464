//! Column values as the binlog lays them out in bytes.

pub(crate) mod bytes;
pub(crate) mod cell;
pub(crate) mod column;
pub(crate) mod decimal;
pub(crate) mod json;
