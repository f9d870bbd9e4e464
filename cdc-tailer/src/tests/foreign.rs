//! Tables that are not followed must not disturb the tailer, whatever they contain.

use super::{servers::Database, tap::Tap};

const ON_BOTH: &str = "
    create table strange (
        id int primary key auto_increment, g geometry, b bit(13), s set('a', 'b'), e enum('x', 'y'),
        latin varchar(20) character set latin1, wide varchar(20) character set utf16,
        sjis char(5) character set sjis, sjis_label enum('ソ') character set sjis, raw varbinary(20),
        t time(6), d datetime(2), z timestamp null, n decimal(65, 30), j json, y year, f float
    );
    insert into strange (g, b, s, e, latin, wide, sjis, sjis_label, raw, t, d, n, j, y, f) values
        (linestring(point(1, 1), point(2, 2)), 5, 'a,b', 'y', 'é', '券', 'ソ', 'ソ', x'00ff80',
         '-838:59:59', '2026-01-01', -1.5, '{\"a\": [1, 2]}', 2026, 0.5);
    update strange set raw = x'ffff'; delete from strange;
    create table generated_columns (a int, b int as (a + 1) stored, c int as (a + 2) virtual);
    insert into generated_columns (a) values (1);";

const OF_MARIADB: &str = "
    create table own (u uuid, i inet6, c text compressed, v varchar(500) compressed);
    insert into own values
        (uuid(), '::1', repeat('c', 500), repeat('v', 400)), (null, null, null, null);
    create table history (a int) with system versioning;
    insert into history values (1); update history set a = 2;
    create sequence numbers; select nextval(numbers);
    create table kept_apart (a int) engine = aria; insert into kept_apart values (1);";

const OF_MYSQL: &str = "
    create table own (v vector(3), i int invisible, g geometry not null srid 4326);
    insert into own (v, i, g) values
        (string_to_vector('[1, 2, 3]'), 1, st_geomfromtext('point(1 1)', 4326));
    create table kept_apart (a int) engine = myisam; insert into kept_apart values (1);
    create table partial_json (id int primary key, j json);
    insert into partial_json values (1, concat('{\"a\": 1, \"b\": \"', repeat('x', 500), '\"}'));
    set binlog_row_value_options = 'PARTIAL_JSON';
    update partial_json set j = json_set(j, '$.a', 2);
    set binlog_row_image = 'minimal'; update partial_json set id = 2;";

#[test]
fn foreign_tables_are_passed_over_whatever_their_columns_are() {
    for server in Database::all() {
        let mut tap = Tap::on(&server);
        tap.sql("create table t (id int)");
        let own = if server.is_mariadb { OF_MARIADB } else { OF_MYSQL };
        tap.sql(&format!("set names utf8mb4; insert into t values (1); {ON_BOTH} {own}"));
        tap.sql("insert into t values (2)");
        let ids: Vec<_> = tap.rows().iter().map(|row| row.after("id").to_owned()).collect();
        assert_eq!(ids, ["1", "2"]);
    }
}

#[test]
fn foreign_rows_in_the_same_transaction_are_passed_over_too() {
    for server in Database::all() {
        let mut tap = Tap::on(&server);
        tap.sql("create table t (id int); create table other (v varbinary(9), g geometry)");
        tap.sql(
            "begin; insert into other values (x'ff', null); insert into t values (1), (2);
             insert into other values (x'fe', point(1, 1)); insert into t values (3); commit",
        );
        let transactions = tap.transactions();
        assert_eq!(transactions.len(), 1);
        let ids: Vec<_> = transactions[0].rows.iter().map(|row| row.after("id")).collect();
        assert_eq!(ids, ["1", "2", "3"]);
    }
}

/// The servers log the text of each statement beside its rows.
#[test]
fn statements_that_only_read_followed_tables_stop_nothing() {
    for server in Database::all() {
        let mut tap = Tap::on(&server);
        tap.sql(
            "create table t (id int primary key); create table copy (id int);
             create view seen as select id from t; insert into t values (1), (2)",
        );
        let texts = match server.is_mariadb {
            true => "binlog_annotate_row_events",
            false => "binlog_rows_query_log_events",
        };
        tap.sql(&format!(
            "set session {texts} = ON; insert into copy select id from t;
             insert into copy select id from seen; update copy set id = (select max(id) from t);
             delete from copy where id in (select id from t); create table another select id from t;
             insert into t values (3)"
        ));
        let ids: Vec<_> = tap.rows().iter().map(|row| row.after("id").to_owned()).collect();
        assert_eq!(ids, ["1", "2", "3"]);
    }
}

#[test]
fn a_table_of_the_same_name_in_another_database_is_foreign() {
    for server in Database::all() {
        let mut tap = Tap::on(&server);
        let other = Tap::on(&server);
        tap.sql("create table t (id int)");
        other.sql("create table t (id varbinary(9)); insert into t values (x'ff'); truncate t");
        tap.sql("insert into t values (1)");
        assert_eq!(tap.rows().len(), 1);
        let (_, database) = tap.database.url.rsplit_once('/').unwrap();
        other.sql(&format!("truncate table {database}.t"));
        let text = tap.try_transactions().unwrap_err().to_string();
        assert!(text.contains("TRUNCATE") && text.contains("--resnapshot"), "{text}");
    }
}
