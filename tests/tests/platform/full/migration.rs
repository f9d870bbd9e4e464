//! `api --migrate`, killed again and again, ends in the same schema as one that is left alone.

use std::{process::Stdio, time::Duration};

use devstack::{Endpoints, Flavor, TestServers, full_only};
use mysql_store::{connect, migrate, verify};
use tokio::{process::Command, time::timeout};

use super::stack::program;

/// How much longer each run may work than the one before: shorter than most statements.
const LONGER_EACH: Duration = Duration::from_millis(7);

/// Any secret that is long enough.
const SECRET: &str = "5d1c7a90be36f4482f07d3e9a1654c8b5d1c7a90be36f4482f07d3e9a1654c8b";

testkit::on_each_flavor! {
    killed_at_any_moment:
    a_migration_of_a_mariadb_that_is_killed_at_any_moment_goes_on_where_it_was,
    a_migration_of_a_mysql_that_is_killed_at_any_moment_goes_on_where_it_was,
}

async fn killed_at_any_moment(flavor: Flavor) {
    full_only("kills a process");
    let Some(servers) = TestServers::on(flavor) else { return };
    let killed = servers.scope("killed migration").endpoints;
    let mut kills = 0;
    let mut statements = 0;
    while !is_migrated_within(&killed, LONGER_EACH * kills).await {
        kills += 1;
        statements = statements.max(recorded(&killed.database_url).await);
    }
    assert!(kills > 0 && statements > 0, "no kill met a migration: {kills} kills");
    let alone = servers.scope("migration alone").endpoints;
    migrate::run(&alone.database_url).await.unwrap();
    assert_eq!(schema(&killed.database_url).await, schema(&alone.database_url).await);
}

/// Runs `api --migrate` to its end, or kills it after this time.
async fn is_migrated_within(endpoints: &Endpoints, limit: Duration) -> bool {
    let mut command = Command::new(program("api"));
    command.arg("--migrate").envs(endpoints.variables());
    command.env("JWT_SECRET", SECRET).env("OPERATOR_KEY", SECRET);
    let run = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let run = run.kill_on_drop(true).spawn().unwrap().wait_with_output();
    let Ok(ended) = timeout(limit, run).await else { return false };
    let ended = ended.unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    true
}

/// Returns the number of migrations that have begun.
async fn recorded(url: &str) -> i64 {
    let Ok(mut connection) = connect::single(url).await else { return 0 };
    let begun = "select count(*) from _sqlx_migrations";
    verify::number(&mut connection, begun).await.unwrap_or(0)
}

/// Returns digests of the columns and keys of a database, and the number of its triggers.
async fn schema(url: &str) -> [i64; 3] {
    let mut connection = connect::single(url).await.unwrap();
    let columns = "select cast(sum(crc32(concat_ws('|', table_name, ordinal_position, column_name, column_type, \
                   is_nullable))) as signed) from information_schema.columns where table_schema = database()";
    let keys = "select cast(sum(crc32(concat_ws('|', table_name, index_name, seq_in_index, column_name, \
                non_unique))) as signed) from information_schema.statistics where table_schema = database()";
    let triggers =
        "select count(*) from information_schema.triggers where trigger_schema = database()";
    let mut numbers = [0; 3];
    for (number, sql) in numbers.iter_mut().zip([columns, keys, triggers]) {
        *number = verify::number(&mut connection, sql).await.unwrap();
    }
    numbers
}
