//! The files of the binlog: one is missing between two others, and a new one begins.

use std::fs;

use devstack::Flavor;
use pipeline_tests::{tail::log, until};
use testkit::until_true;

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
    // It goes on with the server's next run, as one that is never without it.
    tail.tailer().pause().unwrap();
    let dumps = "select group_concat('kill ', id separator '; ') from information_schema.processlist \
                 where command like 'Binlog Dump%'";
    tail.sql(&tail.sql(dumps));
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
    tail.tailer().resume().unwrap();

    tail.insert(401..=410);
    tail.until_complete().await;
    tail.assert_complete().await;
    let log = log(tail.tailer());
    // The head of the next file says it, or, where the tailer was paused for longer, that nobody saw the server's run.
    let reasons = ["a file is missing between", "may have run without its binlog"];
    assert!(reasons.iter().any(|reason| log.contains(reason)), "{log}");
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
    without_binlog:
    what_a_server_commits_without_its_binlog_is_made_good_by_a_snapshot,
    what_a_mysql_commits_without_its_binlog_is_made_good_by_a_snapshot,
}

/// The server runs without its binlog: once while a tailer looks, once while none does. Nothing in the files shows it.
async fn without_binlog(flavor: Flavor) {
    let Some(mut own) = start("no-binlog-server", flavor, &[]).await else { return };
    let mut tail = tail_on(&own).await;
    tail.lead().await;
    tail.insert(1..=100);
    tail.until_complete().await;
    for round in 1..=2 {
        let first = round * 1_000;
        if round == 2 {
            assert!(tail.tailer().stop().await.unwrap().unwrap().success());
        }
        own.server.stop().await.unwrap();
        own.server.add_argument("--skip-log-bin");
        own.server.start().await.unwrap();
        tail.insert(first..=first + 99);
        if round == 1 {
            // The one that was following ends, and so does each one that starts.
            until(async || tail.platform.cdc_tailer.is_running(), |runs| !runs).await;
            for _ in 0..2 {
                tail.tailer().start().await.unwrap_err();
                let log = log(tail.tailer());
                assert!(log.contains("writes no binlog") && log.contains("--resnapshot"), "{log}");
            }
        }
        own.server.stop().await.unwrap();
        own.server.add_argument("--log-bin=binlog");
        own.server.start().await.unwrap();
        tail.insert(first + 100..=first + 109);
        tail.lead().await;
        tail.insert(first + 200..=first + 209);
        tail.until_complete().await;
        tail.assert_complete().await;
        let log = log(tail.tailer());
        assert!(log.contains("may have run without its binlog"), "{log}");
    }

    // What each file says of the run that began it is known from then on.
    assert!(tail.tailer().stop().await.unwrap().unwrap().success());
    let read = read_by_snapshots(&tail).await;
    tail.next_binlog_file();
    tail.lead().await;
    tail.insert(5_000..=5_009);
    tail.until_complete().await;
    assert_eq!(read_by_snapshots(&tail).await, read);
    // So is a start that a tailer has followed, although nothing is committed behind it.
    own.server.stop().await.unwrap();
    own.server.start().await.unwrap();
    let files = tail.sql("show binary logs");
    let newest = files.lines().last().unwrap().split('\t').next().unwrap();
    let followed = format!(r#""followed":"{newest}""#);
    let is_known = async || {
        let checkpoints = tail.messages(&tail.names.checkpoint()).await;
        let last = checkpoints.last().and_then(|last| last.payload.clone()).unwrap_or_default();
        String::from_utf8(last).unwrap().contains(&followed)
    };
    until_true(is_known).await;
    assert!(tail.tailer().stop().await.unwrap().unwrap().success());
    tail.lead().await;
    tail.insert(6_000..=6_009);
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
