//! A database of every earlier version becomes the one of this version.

use devstack::{Flavor, TestServers};
use mysql_store::migrate;

use crate::{
    harness::{execute, number},
    migrating::{BY_THE_DRIVER, fresh},
    old_versions::{old, rows, tables},
    schema::{assert_same, described},
};

testkit::on_each_flavor! {
    every_earlier_version_is_upgraded:
    a_mariadb_of_every_earlier_version_ends_in_the_schema_of_a_fresh_one_and_keeps_its_rows,
    a_mysql_of_every_earlier_version_ends_in_the_schema_of_a_fresh_one_and_keeps_its_rows,
}

async fn every_earlier_version_is_upgraded(flavor: Flavor) {
    let Some(servers) = TestServers::on(flavor) else { return };
    let fresh = fresh(servers.clone()).await;
    let all = &BY_THE_DRIVER.migrations;
    for count in 0..=all.len() {
        let url = servers.scope(&format!("version {count}")).endpoints.database_url;
        let mut connection = old(&url, &all[..count]).await;
        let tables = tables(&mut connection).await;
        let before = rows(&mut connection, &tables).await;
        migrate::run(&url).await.unwrap();
        assert_eq!(rows(&mut connection, &tables).await, before, "version {count}");
        // The one value that a migration computes; 7 is the test's own.
        let computed = "select count(*) from template_stock where queued_epoch <> 7";
        assert_eq!(number(&mut connection, computed).await, 0, "version {count}");
        execute(&mut connection, "delete from merchant where id <> 1").await;
        assert_same(&described(&url).await, &fresh);
    }
}
