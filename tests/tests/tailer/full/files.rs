//! The files of the binlog: one is missing between two others, and a new one begins.

use std::fs;

use devstack::Flavor;
use pipeline_tests::{tail::log, until};

use crate::tailer::full::servers::{read_by_snapshots, start, tail_on};

testkit::on_each_flavor! {
    missing_between:
    a_binlog_file_that_is_missing_between_two_others_is_made_good_by_a_snapshot,
    a_binlog_file_of_mysql_that_is_missing_between_two_others_is_made_good_by_a_snapshot,
}

async fn missing_between(flavor: Flavor) {
    let Some(mut own) = start("gap-server", flavor, &[]).await else { return };
    let mut tail = tail_on(&own).await;
    tail.lead().await;
    tail.insert(1..=100);
    tail.until_complete().await;
    assert!(tail.tailer().stop().await.unwrap().unwrap().success());
    let lost = tail.next_binlog_file();
    tail.insert(101..=200);
    tail.next_binlog_file();
    tail.insert(201..=300);
    let index = tail.sql("select @@log_bin_index").trim().to_owned();
    own.server.stop().await.unwrap();
    let files = fs::read_to_string(&index).unwrap();
    let kept: Vec<&str> = files.lines().filter(|name| !name.ends_with(&lost)).collect();
    assert_eq!(kept.len() + 1, files.lines().count(), "{lost} of {files}");
    fs::write(&index, kept.join("\n") + "\n").unwrap();
    own.server.start().await.unwrap();
    tail.insert(301..=400);

    tail.lead().await;
    tail.insert(401..=410);
    tail.until_complete().await;
    tail.assert_complete().await;
    let log = log(tail.tailer());
    assert!(log.contains("a file is missing between"), "{log}");
    let read = read_by_snapshots(&tail).await;
    assert!(read >= 400, "{read} of 400 rows were read");

    // From then on the history is whole.
    assert!(tail.tailer().stop().await.unwrap().unwrap().success());
    tail.next_binlog_file();
    tail.insert(501..=510);
    tail.lead().await;
    tail.until_complete().await;
    assert_eq!(read_by_snapshots(&tail).await, read);
    tail.end();
}

testkit::on_each_flavor! {
    begun_anew:
    behind_a_new_binlog_file_without_a_transaction_there_is_no_lag,
    behind_a_new_binlog_file_of_mysql_without_a_transaction_there_is_no_lag,
}

/// The last transaction is in the file before.
async fn begun_anew(flavor: Flavor) {
    let Some(own) = start("new-file-server", flavor, &[]).await else { return };
    let mut tail = tail_on(&own).await;
    tail.lead().await;
    tail.insert(1..=100);
    tail.until_complete().await;
    // Stopped, so that it sees no list of files without the new one.
    assert!(tail.tailer().stop().await.unwrap().unwrap().success());
    tail.next_binlog_file();
    tail.lead().await;
    let status = async || tail.platform.cdc_tailer.answer("/status").await.unwrap_or_default();
    until(status, |text| text.contains(r#""lag_bytes":0"#)).await;
    assert_eq!(tail.platform.cdc_tailer.metric("cdc_tailer_lag_bytes").await, Some(0.0));
    tail.end();
}
