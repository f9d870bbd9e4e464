//! The way from the binlog to cells against real servers: MariaDB and, where it is installed, MySQL.
//! What a server says in a SELECT is what must come out of its binlog.

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
