//! Databases as earlier versions of this program left them.

use std::borrow::Cow;
use std::str::FromStr;

use mysql_store::{MySqlConnection, connect, connect::SslMode, migrate};
use sqlx::{
    Connection, Row,
    migrate::{Migration, Migrator},
    mysql::MySqlConnectOptions,
};

use crate::{harness::execute, schema::texts};

/// Opens a connection as versions before ours did.
pub(crate) async fn as_before(url: &str) -> MySqlConnection {
    let options = MySqlConnectOptions::from_str(url).unwrap().ssl_mode(SslMode::Disabled);
    MySqlConnection::connect_with(&options).await.unwrap()
}

/// Creates a database as an earlier version left it, with a row in each table. Its user's connection is returned.
pub(crate) async fn old(url: &str, migrations: &[Migration]) -> MySqlConnection {
    migrate::create_database(url, &connect::database_of(url).unwrap()).await.unwrap();
    let mut connection = as_before(url).await;
    let migrator = Migrator {
        migrations: Cow::Owned(migrations.to_vec()),
        locking: false,
        ..Migrator::DEFAULT
    };
    migrator.run_direct(None, &mut connection, false).await.unwrap();
    for table in tables(&mut connection).await {
        let values: Vec<&str> = table.columns.iter().map(Column::example).collect();
        let insert = format!("insert into {} values ({})", table.name, values.join(", "));
        execute(&mut connection, &insert).await;
    }
    connection
}

pub(crate) struct Table {
    name: String,
    columns: Vec<Column>,
}

struct Column {
    name: String,
    of_type: String,
}

impl Column {
    /// A value that fits, other than those that migrations insert.
    fn example(&self) -> &'static str {
        match self.of_type.as_str() {
            "tinyint" | "smallint" | "int" | "bigint" => "7",
            "datetime" => "'2026-01-02 03:04:05.678'",
            _ => "'x'",
        }
    }
}

/// Returns the tables of the platform, with their columns in order.
pub(crate) async fn tables(connection: &mut MySqlConnection) -> Vec<Table> {
    let sql = "select concat_ws(' ', c.table_name, c.column_name, c.data_type) \
               from information_schema.columns c join information_schema.tables t \
               on t.table_schema = c.table_schema and t.table_name = c.table_name \
               where c.table_schema = database() and t.table_type = 'BASE TABLE' \
               and c.table_name <> '_sqlx_migrations' order by c.table_name, c.ordinal_position";
    let mut tables: Vec<Table> = Vec::new();
    for row in sqlx::raw_sql(sql).fetch_all(connection).await.unwrap() {
        let text: String = row.try_get_unchecked(0).unwrap();
        let [name, column, of_type] = text.split(' ').collect::<Vec<_>>()[..] else { panic!() };
        if tables.last().is_none_or(|last| last.name != name) {
            tables.push(Table { name: name.to_owned(), columns: Vec::new() });
        }
        let column = Column { name: column.to_owned(), of_type: of_type.to_owned() };
        tables.last_mut().unwrap().columns.push(column);
    }
    tables
}

/// Returns the rows of all tables, in these columns.
pub(crate) async fn rows(connection: &mut MySqlConnection, tables: &[Table]) -> Vec<String> {
    let mut rows = Vec::new();
    for Table { name, columns } in tables {
        let columns: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        let columns = columns.join(", ");
        let ours = if name == "merchant" { "where id <> 1" } else { "" };
        let sql = format!(
            "select concat('{name} ', hex(concat_ws('|', {columns}))) from {name} {ours} order by 1"
        );
        rows.extend(texts(connection, &sql).await);
    }
    rows
}
