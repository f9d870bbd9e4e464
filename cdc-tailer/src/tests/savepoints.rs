//! ROLLBACK TO undoes rows even if the server logs them, because a non-transactional table was involved.

use super::{servers::Database, tap::Tap};

/// `{}` stands for a statement that makes the server log rolled-back rows too, or for nothing.
const LOAD: &str = "
    begin;
        insert into t values (1);
        savepoint Place;
        {}
        insert into t values (2);
        savepoint PLACE;
        insert into t values (3);
        rollback to place;
        insert into t values (4);
        savepoint `odd ``name`;
        insert into t values (5);
        rollback to `ODD ``NAME`;
        insert into t values (6);
    commit;";

#[test]
fn savepoints_are_those_of_the_server_whatever_their_names_case() {
    for server in Database::all() {
        let mut tap = Tap::on(&server);
        tap.sql(
            "create table t (id int primary key); create table elsewhere (id int) engine = myisam;",
        );
        // MySQL rejects the mixture if GTIDs are enabled.
        let involved = if server.is_mariadb { "insert into elsewhere values (1);" } else { "" };
        tap.sql(&LOAD.replace("{}", involved));
        let held = tap.sql("select id from t order by id");
        let rows = tap.rows();
        let received: Vec<&str> = rows.iter().map(|row| row.after("id")).collect();
        assert_eq!(received, held.lines().collect::<Vec<_>>());
        assert_eq!(received, ["1", "2", "4", "6"]);
    }
}
