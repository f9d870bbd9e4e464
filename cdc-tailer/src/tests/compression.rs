//! Compressed binlogs give the same rows as uncompressed ones.

use super::{servers::Database, tap::Tap};

const TABLES: &str = "create table t (id bigint primary key, text varchar(2000));
    create table elsewhere (id bigint primary key, text varchar(2000), place geometry);";

/// Events of every kind, short and long, of a followed and of a foreign table.
const LOAD: &str = "
    insert into t values (1, repeat('a', 2000)), (2, repeat('b', 1500)), (3, 'short');
    insert into elsewhere values (1, repeat('x', 2000), point(1, 1));
    begin;
        update t set text = repeat('c', 2000) where id = 1;
        savepoint a_long_name_of_a_savepoint;
        insert into t values (4, repeat('d', 1000));
        insert into elsewhere select id + 1, text, place from elsewhere;
        rollback to a_long_name_of_a_savepoint;
        insert into t values (5, '券');
    commit;
    delete from t where id < 3;
    insert into t values (6, '');";

/// Returns table, old id, new id, length of the new text.
fn shapes(tap: &mut Tap) -> Vec<(Option<String>, Option<String>, usize)> {
    let rows = tap.rows();
    let id = |image: &Option<super::row::Image>| image.as_ref().map(|i| i["id"].clone().unwrap());
    let shape = |row: &super::row::Row| {
        let text = row.after.as_ref().map_or(0, |_| row.after("text").len());
        (id(&row.before), id(&row.after), text)
    };
    rows.iter().map(shape).collect()
}

fn expected() -> Vec<(Option<String>, Option<String>, usize)> {
    let some = |id: &str| Some(id.to_owned());
    vec![
        (None, some("1"), 2000),
        (None, some("2"), 1500),
        (None, some("3"), 5),
        (some("1"), some("1"), 2000),
        (None, some("5"), 3),
        (some("1"), None, 0),
        (some("2"), None, 0),
        (None, some("6"), 0),
    ]
}

#[test]
fn events_that_mariadb_compresses_come_out_the_same() {
    let server = Database::compressing_mariadb();
    let mut tap = Tap::on(&server);
    tap.sql(TABLES);
    tap.sql(LOAD);
    assert_eq!(shapes(&mut tap), expected());
    let file = tap.sql("show binary logs");
    let file = file.lines().last().unwrap().split('\t').next().unwrap();
    let events = tap.sql(&format!("show binlog events in '{file}'"));
    for kind in
        ["Write_rows_compressed_v1", "Update_rows_compressed_v1", "Delete_rows_compressed_v1"]
    {
        assert!(events.contains(kind), "the server wrote {kind}");
    }
    // Statements are compressed too, and may be among those that must stop the tailer.
    tap.sql(&format!("set binlog_format = 'statement'; update t set text = '{}'", "x".repeat(300)));
    let text = tap.try_transactions().unwrap_err().to_string();
    assert!(text.contains("binlog_format"), "{text}");
}

#[test]
fn events_that_mysql_compresses_come_out_the_same() {
    for server in Database::all().into_iter().filter(|server| !server.is_mariadb) {
        let mut tap = Tap::on(&server);
        tap.sql(TABLES);
        tap.sql(&format!("set binlog_transaction_compression = on; {LOAD}"));
        assert_eq!(shapes(&mut tap), expected());
        let file = tap.sql("show binary logs");
        let file = file.lines().last().unwrap().split('\t').next().unwrap();
        let events = tap.sql(&format!("show binlog events in '{file}'"));
        assert!(events.contains("Transaction_payload"), "the server compressed");
        // Several zstd blocks, with rows events that cross their borders.
        tap.sql(
            "set binlog_transaction_compression = on; set cte_max_recursion_depth = 100000;
             insert into t with recursive n (i) as (select 100 union all select i + 1 from n where i < 20099)
             select i, sha2(i, 512) from n",
        );
        let ids: Vec<i64> = tap.rows().iter().map(|row| row.after("id").parse().unwrap()).collect();
        assert_eq!(ids, (100..20_100).collect::<Vec<_>>());
    }
}
