//! XA transactions: their rows come at XA COMMIT, even if the tailer reconnected or restarted in between.

use std::sync::RwLockWriteGuard;

use super::{
    servers::Database,
    tap::{Tap, alone_with_xa},
};
use crate::{
    binlog::{pending::Pending, schema::Followed},
    error::Directive,
    transaction::{Assembler, Limits},
};

fn tap(server: &Database) -> (Tap, RwLockWriteGuard<'static, ()>) {
    let tap = Tap::on(server);
    let alone = alone_with_xa();
    tap.sql("create table t (id bigint primary key); create table foreign_table (id bigint)");
    (tap, alone)
}

/// XA ids are shared by all databases of a server.
fn names(tap: &Tap) -> [String; 3] {
    let (_, database) = tap.database.url.rsplit_once('/').unwrap();
    [1, 2, 3].map(|number| format!("'{database}{number}','branch',{number}"))
}

fn ids(tap: &mut Tap) -> Vec<String> {
    tap.rows().iter().map(|row| row.after("id").to_owned()).collect()
}

#[test]
fn rows_of_an_xa_transaction_come_out_when_it_is_committed_and_not_before() {
    for server in Database::all() {
        let (mut tap, _alone) = tap(&server);
        let [one, two, three] = names(&tap);
        let prepare = |name: &str, rows: &str| {
            tap.sql(&format!("xa start {name}; {rows}; xa end {name}; xa prepare {name}"));
        };
        prepare(&one, "insert into t values (1); insert into t values (2), (3)");
        prepare(&two, "insert into t values (4)");
        prepare(&three, "insert into foreign_table values (5)");
        tap.sql("insert into t values (6)");
        let before = tap.transactions();
        assert_eq!(before.len(), 1, "only the last is committed");
        assert!(!before[0].resumable, "the rows of two others wait");

        // The prepared rows survive a reconnect.
        tap.disconnect();
        tap.sql(&format!("xa rollback {two}; insert into t values (7); xa commit {one}"));
        tap.sql(&format!("xa commit {three}; insert into t values (8)"));
        let after = tap.transactions();
        let ids: Vec<Vec<&str>> =
            after.iter().map(|one| one.rows.iter().map(|row| row.after("id")).collect()).collect();
        assert_eq!(ids, [vec!["7"], vec!["1", "2", "3"], vec!["8"]]);
        let resumable: Vec<bool> = after.iter().map(|one| one.resumable).collect();
        assert_eq!(resumable, [false, true, true]);
    }
}

#[test]
fn an_xa_transaction_of_one_phase_and_one_rolled_back_at_once_are_like_any_other() {
    for server in Database::all() {
        let (mut tap, _alone) = tap(&server);
        let [one, two, three] = names(&tap);
        tap.sql(&format!(
            "xa start {one}; insert into t values (1); xa end {one}; xa commit {one} one phase;
             xa start {two}; insert into t values (2); xa end {two}; xa rollback {two};
             xa start {three}; insert into t values (3); savepoint s; insert into t values (4);
             rollback to s; insert into t values (5); xa end {three}; xa prepare {three};
             xa commit {three}"
        ));
        assert_eq!(ids(&mut tap), ["1", "3", "5"]);
    }
}

#[test]
fn a_tailer_that_starts_again_before_the_prepare_has_the_rows() {
    for server in Database::all() {
        let (mut tap, _alone) = tap(&server);
        let [name, ..] = names(&tap);
        let start = tap.origin.after.clone();
        tap.sql(&format!(
            "xa start {name}; insert into t values (1); xa end {name}; xa prepare {name}"
        ));
        assert_eq!(ids(&mut tap), [] as [&str; 0]);
        // Another process: it has no state, and its checkpoint is the last resumable position.
        tap.disconnect();
        tap.assembler = fresh(&tap);
        tap.origin.after = start;
        tap.sql(&format!("xa commit {name}"));
        assert_eq!(ids(&mut tap), ["1"]);
    }
}

#[test]
fn a_tailer_that_starts_again_behind_a_prepare_without_our_rows_knows_that_it_has_none() {
    for server in Database::all() {
        let (mut tap, _alone) = tap(&server);
        let [name, other, one_phase] = names(&tap);
        for name in [&name, &other] {
            tap.sql(&format!(
                "xa start {name}; insert into foreign_table values (1); xa end {name}; xa prepare {name}"
            ));
        }
        tap.sql("insert into t values (1)");
        let before = tap.transactions();
        assert!(before.last().unwrap().resumable);
        tap.disconnect();
        tap.assembler = fresh(&tap);
        tap.sql(&format!(
            "xa commit {name}; xa rollback {other}; insert into t values (2);
             xa start {one_phase}; insert into foreign_table values (3); xa end {one_phase};
             xa commit {one_phase} one phase"
        ));
        assert_eq!(ids(&mut tap), ["2"]);
        assert_eq!(tap.origin.after.pending, Pending::default(), "what has ended is forgotten");
    }
}

/// The tables are read after the position that the stream begins at.
#[test]
fn a_commit_before_the_tables_were_read_is_in_them_and_one_behind_it_is_not() {
    for server in Database::all() {
        let (mut tap, _alone) = tap(&server);
        let [early, late, _] = names(&tap);
        for (id, name) in [(1, &early), (2, &late)] {
            tap.sql(&format!(
                "xa start {name}; insert into t values ({id}); xa end {name}; xa prepare {name}"
            ));
        }
        assert_eq!(ids(&mut tap), [] as [&str; 0]);
        tap.disconnect();
        tap.sql(&format!("xa commit {early}"));
        tap.origin.after.pending.covered = Some(tap.end());
        tap.assembler = fresh(&tap);
        tap.sql("insert into t values (3)");
        assert_eq!(ids(&mut tap), ["3"]);
        tap.sql(&format!("xa commit {late}"));
        let error = tap.try_transactions().unwrap_err();
        assert_eq!(error.directive(), Directive::Resnapshot, "{error}");
    }
}

#[test]
fn a_commit_of_rows_that_were_prepared_before_a_snapshots_position_asks_for_another() {
    for server in Database::all() {
        let (mut tap, _alone) = tap(&server);
        let [name, other, _] = names(&tap);
        for name in [&name, &other] {
            let id = name.len() + usize::from(name == &other);
            tap.sql(&format!(
                "xa start {name}; insert into t values ({id}); xa end {name}; xa prepare {name}"
            ));
        }
        assert_eq!(ids(&mut tap), [] as [&str; 0]);
        tap.disconnect();
        tap.assembler = fresh(&tap);
        tap.sql(&format!("xa rollback {other}; insert into t values (1)"));
        assert_eq!(ids(&mut tap), ["1"], "what is rolled back changes nothing");
        tap.sql(&format!("xa commit {name}"));
        let error = tap.try_transactions().unwrap_err();
        assert_eq!(error.directive(), Directive::Resnapshot, "{error}");
    }
}

fn fresh(tap: &Tap) -> Assembler {
    let (_, database) = tap.database.url.rsplit_once('/').unwrap();
    let limits = Limits { packet_bytes_max: 1 << 20, spill_folder: std::env::temp_dir() };
    Assembler::new(
        Followed { database: database.to_owned(), tables: &["t", "tap_end"] },
        limits,
        &tap.origin.after.pending,
    )
}
