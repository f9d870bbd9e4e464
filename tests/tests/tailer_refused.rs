//! What a tailer cannot work with: it ends with exit code 1 and a sentence that says what to do.

use std::time::Duration;

use devstack::{Error, Flavor, OwnDatabase, Process, TestServers, not_checked};
use pipeline_tests::{
    tail::{Tail, log, until_leading},
    until,
};

/// How long a refusal may take on a busy machine.
const ENDS_WITHIN: Duration = Duration::from_secs(60);

#[tokio::test]
async fn an_address_that_cannot_work_ends_with_a_sentence() {
    let tail = Tail::on_shared_servers("address").await;
    let url = &tail.scope.endpoints.database_url;
    let without_password = url.replacen(":coupon@", "@", 1);
    let cases = [
        (
            format!("{url}?ssl-mode=required"),
            "asks for TLS, which the binlog connection does not have",
        ),
        (without_password, "DATABASE_URL has no password"),
        (url.replacen(":coupon@", ":wrong@", 1), "Access denied"),
        (tail.scope.endpoints.url_of_database(""), "names no database"),
    ];
    for (number, (url, sentence)) in (1..).zip(cases) {
        let mut tailer = tail.platform.another_tailer(&format!("refused-{number}")).unwrap();
        tailer.set_env("DATABASE_URL", &url);
        assert_refused(&mut tailer, sentence).await;
    }
    tail.end();
}

#[tokio::test]
async fn wrong_settings_and_grants_are_refused_with_the_statement_that_mends_them() {
    let own = OwnDatabase::start("settings", Flavor::Mariadb, &[]).await.unwrap();
    let mut scope = TestServers::shared().scope("settings");
    scope.endpoints.database_url = own.url();
    let mut tail = Tail::prepare(scope, |options| options).await;
    let settings = [
        ("binlog_format", "STATEMENT", "ROW"),
        ("binlog_row_image", "MINIMAL", "FULL"),
        ("binlog_row_metadata", "NO_LOG", "FULL"),
    ];
    for (variable, wrong, right) in settings {
        tail.sql(&format!("set global {variable} = '{wrong}'"));
        let mut tailer = tail.platform.another_tailer(variable).unwrap();
        assert_refused(&mut tailer, &format!("set global {variable} = '{right}'")).await;
        tail.sql(&format!("set global {variable} = '{right}'"));
    }
    tail.sql("create user reader@'%' identified by 'secret'; grant select on *.* to reader@'%'");
    let url = own.url().replacen("coupon:coupon@", "reader:secret@", 1);
    tail.tailer().set_env("DATABASE_URL", &url);
    let grant = "grant select, replication slave, replication client on *.*";
    assert_refused(tail.tailer(), grant).await;
    tail.sql(&format!("{grant} to reader@'%'"));
    tail.tailer().start().await.unwrap();
    until_leading(tail.tailer()).await;
    tail.insert(1..=1);
    let bytes = async || tail.platform.cdc_tailer.metric("cdc_tailer_lag_bytes").await;
    until(bytes, |bytes| *bytes == Some(0.0)).await;
    tail.end();
}

#[tokio::test]
async fn a_mysql_without_gtids_is_refused_with_the_statements_that_mend_it() {
    let own = match OwnDatabase::start("no-gtids", Flavor::Mysql, &["--gtid-mode=OFF"]).await {
        Ok(own) => own,
        Err(error @ Error::NotInstalled { .. }) => {
            return not_checked(&format!("that a MySQL without GTIDs is refused: {error}"));
        }
        Err(error) => panic!("{error}"),
    };
    let mut scope = TestServers::shared().scope("nogtids");
    scope.endpoints.database_url = own.url();
    let mut tail = Tail::prepare(scope, |options| options).await;
    let mend = "set global enforce_gtid_consistency = ON; set global gtid_mode = OFF_PERMISSIVE; \
                set global gtid_mode = ON_PERMISSIVE; set global gtid_mode = ON";
    assert_refused(tail.tailer(), mend).await;
    tail.insert(1..=10);
    tail.sql(mend);
    tail.tailer().start().await.unwrap();
    until_leading(tail.tailer()).await;
    tail.insert(11..=20);
    tail.until_complete().await;
    tail.assert_complete().await;
    tail.end();
}

#[tokio::test]
async fn two_tailers_with_one_server_id_do_not_throw_each_other_off_for_ever() {
    let mut tails =
        [Tail::on_shared_servers("oneid").await, Tail::on_shared_servers("sameid").await];
    let server_id = fastrand::u32(1_000..=2_000_000_000).to_string();
    for tail in &mut tails {
        tail.tailer().set_env("SERVER_ID", &server_id);
        tail.tailer().spawn().unwrap();
    }
    let [one, other] = &mut tails;
    let ended = async || (!one.tailer().is_running(), !other.tailer().is_running());
    let (one_ended, _) = until(ended, |(one, other)| *one || *other).await;
    let (ended, survivor) = if one_ended { (one, other) } else { (other, one) };
    assert_ended(ended.tailer(), "give one of the two another SERVER_ID").await;
    survivor.insert(1..=10);
    survivor.until_complete().await;
    for tail in tails {
        tail.end();
    }
}

/// Started, it ends by itself.
async fn assert_refused(tailer: &mut Process, sentence: &str) {
    tailer.spawn().unwrap();
    assert_ended(tailer, sentence).await;
}

/// It ends by itself, with exit code 1, and says the sentence.
async fn assert_ended(tailer: &mut Process, sentence: &str) {
    let status = tailer.wait_exit(ENDS_WITHIN).await.unwrap();
    let log = log(tailer);
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains(sentence), "not in the log: {sentence}\n{log}");
}
