//! Every connection has the session that it depends on, whatever its server gives to new ones.

use devstack::{Flavor, INIT_CONNECT, OwnDatabase, if_installed, imposed};
use mysql_store::{
    MySqlConnection,
    connect::{self, session},
    migrate,
    verify::Reader,
};

use crate::{
    harness::{Store, TEMPLATE, execute, landing, number},
    schema::{assert_same, described},
};

testkit::on_each_flavor! {
    nothing_imposed_reaches_a_connection:
    nothing_that_a_mariadb_gives_to_new_sessions_reaches_a_connection,
    nothing_that_a_mysql_gives_to_new_sessions_reaches_a_connection,
}

/// A user whose sessions begin with `init_connect`.
const USER: &str = "create user ordinary@'%' identified by 'coupon'";

async fn nothing_imposed_reaches_a_connection(flavor: Flavor) {
    let name = format!("imposed-{}", flavor.name());
    let started = OwnDatabase::start(&name, flavor, &[]).await;
    let Some(server) = if_installed(started, "MySQL that imposes settings") else { return };
    migrate::run(&server.url()).await.unwrap();
    let schema = described(&server.url()).await;
    let mut administrator = connect::single(&server.url()).await.unwrap();
    for assignment in imposed(flavor) {
        execute(&mut administrator, &format!("set global {assignment}")).await;
        assert_sessions_are_ours(&server.url(), assignment).await;
    }
    execute(&mut administrator, &format!("set global init_connect = \"{INIT_CONNECT}\"")).await;
    execute(&mut administrator, &format!("{USER}; grant all on lived.* to ordinary@'%'")).await;
    execute(&mut administrator, "set global log_bin_trust_function_creators = 1").await;
    let url = server.url().replacen("//coupon:", "//ordinary:", 1);
    let url = url.replacen("/coupon", "/lived", 1);
    assert_starts_only_with_whole_rows_in_the_binlog(&url, &mut administrator).await;
    assert_sessions_are_ours(&url, "init_connect").await;
    assert_same(&described(&url).await, &schema);
    let mut store = Store { connection: connect::lander(&url).await.unwrap(), url };
    store.publish(TEMPLATE, 10).await;
    store.land(&[landing("a", &[1, 2])]).await;
    let mut another = store.another().await;
    assert_eq!(number(&mut another, "select count(*) from user_coupon").await, 2);
    assert_eq!(number(&mut another, "select stock from template_stock").await, 8);
}

/// Opens a connection of each kind.
async fn assert_sessions_are_ours(url: &str, imposed: &str) {
    let pool = connect::pool(url, 1).await.unwrap();
    let mut pooled = connect::acquire(&pool).await.unwrap();
    let reader = Reader::connect(url, 1).await.unwrap();
    let mut reading = connect::acquire(reader.pool()).await.unwrap();
    let mut single = connect::single(url).await.unwrap();
    let mut lander = connect::lander(url).await.unwrap();
    for (connection, waits) in [
        (&mut *pooled, (6, 28_800)),
        (&mut single, (50, 28_800)),
        (&mut lander, (1, connect::IDLE_SECONDS.into())),
    ] {
        let checked = session::check(connection).await;
        checked.unwrap_or_else(|error| panic!("{imposed}: {error}"));
        assert_eq!(waits_of(connection).await, waits, "{imposed}");
    }
    assert_eq!(number(&mut reading, "select @@session.autocommit").await, 1, "{imposed}");
    drop(pooled);
    let mut again = connect::acquire(&pool).await.unwrap();
    assert_eq!(waits_of(&mut again).await, (6, 28_800), "{imposed}");
}

/// How long a session waits for a row, and how long the server waits for its next statement.
async fn waits_of(connection: &mut MySqlConnection) -> (i64, i64) {
    let for_row = number(connection, "select @@session.innodb_lock_wait_timeout").await;
    (for_row, number(connection, "select @@session.wait_timeout").await)
}

/// An ordinary user cannot set this for itself. Leaves the database at `url` migrated.
async fn assert_starts_only_with_whole_rows_in_the_binlog(
    url: &str,
    administrator: &mut MySqlConnection,
) {
    execute(administrator, "set global binlog_row_image = 'MINIMAL'").await;
    let refused = migrate::run(url).await.unwrap_err().to_string();
    assert!(refused.contains("binlog_row_image is MINIMAL"), "{refused}");
    execute(administrator, "set global binlog_row_image = 'FULL'").await;
    migrate::run(url).await.unwrap();
    execute(administrator, "set global binlog_row_image = 'MINIMAL'").await;
    let refused = migrate::checked_pool(url, 1).await.unwrap_err().to_string();
    assert!(refused.contains("binlog_row_image is MINIMAL"), "{refused}");
    execute(administrator, "set global binlog_row_image = 'FULL'").await;
    migrate::checked_pool(url, 1).await.unwrap();
    migrate::run(url).await.unwrap();
}

testkit::on_each_flavor! {
    a_maximum_is_named:
    a_process_does_not_start_where_a_maximum_of_a_mariadb_keeps_a_variable_from_it_and_names_it,
    a_process_does_not_start_where_a_maximum_of_a_mysql_keeps_a_variable_from_it_and_names_it,
}

/// MariaDB cuts the value, and MySQL refuses it.
async fn a_maximum_is_named(flavor: Flavor) {
    let name = format!("maximum-{}", flavor.name());
    let started = OwnDatabase::start(&name, flavor, &["--maximum-net-write-timeout=10"]).await;
    let Some(server) = if_installed(started, "MySQL with a maximum") else { return };
    for error in [
        migrate::run(&server.url()).await.unwrap_err(),
        migrate::checked_pool(&server.url(), 1).await.unwrap_err(),
    ] {
        let source = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        assert!(format!("{error}: {source}").contains("net_write_timeout"), "{error}: {source}");
    }
}
