//! Which alterations of a followed table leave its rows as they are, on real servers: each harmless one is tried with
//! rows in the table, and each other one is noticed.

use super::{servers::Database, tap::Tap};

const TABLE: &str = "create table t (id int primary key, a decimal(8,3) default 1.239, b varchar(20) not null, key i (b),
    constraint k check (id < 99));
    insert into t values (1, 1.239, 'x'), (2, 2.5, 'y'), (3, null, '')";

const PARTITIONED: &str =
    "create table t (id int primary key, a decimal(8,3), b varchar(20) not null, key i (b))
    partition by range (id) (partition p0 values less than (2), partition p1 values less than (9));
    insert into t values (1, 1.239, 'x'), (2, 2.5, 'y'), (3, null, '')";

const HARMLESS: [&str; 25] = [
    "add column c int not null default 7 first",
    "add c int, add d varchar(9) default 'x' after a",
    "add (c int, d int)",
    "add column c int generated always as (id + 1) stored",
    "add index c (a), add key d (b, a)",
    "add unique key c (id, b)",
    "add fulltext index c (b)",
    "add constraint c check (id > 0)",
    "add constraint c foreign key (id) references other (id)",
    "drop key i, add key i (b, id)",
    "add constraint c check (id > 0), drop index i",
    "rename index i to j",
    "alter column a set default 9, alter b set default 'x'",
    "alter a drop default",
    "comment = 'rename to old', auto_increment = 50",
    "engine = InnoDB, force",
    "row_format = dynamic",
    "row_format = compressed key_block_size = 8",
    "stats_persistent = 1, stats_auto_recalc = 0, stats_sample_pages = 9",
    "default character set utf8mb4 collate utf8mb4_bin",
    "charset = utf8mb4",
    "add column c int, algorithm = instant",
    "add key c (a), algorithm = inplace, lock = none",
    "disable keys",
    "partition by hash (id) partitions 3",
];

const HARMLESS_TO_PARTITIONS: [&str; 8] = [
    "add partition (partition p2 values less than maxvalue)",
    "reorganize partition p0, p1 into (partition p values less than (10))",
    "rebuild partition p0, p1",
    "analyze partition p0",
    "check partition p1",
    "optimize partition p0",
    "remove partitioning",
    "partition by hash (id) partitions 2",
];

const HARMLESS_ON_MARIADB: [&str; 5] = [
    "wait 5 add column c int",
    "nowait add column if not exists c int",
    "alter index i ignored",
    "drop constraint if exists k",
    "add column c int invisible",
];

const HARMLESS_ON_MYSQL: [&str; 5] = [
    "alter index i invisible",
    "alter check k not enforced",
    "drop check k",
    "add constraint c check (id > 0) not enforced, alter column a set invisible",
    "add constraint c unique (id, a)",
];

const REWRITING: [&str; 12] = [
    "drop column a, add column a decimal(8,3) default 9",
    "drop column a",
    "modify a decimal(8,1)",
    "modify a int",
    "modify b varchar(30) not null",
    "change a c decimal(8,3)",
    "rename column a to c",
    "convert to character set utf8mb3",
    "order by b",
    "drop primary key, add primary key (id, b)",
    "add column c int auto_increment unique, drop column a",
    "checksum = 1",
];

/// Runs an alteration on a new table of these rows. Returns whether it is noticed, and asserts that the rows are what
/// they were if it is not.
fn is_noticed(server: &Database, table: &str, alteration: &str) -> bool {
    let mut tap = Tap::on(server);
    tap.sql("create table other (id int primary key); insert into other values (1), (2), (3)");
    tap.sql(table);
    let rows = |tap: &Tap| tap.sql("select id, a, b from t order by id");
    let before = rows(&tap);
    tap.sql(&format!("alter table t {alteration}"));
    let committed = tap.transactions();
    assert_eq!(committed.iter().map(|one| one.rows.len()).sum::<usize>(), 3, "{alteration}");
    let is_noticed = !tap.rewrites.is_empty();
    if !is_noticed {
        assert_eq!(rows(&tap), before, "{alteration}");
    }
    is_noticed
}

fn noticed<'a>(server: &Database, table: &str, alterations: &[&'a str]) -> Vec<&'a str> {
    alterations.iter().copied().filter(|it| is_noticed(server, table, it)).collect()
}

mod full {
    use super::*;

    #[test]
    fn an_alteration_that_is_passed_over_leaves_each_row_as_it_is() {
        for server in Database::all() {
            let own = if server.is_mariadb { &HARMLESS_ON_MARIADB[..] } else { &HARMLESS_ON_MYSQL };
            assert!(noticed(&server, TABLE, &HARMLESS).is_empty());
            assert!(noticed(&server, TABLE, own).is_empty());
            assert!(noticed(&server, PARTITIONED, &HARMLESS_TO_PARTITIONS).is_empty());
        }
    }

    #[test]
    fn an_alteration_that_may_change_values_is_noticed() {
        for server in Database::all() {
            assert_eq!(noticed(&server, TABLE, &REWRITING), REWRITING);
        }
    }
}
