//! docs/getting-started.md, run line by line by a shell on a stack of its own: what a newcomer copies works as it
//! stands.

use std::{fmt::Write as _, fs, panic::AssertUnwindSafe};

use devstack::{EnvFile, project_root};
use futures::FutureExt as _;
use mysql_store::{connect, verify};
use tokio::process::Command;

use super::stack::{Stack, program};

/// The page sends this many users in a loop; a few show the same.
const CROWD: (&str, &str) = ("seq 1000 1300", "seq 1000 1009");

/// Claims of the page with that crowd: user 42, the crowd, and user 2000, whose claim is queued.
const LANDED: i64 = 12;

#[tokio::test]
async fn the_getting_started_page_runs_as_it_is_written() {
    let stack = Stack::new("getting-started");
    stack.wipe().await;
    let up = stack.run(&["up"]).await;
    assert!(up.status.success(), "{}", String::from_utf8_lossy(&up.stderr));
    // Whatever fails from here on, the stack is ended before the test does.
    let walked = AssertUnwindSafe(walk(&stack)).catch_unwind().await;
    stack.run(&["down", "--wipe"]).await;
    walked.unwrap();
}

async fn walk(stack: &Stack) {
    let files = stack.dir.join("page");
    fs::create_dir_all(&files).unwrap();
    let page = fs::read_to_string(project_root().join("docs/getting-started.md")).unwrap();
    let script = files.join("page.sh");
    fs::write(&script, adapted(&commands(&page), stack, &files.display().to_string())).unwrap();
    let said = Command::new("bash")
        .arg(&script)
        .current_dir(project_root())
        .kill_on_drop(true)
        .output()
        .await
        .unwrap();
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.status.success(), "{text}\n{}", String::from_utf8_lossy(&said.stderr));
    for expected in [
        "HTTP/1.1 201 Created",
        r#""code":"LIMIT_REACHED""#,
        r#""discount":500,"left_to_pay":4500"#,
        r#""rolled_back_at""#,
        r#""code":"PAUSED""#,
        "HTTP/1.1 202 Accepted",
        "revenue         €45.00",
        "id,user_id,number",
        r#""state":"paused""#,
    ] {
        assert!(text.contains(expected), "the page shows no {expected}:\n{text}");
    }
    assert!(!text.contains("BROKEN"), "{text}");
    let env = EnvFile::read(&stack.env_file).unwrap();
    let mut connection = connect::single(env.get("DATABASE_URL").unwrap()).await.unwrap();
    let number = async |sql: &str, connection: &mut _| verify::number(connection, sql).await;
    let landed = number("select count(*) from claim where state = 1", &mut connection).await;
    assert_eq!(landed.unwrap(), LANDED);
    let used = "select count(*) from user_coupon where status = 1 and order_ref = 'order-2'";
    assert_eq!(number(used, &mut connection).await.unwrap(), 1);
    let ended = "select count(*) from coupon_template where state = 3";
    assert_eq!(number(ended, &mut connection).await.unwrap(), 1);
}

/// Returns the page's shell blocks, without the first and the last: they start and end the stack.
fn commands(page: &str) -> String {
    let blocks: Vec<&str> =
        page.split("```sh\n").skip(1).filter_map(|part| part.split("```").next()).collect();
    let [first, middle @ .., last] = blocks.as_slice() else { panic!("{blocks:?}") };
    assert!(first.starts_with("./dev up") && last.starts_with("./dev down"), "{first}\n{last}");
    middle.concat()
}

/// Points the commands at the test's own stack and programs, and answers what would be asked at a terminal.
fn adapted(commands: &str, stack: &Stack, files: &str) -> String {
    let env_file = stack.env_file.display();
    let mut script = String::from("set -euo pipefail\n");
    writeln!(script, "set -a; . '{env_file}'; set +a").unwrap();
    let devstack = program("devstack");
    let commands = commands
        .replace(".dev/", &format!("{files}/"))
        .replace("./dev token", &format!("'{}' token --env-file '{env_file}'", devstack.display()))
        .replace("./dev verify", &format!("'{}'", program("verify").display()))
        .replace("target/debug/coupon template end", "COUPON template end --yes")
        .replace("target/debug/coupon", "COUPON")
        .replace("COUPON template", &format!("'{}' template", program("coupon").display()))
        .replace(CROWD.0, CROWD.1);
    assert!(!commands.contains("./dev"), "a command of the page is not known here:\n{commands}");
    script + &commands
}
