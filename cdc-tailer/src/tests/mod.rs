//! Tests from binlog to cells with real servers: MariaDB and, if installed, MySQL. Rows from the binlog must equal the
//! output of SELECT.

mod alterations;
mod cells;
mod clocks;
mod compression;
mod ddl;
mod encodings;
mod foreign;
mod logins;
mod packets;
mod row;
mod savepoints;
mod servers;
mod tap;
mod tool;
mod xa;
