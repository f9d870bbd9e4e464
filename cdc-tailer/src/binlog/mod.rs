//! Binlog events, rows and positions: decoding, and encoding rows as change events.

pub(crate) mod charset;
pub(crate) mod compressed;
pub(crate) mod encode;
pub(crate) mod event;
pub(crate) mod gtid;
pub(crate) mod packet;
pub(crate) mod pending;
pub(crate) mod position;
pub(crate) mod rows;
pub(crate) mod schema;
pub(crate) mod statement;
pub(crate) mod table;
pub(crate) mod text_row;
pub(crate) mod xid;
