//! Operations that an operator runs by hand: print the position, publish a table again, print changes.
#![expect(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::{
    io::{BufRead as _, BufReader},
    process::{Command, Output, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use topic::{Op, TemplateRow};

use crate::{
    INSERT_TEMPLATE,
    harness::{Harness, coupon},
};

/// Time to wait for a line.
const PATIENCE: Duration = Duration::from_secs(30);

/// Returns a command that runs the program on the test's servers.
fn program(test: &Harness) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cdc-tailer"));
    command
        .args(["--database-url", test.config.database_url.expose()])
        .args(["--topic-prefix", test.names.prefix()]);
    command
}

fn print_position(test: &Harness) -> Output {
    let mut command = program(test);
    command.args(["--kafka-brokers", test.config.kafka_brokers.as_deref().unwrap_or_default()]);
    command.arg("--print-position").output().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_or_all_of_them_are_read_once_more_when_that_is_asked_for() {
    let test = Harness::new("once more").await;
    let tailer = test.start().await;
    test.sql(INSERT_TEMPLATE);
    test.sql(&coupon(1, 1));
    assert_eq!(test.coupon_ids_until(1).await, [1]);
    tailer.stop().await.unwrap();

    let mut asked = test.config.clone();
    asked.resnapshot = Some("user_coupon".to_owned());
    let tailer = test.start_with(asked.clone());
    let ops: Vec<_> = test.coupons(2).await.iter().map(|event| event.op).collect();
    assert_eq!(ops, [Op::Create, Op::Read]);
    test.sql(&coupon(2, 1));
    assert_eq!(test.coupon_ids_until(2).await, [1, 1, 2], "and it goes on");
    tailer.stop().await.unwrap();
    assert_eq!(test.events::<TemplateRow>(&test.names.template(), 1).await.len(), 1);

    asked.resnapshot = Some("all".to_owned());
    let tailer = test.start_with(asked);
    assert_eq!(test.coupon_ids(5).await, [1, 1, 2, 1, 2]);
    let templates = test.events::<TemplateRow>(&test.names.template(), 2).await;
    assert_eq!(templates[1].op, Op::Read);
    tailer.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_prints_changes_as_lines_and_needs_no_broker() {
    let test = Harness::new("dry run").await;
    let mut child = program(&test)
        .arg("--dry-run")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
    });
    // It prints changes from now on: its first line is one of these.
    let began = Instant::now();
    let mut id = 0;
    let line = loop {
        id += 1;
        test.sql(&coupon(id, 1));
        match lines.recv_timeout(Duration::from_millis(100)) {
            Ok(line) => break line,
            Err(_) => assert!(began.elapsed() < PATIENCE, "nothing is printed"),
        }
    };
    let event: topic::Event<topic::UserCouponRow> = topic::decode(line.as_bytes()).unwrap();
    assert_eq!((event.op, event.source.table.as_str()), (Op::Create, "user_coupon"));
    assert!((1..=id).contains(&event.after.unwrap().id));
    child.kill().unwrap();
    child.wait().unwrap();
}

mod full {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn the_position_is_printed_and_where_there_is_none_it_says_so() {
        let test = Harness::new("position").await;
        let none = print_position(&test);
        assert_eq!((none.status.code(), &*none.stdout), (Some(1), &b""[..]));
        let said = String::from_utf8_lossy(&none.stderr);
        assert!(said.contains("checkpoint does not exist"), "no tailer has ever run: {said}");

        let tailer = test.start().await;
        let first = print_position(&test);
        assert!(first.status.success() && !first.stdout.is_empty(), "{first:?}");
        let before = test.checkpoint().await;
        test.sql(&coupon(1, 1));
        test.checkpoint_other_than(&before).await;
        let second = print_position(&test);
        assert!(second.status.success() && second.stdout != first.stdout, "{second:?}");
        assert_eq!(test.coupon_ids_until(1).await, [1], "the tailer was not disturbed");
        tailer.stop().await.unwrap();
    }
}
