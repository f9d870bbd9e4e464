//! Changes of a followed table's columns while its rows are read, and tables created with rows.

use std::collections::BTreeSet;

use super::{
    servers::Database,
    tap::{Tap, rows},
};
use crate::error::Directive;

#[test]
fn columns_are_known_by_name_whatever_becomes_of_the_table() {
    for server in Database::all() {
        let mut tap = Tap::on(&server);
        tap.sql(
            "create table t (id int primary key, a int, b varchar(10));
             insert into t values (1, 10, 'b1');
             alter table t add column first_one datetime(3) null first;
             insert into t values ('2026-01-02 03:04:05.006', 2, 20, 'b2');
             alter table t modify column b varchar(10) after first_one;
             insert into t values (null, 'b3', 3, 30);
             alter table t drop column a;
             insert into t values (null, 'b4', 4);
             alter table t change column b c varchar(300);
             insert into t values (null, 'c5', 5);
             alter table t modify column id bigint unsigned, add column a tinyint default -1;
             insert into t values (null, 'c6', 18446744073709551615, -6);
             update t set c = 'c1' where id = 1;",
        );
        let rows = tap.rows();
        let shown: Vec<_> = rows
            .iter()
            .map(|row| {
                let after = row.after.as_ref().unwrap();
                let get = |name: &str| {
                    let value = after.get(name)?.clone();
                    Some(value.unwrap_or_else(|| "NULL".to_owned()))
                };
                ["id", "a", "b", "c", "first_one"].map(|name| get(name).unwrap_or("–".into()))
            })
            .collect();
        let expected = [
            ["1", "10", "b1", "–", "–"],
            ["2", "20", "b2", "–", "2026-01-02 03:04:05.006000"],
            ["3", "30", "b3", "–", "NULL"],
            ["4", "–", "b4", "–", "NULL"],
            ["5", "–", "–", "c5", "NULL"],
            ["18446744073709551615", "-6", "–", "c6", "NULL"],
            ["1", "-1", "–", "c1", "NULL"],
        ];
        assert_eq!(shown, expected);
    }
}

/// The statement that creates the table looks like the end of a transaction, and its rows follow it.
#[test]
fn a_table_made_of_a_select_comes_whole_and_everything_behind_it_once() {
    for server in Database::all() {
        let mut tap = Tap::on(&server);
        // A table without transactions is logged differently; it is not followed here.
        let own = if server.is_mariadb {
            "create table kept_apart engine = aria select id from t;"
        } else {
            "create table kept_apart (id int);"
        };
        tap.sql(&format!(
            "create table t (id int primary key); insert into t values (1), (2), (3);
             create table u (primary key (id)) select id + 10 as id from t;
             insert into t values (4);
             create table foreign_one select id from t; {own}
             insert into u values (20);
             create table u_again (primary key (id)) select id from u;
             insert into t values (5)"
        ));
        let mut received: Vec<Vec<String>> = Vec::new();
        let mut gtids = Vec::new();
        while received.last().is_none_or(|ids| *ids != ["t 5"]) {
            let transaction = tap.next_transaction().unwrap();
            gtids.push(transaction.gtid.to_string());
            let rows = rows(&transaction).unwrap();
            if !rows.is_empty() {
                let ids = rows.iter().map(|row| format!("{} {}", row.table, row.after("id")));
                received.push(ids.collect());
                // Resume from the position after each transaction: advancing it before the transaction's end would lose
                // the rest of its rows, advancing it too late would repeat them.
                assert!(transaction.resumable);
                tap.disconnect();
            }
        }
        let whole = [
            vec!["t 1", "t 2", "t 3"],
            vec!["u 11", "u 12", "u 13"],
            vec!["t 4"],
            vec!["u 20"],
            vec!["t 5"],
        ];
        assert_eq!(received, whole);
        let each = gtids.iter().collect::<BTreeSet<_>>();
        assert_eq!(each.len(), gtids.len(), "no transaction came twice: {gtids:?}");
    }
}

mod full {
    use super::*;

    #[test]
    fn a_change_that_the_events_cannot_follow_stops_with_the_columns_name() {
        let create = "create table stock_movement (template_id bigint not null, seq bigint not null, \
            delta bigint not null, reason varchar(200) not null, actor varchar(100) not null, \
            created_at datetime(3) not null, kind tinyint not null default 0, delta_stock bigint null, \
            returned varchar(8000) null, primary key (template_id, seq));
            insert into stock_movement (template_id, seq, delta, reason, actor, created_at) \
            values (1, 1, 1, 'r', 'a', '2026-01-01');";
        let changes = [
            (
                "alter table stock_movement rename column delta to difference",
                "stock_movement.delta",
            ),
            ("alter table stock_movement drop column actor", "stock_movement.actor"),
            ("alter table stock_movement modify column seq varchar(20)", "stock_movement.seq"),
            (
                "alter table stock_movement modify column created_at datetime(6)",
                "stock_movement.created_at",
            ),
            (
                "alter table stock_movement modify reason varchar(200) character set latin1",
                "stock_movement.reason",
            ),
        ];
        for server in Database::all() {
            for (change, column) in changes {
                let mut tap = Tap::on(&server);
                tap.sql(create);
                tap.sql("alter table stock_movement add column extra point null first");
                tap.sql(
                    "insert into stock_movement values
                     (null, 1, 2, -5, 'r', 'a', '2026-01-01', 1, 5, '7/1/1')",
                );
                assert_eq!(tap.rows().len(), 2, "a new column is no hindrance");
                tap.sql(change);
                assert_eq!(tap.rows().len(), 0, "nor is a change that no row has met yet");
                tap.sql("update stock_movement set extra = point(1, 1)");
                let error = tap.try_transactions().unwrap_err();
                assert_eq!(error.directive(), Directive::Stop);
                assert!(error.to_string().contains(column), "{error}");
            }
        }
    }

    #[test]
    fn a_table_that_takes_the_place_of_a_followed_one_stops() {
        for server in Database::all() {
            for change in [
                "rename table t to old, v to t",
                "drop table t",
                "alter table t rename to old",
                "alter table t truncate partition p0",
                "truncate table t",
                "set sql_mode = 'NO_BACKSLASH_ESCAPES'; alter table t comment 'a\\', rename to old -- '",
                // In this set `\x81\\` is one character.
                "set names gbk; set @text = concat('alter table t comment ''', unhex('815c'), \
                 ''', rename to old -- '''); prepare made from @text; execute made",
            ] {
                let mut tap = Tap::on(&server);
                tap.sql(
                    "create table t (id int primary key) partition by range (id)
                     (partition p0 values less than (10)); create table v (id int);
                     insert into t values (1)",
                );
                assert_eq!(tap.rows().len(), 1);
                tap.sql(change);
                let text = tap.try_transactions().unwrap_err().to_string();
                assert!(text.contains("t was emptied") && text.contains("--resnapshot"), "{text}");
            }
        }
    }
}
