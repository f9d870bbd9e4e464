//! Migrations, their check, and constraints of the schema itself.

use devstack::TestServers;
use mysql_store::{MySqlConnection, connect, migrate, verify::copy_schema};
use sqlx::Row;

use crate::harness::{Store, execute, landing, number, try_execute};

#[tokio::test]
async fn migrations_apply_once_however_often_they_are_run() {
    let mut store = Store::new("migrate twice").await;
    let applied = "select count(*) from _sqlx_migrations where success";
    let once = number(&mut store.connection, applied).await;
    assert!(once > 0);
    migrate::run(&store.url).await.unwrap();
    migrate::check(&mut store.connection).await.unwrap();
    assert_eq!(number(&mut store.connection, applied).await, once);
}

#[tokio::test]
async fn two_processes_may_migrate_a_fresh_database_at_once() {
    let url = TestServers::shared().scope("migrate at once").endpoints.database_url;
    let (one, other) = tokio::join!(migrate::run(&url), migrate::run(&url));
    one.unwrap();
    other.unwrap();
    migrate::check(&mut connect::single(&url).await.unwrap()).await.unwrap();
}

#[tokio::test]
async fn the_check_says_whether_the_schema_is_missing_older_or_newer() {
    let scope = TestServers::shared().scope("check");
    let url = scope.endpoints.database_url;
    migrate::create_database(&url, &scope.database).await.unwrap();
    let mut connection = connect::single(&url).await.unwrap();
    let missing = migrate::check(&mut connection).await.unwrap_err().to_string();
    assert_eq!(missing, "the schema is missing: run `api --migrate`");

    migrate::run(&url).await.unwrap();
    migrate::check(&mut connection).await.unwrap();
    let later = |by: i64, description: &str| {
        format!(
            "insert into _sqlx_migrations select version + {by}, '{description}', installed_on, \
             success, checksum, execution_time from _sqlx_migrations order by version desc limit 1"
        )
    };
    // A process of this version may start while a platform is upgraded.
    let newest = "select max(version) from _sqlx_migrations";
    let newest = number(&mut connection, newest).await;
    execute(&mut connection, &later(1, &format!("an index, readable from {newest}"))).await;
    migrate::check(&mut connection).await.unwrap();
    execute(&mut connection, &later(1, &format!("a column, readable from {}", newest + 1))).await;
    let newer = migrate::check(&mut connection).await.unwrap_err().to_string();
    assert!(newer.contains("newer than this program"), "{newer}");
    let refused = migrate::run(&url).await.unwrap_err().to_string();
    assert_eq!(refused, newer, "there is no way back");

    execute(&mut connection, "delete from _sqlx_migrations order by version desc limit 3").await;
    let older = migrate::check(&mut connection).await.unwrap_err().to_string();
    assert_eq!(older, "the schema is older: run `api --migrate`");
}

/// All other tests begin with a copy.
#[tokio::test]
async fn a_copied_schema_is_the_migrated_one() {
    let migrated = TestServers::shared().scope("migrated schema").endpoints.database_url;
    migrate::run(&migrated).await.unwrap();
    let copied = TestServers::shared().scope("copied schema").endpoints.database_url;
    copy_schema(&copied).await.unwrap();
    let [migrated, copied] = [described(&migrated).await, described(&copied).await];
    assert!(migrated.len() > 100, "{migrated:#?}");
    assert_same(&copied, &migrated);
}

/// Checks that two databases were described in the same way, and shows where not.
pub(crate) fn assert_same(one: &[String], other: &[String]) {
    let only = |these: &[String], those: &[String]| {
        these.iter().filter(|line| !those.contains(line)).cloned().collect::<Vec<_>>()
    };
    assert_eq!(only(one, other), only(other, one));
    assert_eq!(one.len(), other.len());
}

/// Everything that a server says of a database's schema, and the rows that migrations insert.
pub(crate) async fn described(url: &str) -> Vec<String> {
    const DESCRIPTIONS: [&str; 6] = [
        "select concat_ws('|', table_name, table_type, engine, row_format, table_collation, \
         create_options, table_comment) \
         from information_schema.tables where table_schema = database() order by 1",
        "select concat_ws('|', table_name, ordinal_position, column_name, column_default, is_nullable, \
         column_type, collation_name, extra, generation_expression, column_comment) \
         from information_schema.columns where table_schema = database() order by 1",
        "select concat_ws('|', table_name, index_name, seq_in_index, column_name, non_unique, \
         sub_part, index_type) \
         from information_schema.statistics where table_schema = database() order by 1",
        // Without its `sql_mode`, which is that of the version that made it: the statement means the same in each.
        "select concat_ws('|', trigger_name, event_manipulation, event_object_table, action_timing, \
         action_statement) \
         from information_schema.triggers where trigger_schema = database() order by 1",
        "select concat_ws('|', table_name, security_type, replace(view_definition, database(), '')) \
         from information_schema.views where table_schema = database() order by 1",
        // Without what the row says besides its name: the driver of earlier versions wrote none of it.
        "select concat_ws('|', version, substring_index(description, ',', 1), success, \
         hex(checksum)) from _sqlx_migrations \
         union all select concat_ws('|', id, name) from merchant order by 1",
    ];
    let mut connection = connect::single(url).await.unwrap();
    let mut all = Vec::new();
    for sql in DESCRIPTIONS {
        all.extend(texts(&mut connection, sql).await);
    }
    all
}

pub(crate) async fn texts(connection: &mut MySqlConnection, sql: &str) -> Vec<String> {
    let rows = sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).fetch_all(connection).await.unwrap();
    assert!(!rows.is_empty(), "{sql}");
    rows.iter().map(|row| row.try_get_unchecked(0).unwrap()).collect()
}

#[tokio::test]
async fn a_database_must_be_named_in_plain_letters() {
    let url = TestServers::shared().endpoints().url_of_database("no-such`name");
    let error = migrate::run(&url).await.unwrap_err().to_string();
    assert!(error.contains("may hold only a-z, 0-9 and _"), "{error}");
    let error = migrate::run("mysql://u:p@127.0.0.1:1").await.unwrap_err().to_string();
    assert!(error.contains("DATABASE_URL names no database"), "{error}");
}

#[tokio::test]
async fn a_coupon_changes_only_with_the_next_version() {
    let mut store = Store::with_template("version trigger", 10).await;
    store.land(&[landing("a", &[1])]).await;
    for version in ["version", "version + 2", "version - 1"] {
        let sql = format!("update user_coupon set status = 1, version = {version}");
        let error = try_execute(&mut store.connection, &sql).await.unwrap_err().to_string();
        assert!(error.contains("version must rise by one"), "{error}");
    }
    let sql = "update user_coupon set status = 1, version = version + 1";
    assert_eq!(try_execute(&mut store.connection, sql).await.unwrap(), 1);
}
