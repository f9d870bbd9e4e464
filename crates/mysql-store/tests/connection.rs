//! Guarantees of connections: their isolation, the kinds of failures, and that an idle connection's rows are released.

use std::{
    cell::Cell,
    future::poll_fn,
    pin::pin,
    task::Poll,
    time::{Duration, Instant},
};

use chrono::TimeDelta;
use coupon::LandingMode;
use futures::TryStreamExt as _;
use mysql_store::{
    MySqlConnection, StoreError,
    connect::{self, session},
    settings, stock,
};
use sqlx::{Connection, Row};

use crate::harness::{
    Store, TEMPLATE, USER, execute, id_of, landing, now, number, try_execute, waits_for_a_row,
};

/// Longest time for which a process stopped inside a landing may lock the hot row.
const FREED_WITHIN: Duration = Duration::from_secs(20);

const TAKE_ONE: &str = "update template_stock set stock = stock - 1 where template_id = 10";

#[tokio::test]
async fn every_connection_reads_what_is_committed_now() {
    let mut store = Store::with_template("read committed", 10).await;
    let pool = connect::pool(&store.url, 1).await.unwrap();
    let mut pooled = connect::acquire(&pool).await.unwrap();
    let mut lander = connect::lander(&store.url).await.unwrap();
    let mut another = store.another().await;
    for connection in [&mut *pooled, &mut lander, &mut another] {
        let mut transaction = connection.begin().await.unwrap();
        let before = stock::get(&mut transaction, TEMPLATE).await.unwrap().unwrap().stock;
        execute(&mut store.connection, TAKE_ONE).await;
        let after = stock::get(&mut transaction, TEMPLATE).await.unwrap().unwrap().stock;
        assert_eq!(after, before - 1);
    }
}

/// sqlx requests found rows, so no statement may take "0 affected" for "nothing changed".
#[tokio::test]
async fn a_matched_row_counts_as_affected_even_if_it_stays_as_it_was() {
    let mut store = Store::with_template("found rows", 10).await;
    let same = "update template_stock set stock = stock where template_id = 10";
    assert_eq!(try_execute(&mut store.connection, same).await.unwrap(), 1);
    let upsert = "insert into template_stock values (10, 0, 0, 0, 0, 1, 0, 0, 0) \
                  on duplicate key update stock = stock";
    assert_eq!(try_execute(&mut store.connection, upsert).await.unwrap(), 1, "not 0");
    let condition = "update template_stock set stock = stock where template_id = 10 and stock > 10";
    assert_eq!(try_execute(&mut store.connection, condition).await.unwrap(), 0);
}

#[tokio::test]
async fn the_silent_connection_of_a_lander_is_ended_and_frees_the_hot_row() {
    let store = Store::with_template("silent lander", 10).await;
    let mut silent = connect::lander(&store.url).await.unwrap();
    let mut transaction = silent.begin().await.unwrap();
    execute(&mut transaction, TAKE_ONE).await;
    let began = Instant::now();

    let mut next = connect::lander(&store.url).await.unwrap();
    let mut waits = 0;
    while let Err(error) =
        mysql_store::landing::land(&mut next, LandingMode::Direct, &[landing("a", &[1])]).await
    {
        assert!(error.is_conflict(), "{error:?}");
        assert!(began.elapsed() < FREED_WITHIN, "still held after {:?}", began.elapsed());
        waits += 1;
    }
    assert!(waits >= 1, "the row was not held");
    let gone = transaction.commit().await.unwrap_err();
    let gone = StoreError::Query { operation: "commit", source: gone };
    assert!(gone.is_unavailable() && !gone.is_conflict(), "{gone:?}");
    assert_eq!(stock::get(&mut next, TEMPLATE).await.unwrap().unwrap().stock, 9);
}

#[tokio::test]
async fn a_pinged_lander_outlives_its_idle_time() {
    let store = Store::new("pinged").await;
    let mut lander = connect::lander(&store.url).await.unwrap();
    let seconds = number(&mut lander, "select @@session.wait_timeout").await;
    assert_eq!(seconds, i64::from(connect::IDLE_SECONDS));
    assert_eq!(number(&mut lander, "select @@session.innodb_lock_wait_timeout").await, 1);
    let id = id_of(&mut lander).await;
    connect::ping(&mut lander).await.unwrap();
    assert_eq!(id_of(&mut lander).await, id);
}

#[tokio::test]
async fn a_pooled_statement_hears_how_a_stopped_landing_ended_before_its_caller_gives_up() {
    let store = Store::new("pooled").await;
    let pool = connect::pool(&store.url, 1).await.unwrap();
    let mut pooled = connect::acquire(&pool).await.unwrap();
    let seconds = number(&mut pooled, "select @@session.innodb_lock_wait_timeout").await;
    let seconds = seconds.unsigned_abs();
    assert!(seconds > connect::IDLE_SECONDS.into());
    assert!(Duration::from_secs(seconds) < connect::ANSWER_MAX);
}

#[tokio::test]
async fn a_pooled_connection_is_used_again_after_a_transaction_or_a_statement_was_dropped() {
    let store = Store::with_template("let go", 10).await;
    let pool = connect::pool(&store.url, 1).await.unwrap();
    let mut pooled = connect::acquire(&pool).await.unwrap();
    let id = id_of(&mut pooled).await;
    let mut transaction = pooled.begin().await.unwrap();
    execute(&mut transaction, TAKE_ONE).await;
    drop(transaction);
    drop(pooled);
    let mut pooled = connect::acquire(&pool).await.unwrap();
    assert_eq!(stock::get(&mut pooled, TEMPLATE).await.unwrap().unwrap().stock, 10);
    assert_eq!(id_of(&mut pooled).await, id);
    // The caller gives up as soon as the statement waits for the server. The late answer must not reach another caller.
    tokio::select! {
        biased;
        _ = try_execute(&mut pooled, "do sleep(0.2)") => panic!("answered at once"),
        () = std::future::ready(()) => {}
    }
    drop(pooled);
    let mut pooled = connect::acquire(&pool).await.unwrap();
    assert_eq!(id_of(&mut pooled).await, id);
    assert_eq!(stock::get(&mut pooled, TEMPLATE).await.unwrap().unwrap().stock, 10);
}

/// The driver reads an answer in pieces. The rest of an abandoned answer must not be taken for the next one's.
#[tokio::test]
async fn a_pooled_connection_is_closed_when_its_work_is_abandoned_wherever_that_is() {
    let mut store = Store::with_template("abandoned", 10).await;
    let pool = connect::pool(&store.url, 1).await.unwrap();
    // The second row comes only when no other session has the lock.
    execute(&mut store.connection, "do get_lock(database(), 0)").await;
    let read = "select repeat('a', 1000000), 7 union all select get_lock(database(), 10), 8";
    let has_begun = Cell::new(false);
    let rows = Cell::new(0);
    let work = || {
        has_begun.set(false);
        rows.set(0);
        connect::within(async {
            let mut transaction = connect::begin(&pool).await?;
            has_begun.set(true);
            execute(&mut transaction, TAKE_ONE).await;
            let mut answer = sqlx::query(read).fetch(&mut *transaction);
            while answer.try_next().await.unwrap().is_some() {
                rows.set(rows.get() + 1);
            }
            Ok::<_, StoreError>(())
        })
    };
    let mut polls = 0;
    while rows.get() == 0 {
        let abandoned = id_of(&mut connect::acquire(&pool).await.unwrap()).await;
        assert!(polled(work(), polls, || rows.get() == 1).await.is_none());
        let mut next = connect::acquire(&pool).await.unwrap();
        assert_eq!(stock::get(&mut next, TEMPLATE).await.unwrap().unwrap().stock, 10, "{polls}");
        if has_begun.get() {
            assert_ne!(id_of(&mut next).await, abandoned, "{polls}");
            // The server may still wait for the lock on that connection, which holds the hot row.
            drop(try_execute(&mut store.connection, &format!("kill {abandoned}")).await);
        }
        polls += 1;
    }
    execute(&mut store.connection, "do release_lock(database())").await;
    let used = id_of(&mut connect::acquire(&pool).await.unwrap()).await;
    work().await.unwrap();
    assert_eq!((rows.get(), id_of(&mut connect::acquire(&pool).await.unwrap()).await), (2, used));
}

/// Polls `work` at most this many times, each time when it is ready to go on, and until it is far enough. Then drops
/// it.
async fn polled<T>(
    work: impl Future<Output = T>,
    mut times: usize,
    is_far_enough: impl Fn() -> bool,
) -> Option<T> {
    let mut work = pin!(work);
    poll_fn(|context| {
        if times == 0 {
            return Poll::Ready(None);
        }
        times -= 1;
        match work.as_mut().poll(context) {
            Poll::Pending if is_far_enough() => Poll::Ready(None),
            polled => polled.map(Some),
        }
    })
    .await
}

/// A process that stopped inside a transaction, which may happen in any transaction of the api.
#[tokio::test]
async fn the_silent_transaction_of_a_pool_is_ended_and_frees_the_hot_row() {
    let store = Store::with_template("silent transaction", 10).await;
    let pool = connect::pool(&store.url, 1).await.unwrap();
    let before = async |connection: &mut MySqlConnection| {
        let idle = number(connection, "select @@session.wait_timeout").await;
        (idle, number(connection, "select @@session.innodb_lock_wait_timeout").await)
    };
    let usual = before(&mut connect::acquire(&pool).await.unwrap()).await;
    let mut transaction = connect::begin(&pool).await.unwrap();
    // A wait for a row ends before the row's holder is ended, so a stopped process never gets the row.
    assert_eq!(before(&mut transaction).await, (i64::from(connect::IDLE_SECONDS), 3));
    connect::commit(transaction).await.unwrap();
    assert_eq!(before(&mut connect::acquire(&pool).await.unwrap()).await, usual);

    let mut silent = connect::begin(&pool).await.unwrap();
    assert!(stock::next_epoch(&mut silent, TEMPLATE).await.unwrap().is_some());
    let began = Instant::now();
    let mut next = connect::lander(&store.url).await.unwrap();
    while let Err(error) =
        mysql_store::landing::land(&mut next, LandingMode::Direct, &[landing("a", &[1])]).await
    {
        assert!(error.is_conflict(), "{error:?}");
        assert!(began.elapsed() < FREED_WITHIN, "still held after {:?}", began.elapsed());
    }
    let gone = connect::commit(silent).await.unwrap_err();
    assert!(gone.is_unavailable(), "{gone:?}");
    assert_eq!(stock::get(&mut next, TEMPLATE).await.unwrap().unwrap().stock, 9);
}

#[tokio::test]
async fn a_fence_whose_row_is_taken_and_cannot_be_read_is_an_error_and_not_one_that_stands() {
    let mut store = Store::with_template("read elsewhere", 10).await;
    let claimed = landing("a", &[1]);
    // Like a proxy that sends reads to a lagging replica: this reader sees an older moment.
    let mut behind = store.another().await;
    execute(&mut behind, "set session transaction isolation level repeatable read").await;
    execute(&mut behind, "start transaction with consistent snapshot").await;
    assert_eq!(number(&mut behind, "select count(*) from claim").await, 0);
    store.land(std::slice::from_ref(&claimed)).await;
    let id = claimed.landed.id;
    let fenced = mysql_store::fence::place(&mut behind, TEMPLATE, USER, id, now()).await;
    assert!(matches!(fenced, Err(StoreError::Settings(_))), "{fenced:?}");
}

#[tokio::test]
async fn a_killed_connection_is_unavailable() {
    let mut store = Store::with_template("killed", 10).await;
    let mut victim = connect::lander(&store.url).await.unwrap();
    let kill = format!("kill {}", id_of(&mut victim).await);
    execute(&mut store.connection, &kill).await;
    let error = stock::get(&mut victim, TEMPLATE).await.unwrap_err();
    assert!(error.is_unavailable() && !error.is_conflict(), "{error:?}");
    let error = connect::ping(&mut victim).await.unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
}

#[tokio::test]
async fn a_connection_killed_while_it_waits_is_unavailable() {
    let mut store = Store::with_template("killed waiting", 10).await;
    let mut holder = store.another().await;
    let mut held = holder.begin().await.unwrap();
    execute(&mut held, TAKE_ONE).await;
    let mut victim = connect::lander(&store.url).await.unwrap();
    let id = id_of(&mut victim).await;
    let landing = tokio::spawn(async move {
        mysql_store::landing::land(&mut victim, LandingMode::Direct, &[landing("a", &[1])])
            .await
            .unwrap_err()
    });
    waits_for_a_row(&mut store.connection, id).await;
    execute(&mut store.connection, &format!("kill {id}")).await;
    let error = landing.await.unwrap();
    assert!(error.is_unavailable() && !error.is_conflict(), "{error:?}");
    held.rollback().await.unwrap();
    assert_eq!(store.counts().await, (0, 0));
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unavailable() {
    let error = connect::single("mysql://u:p@127.0.0.1:1/d").await.unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    let error = connect::single("redis://127.0.0.1").await.unwrap_err();
    assert!(!error.is_unavailable(), "{error:?}");
}

#[tokio::test]
async fn a_deadlock_is_a_conflict_for_exactly_one_of_two() {
    let mut store = Store::with_template("deadlock", 10).await;
    let other_row = "insert into lease values ('a', 'x', now())";
    execute(&mut store.connection, other_row).await;
    let touch = "update lease set holder = 'y' where name = 'a'";
    let mut second = store.another().await;
    let second_id = id_of(&mut second).await;
    let mut first = store.another().await;
    let mut one = first.begin().await.unwrap();
    execute(&mut one, TAKE_ONE).await;
    let other = tokio::spawn(async move {
        let mut other = second.begin().await.unwrap();
        execute(&mut other, touch).await;
        let error = stock::next_epoch(&mut other, TEMPLATE).await.err();
        other.commit().await.unwrap();
        error
    });
    waits_for_a_row(&mut store.connection, second_id).await;
    let mine = try_execute(&mut one, touch).await.err();
    drop(one.commit().await);
    let mine = mine.map(|source| StoreError::Query { operation: "touch", source });
    let errors: Vec<StoreError> = [mine, other.await.unwrap()].into_iter().flatten().collect();
    assert!(matches!(&errors[..], [error] if error.is_conflict()), "{errors:?}");
}

#[tokio::test]
async fn times_are_stored_to_the_millisecond_in_utc() {
    let mut store = Store::with_template("times", 10).await;
    let sql = "select cast(created_at as char) from coupon_template";
    let row = sqlx::raw_sql(sql).fetch_one(&mut store.connection).await.unwrap();
    let stored: String = row.try_get_unchecked(0).unwrap();
    assert_eq!(stored, now().format("%Y-%m-%d %H:%M:%S%.3f").to_string());
    let server = settings::server_time(&mut store.connection).await.unwrap();
    let seconds = unix_time(&mut store.connection).await - server.timestamp();
    assert!(seconds.abs() <= 1, "{seconds}");
}

#[tokio::test]
async fn a_clock_is_ahead_or_behind_by_what_no_round_trip_explains() {
    let mut store = Store::new("skew").await;
    let connection = &mut store.connection;
    let offset = settings::server_time(connection).await.unwrap();
    let elapsed = std::time::Instant::now();
    let theirs = || offset + TimeDelta::from_std(elapsed.elapsed()).unwrap();
    let hour = TimeDelta::hours(1);
    for (by, size) in [(hour, hour), (-hour, -hour)] {
        let skew = settings::skew(connection, || theirs() + by).await.unwrap();
        assert!((skew - size).abs() < TimeDelta::minutes(1), "{skew}");
    }
}

/// What an `init_connect`, a proxy or an administrator's default can do to a session in spite of what it sets.
#[tokio::test]
async fn a_session_that_is_not_as_it_was_set_or_whose_changes_are_not_logged_is_refused_by_name() {
    let store = Store::new("refused session").await;
    for (statement, name) in [
        ("set session autocommit = 0", "autocommit is OFF"),
        ("set session sql_safe_updates = 1", "sql_safe_updates is ON"),
        ("set session sql_mode = 'ANSI_QUOTES'", "sql_mode is ANSI_QUOTES"),
        (
            "set session transaction isolation level repeatable read",
            "_isolation is REPEATABLE-READ",
        ),
        ("set names latin1", "character_set_client is latin1"),
        ("set session sql_log_bin = 0", "sql_log_bin is OFF"),
        ("set session binlog_row_image = 'MINIMAL'", "binlog_row_image is MINIMAL"),
        ("set session binlog_format = 'STATEMENT'", "binlog_format is STATEMENT"),
    ] {
        let mut connection = store.another().await;
        session::check(&mut connection).await.unwrap();
        execute(&mut connection, statement).await;
        let refused = session::check(&mut connection).await.unwrap_err().to_string();
        assert!(refused.contains(name), "{statement}: {refused}");
    }
}

async fn unix_time(connection: &mut MySqlConnection) -> i64 {
    number(connection, "select unix_timestamp()").await
}
