//! A database of any earlier version, and one whose migration was cut short anywhere, ends in the schema of a fresh one.

use devstack::TestServers;
use mysql_store::{StoreError, migrate, verify};
use sqlx::migrate::{Migration, Migrator};
use testkit::{COMMIT, HeldMessage, Proxy, until_listed};
use tokio::task::JoinHandle;

use crate::{
    harness::{execute, number, try_execute},
    old_versions::{as_before, old},
    schema::{assert_same, described},
};

/// What versions before ours applied, as they did it.
pub(crate) static BY_THE_DRIVER: Migrator = sqlx::migrate!("../../migrations");

/// The migration that builds the first index of `user_coupon`, and the one with the most statements.
const LISTS_OF_A_USER: i64 = 20_261_123_000_010;
const TEMPLATE_LISTS: i64 = 20_261_124_000_003;

/// Returns the URL of a database that does not exist.
fn new_url(name: &str) -> String {
    TestServers::shared().scope(name).endpoints.database_url
}

/// Returns what these servers say of a schema that was never older.
pub(crate) async fn fresh(servers: TestServers) -> Vec<String> {
    let url = servers.scope("fresh schema").endpoints.database_url;
    migrate::run(&url).await.unwrap();
    described(&url).await
}

fn migrating(url: &str) -> JoinHandle<Result<(), StoreError>> {
    let url = url.to_owned();
    tokio::spawn(async move { migrate::run(&url).await })
}

/// Migrates until `held` is reached, and cuts the connection there. Returns whether the migration came to its end before.
async fn cut_at(url: &str, mut held: HeldMessage) -> bool {
    let mut run = migrating(url);
    tokio::select! {
        () = held.reached() => {
            held.cut();
            run.await.unwrap().unwrap_err();
            false
        }
        ended = &mut run => {
            ended.unwrap().unwrap();
            true
        }
    }
}

/// A new migration is held to this too: what it does must be one effect for each statement, which the server refuses to
/// bring about twice, or rows.
#[tokio::test]
async fn a_migration_that_is_cut_short_before_or_after_any_statement_goes_on_at_the_next_run() {
    let url = new_url("cut short");
    let proxy = Proxy::before(&url).await;
    let through = proxy.instead_of(&url);
    for statement in migrate::all_statements() {
        for held in
            [proxy.hold_request(statement.as_bytes()), proxy.hold_answer(statement.as_bytes())]
        {
            assert!(!cut_at(&through, held).await, "it was not sent: {statement}");
        }
    }
    migrate::run(&url).await.unwrap();
    assert_same(&described(&url).await, &fresh(TestServers::shared()).await);
}

#[tokio::test]
async fn a_migration_that_is_cut_short_after_any_record_of_a_statement_goes_on_at_the_next_run() {
    let url = new_url("cut at records");
    let proxy = Proxy::before(&url).await;
    let mut cuts = 0;
    while !cut_at(&proxy.instead_of(&url), proxy.hold_answer(COMMIT)).await {
        cuts += 1;
    }
    assert_eq!(cuts, migrate::all_statements().len());
    assert_same(&described(&url).await, &fresh(TestServers::shared()).await);
}

/// Versions before ours recorded only that a migration had begun. Here each was killed in each migration, after another
/// number of its statements.
#[tokio::test]
async fn a_migration_that_an_earlier_version_began_and_did_not_end_goes_on() {
    let url = new_url("begun before");
    let proxy = Proxy::before(&url).await;
    let statements = migrate::all_statements();
    let mut rest = &statements[..];
    for (number, half) in BY_THE_DRIVER.migrations.iter().enumerate() {
        let first = rest.first().unwrap();
        let held = proxy.hold_request(first.as_bytes());
        assert!(!cut_at(&proxy.instead_of(&url), held).await, "{first}");
        let mut connection = as_before(&url).await;
        let row = format!(
            "update _sqlx_migrations set execution_time = -1 where version = {} and not success",
            half.version
        );
        assert_eq!(try_execute(&mut connection, &row).await.unwrap(), 1);
        let (own, of_others) =
            rest.split_at(rest.iter().take_while(|own| is_of(half, own)).count());
        for statement in &own[..own.len() - number % own.len()] {
            execute(&mut connection, statement).await;
        }
        rest = of_others;
    }
    assert!(rest.is_empty(), "{rest:?}");
    migrate::run(&url).await.unwrap();
    assert_same(&described(&url).await, &fresh(TestServers::shared()).await);
}

/// Whether a statement is one of a migration's.
fn is_of(migration: &Migration, statement: &str) -> bool {
    statement.lines().next().is_some_and(|line| migration.sql.as_str().contains(line))
}

/// Returns the migrations before this one.
fn before(version: i64) -> &'static [Migration] {
    let all = &BY_THE_DRIVER.migrations;
    &all[..all.iter().position(|migration| migration.version == version).unwrap()]
}

#[tokio::test]
async fn a_statement_that_the_server_goes_on_with_alone_is_waited_for_and_not_repeated() {
    let url = new_url("lost in an alter");
    let proxy = Proxy::before(&url).await;
    let mut connection = old(&url, before(LISTS_OF_A_USER)).await;
    // The statement waits for whoever uses the table.
    let mut user = as_before(&url).await;
    execute(&mut user, "begin").await;
    assert_eq!(number(&mut user, "select count(*) from user_coupon").await, 1);
    let lost = migrating(&proxy.instead_of(&url));
    let waits = "db = database() and state = 'Waiting for table metadata lock'";
    until_listed(async || verify::sessions(&mut connection, waits).await.unwrap()).await;
    proxy.cut();
    let error = lost.await.unwrap().unwrap_err().to_string();
    assert!(error.contains("migration 20261123000010, statement 1"), "{error}");
    assert!(error.contains("may go on with it"), "{error}");
    let next = migrating(&url);
    execute(&mut user, "commit").await;
    next.await.unwrap().unwrap();
    execute(&mut connection, "delete from merchant where id <> 1").await;
    assert_same(&described(&url).await, &fresh(TestServers::shared()).await);
}

#[tokio::test]
async fn what_somebody_else_made_under_the_same_name_is_never_taken_for_a_migrations() {
    let url = new_url("same name");
    let mut connection = old(&url, before(TEMPLATE_LISTS)).await;
    execute(&mut connection, "alter table user_coupon add key ix_template_status (id)").await;
    for _ in 0..2 {
        let error = migrate::run(&url).await.unwrap_err().to_string();
        assert!(error.contains("20261124000003, statement 2"), "{error}");
        assert!(error.contains("Duplicate key name 'ix_template_status'"), "{error}");
        assert!(error.contains("run `api --migrate` again"), "{error}");
    }
    execute(&mut connection, "alter table user_coupon drop key ix_template_status").await;
    migrate::run(&url).await.unwrap();
    execute(&mut connection, "delete from merchant where id <> 1").await;
    assert_same(&described(&url).await, &fresh(TestServers::shared()).await);
}

#[tokio::test]
async fn a_migration_that_was_applied_with_another_text_is_refused_by_name() {
    let url = new_url("another text");
    let mut connection = old(&url, before(LISTS_OF_A_USER)).await;
    let edited = "update _sqlx_migrations set checksum = 'x' order by version limit 1";
    execute(&mut connection, edited).await;
    let error = migrate::run(&url).await.unwrap_err().to_string();
    assert!(error.contains("migration 20261121000001 has another text"), "{error}");
}
