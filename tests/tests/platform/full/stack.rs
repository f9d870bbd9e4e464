//! `devstack up`: a whole platform, on a MySQL or with a replica, which keeps running after the command.

use std::{
    env, fs,
    panic::AssertUnwindSafe,
    path::{Path, PathBuf},
    process::Output,
    time::Duration,
};

use chrono::TimeDelta;
use coupon::{TemplateId, UserId};
use devstack::{EnvFile, not_checked, project_root};
use futures::FutureExt as _;
use pipeline_tests::{until, until_within};
use runtime::Clock;
use shopper::{Answer, Api, NewTemplate};
use testkit::sql;
use tokio::process::Command;

/// Named in the error of a machine without MySQL.
const INSTALLER: &str = "install-mysql.sh";

/// How long a gate may stay closed behind a failover.
const OPEN_WITHIN: Duration = Duration::from_secs(30);

/// A stack in a folder of its own.
pub(super) struct Stack {
    pub(super) dir: PathBuf,
    pub(super) env_file: PathBuf,
}

/// Path of a program of this build.
pub(super) fn program(name: &str) -> PathBuf {
    env::current_exe().unwrap().ancestors().nth(2).unwrap().join(name)
}

impl Stack {
    pub(super) fn new(name: &str) -> Self {
        let dir = project_root().join(".dev/test").join(name);
        Self { env_file: dir.with_extension("env"), dir }
    }

    /// Ends what a run that was killed has left.
    pub(super) async fn wipe(&self) {
        if self.dir.exists() {
            self.run(&["down", "--wipe"]).await;
        }
        fs::create_dir_all(self.dir.parent().unwrap()).unwrap();
    }

    /// Runs a command of `devstack` on it.
    pub(super) async fn run(&self, words: &[&str]) -> Output {
        let mut command = Command::new(program("devstack"));
        command.current_dir(project_root()).args(words);
        command.arg("--dir").arg(&self.dir).arg("--env-file").arg(&self.env_file);
        command.output().await.unwrap()
    }
}

#[tokio::test]
async fn a_stack_on_a_mysql_keeps_running_and_takes_a_claim() {
    let stack = Stack::new("stack-on-mysql");
    stack.wipe().await;
    let up = stack.run(&["up", "--flavor", "mysql"]).await;
    let said = String::from_utf8_lossy(&up.stderr).into_owned();
    if !up.status.success() && said.contains(INSTALLER) {
        not_checked(&format!("a stack on a MySQL: {said}"));
        return;
    }
    assert!(up.status.success(), "{said}");
    // Whatever fails from here on, the stack is ended before the test does.
    let used = AssertUnwindSafe(claimed_and_listed(&stack.env_file)).catch_unwind().await;
    let again = stack.run(&["up"]).await;
    let down = stack.run(&["down", "--wipe"]).await;
    used.unwrap();
    let again = String::from_utf8_lossy(&again.stdout).into_owned();
    assert!(again.contains("runs already"), "the folder's data decide: {again}");
    assert!(down.status.success(), "{}", String::from_utf8_lossy(&down.stderr));
    assert!(!stack.env_file.exists() && !stack.dir.join("mysql").exists(), "it left its data");
}

async fn claimed_and_listed(env_file: &Path) {
    let api = api_of(env_file);
    let template = published(&api).await;
    let shopper = api.shopper(UserId(1)).unwrap();
    assert_eq!(shopper.claim(template, None, 1).await.unwrap().status, 201);
    until(async || shopper.all_coupons().await.unwrap().len(), |listed| *listed == 1).await;
}

#[tokio::test]
async fn a_stack_with_a_replica_goes_on_behind_a_failover() {
    let stack = Stack::new("stack-with-a-replica");
    stack.wipe().await;
    said(&stack.run(&["up", "--replica"]).await);
    // Whatever fails from here on, the stack is ended before the test does.
    let used = AssertUnwindSafe(failed_over(&stack)).catch_unwind().await;
    let down = stack.run(&["down", "--wipe"]).await;
    used.unwrap();
    said(&down);
    assert!(!stack.env_file.exists() && !stack.dir.join("mariadb").exists(), "it left its data");
}

/// The platform's processes are those that ran before, with the addresses that they had.
async fn failed_over(stack: &Stack) {
    let again = said(&stack.run(&["up", "--replica", "semi-sync"]).await);
    assert!(again.contains("runs already"), "{again}");
    let api = api_of(&stack.env_file);
    let template = published(&api).await;
    assert_eq!(claim(&api, template, 1).await.status, 201);

    let promoted = said(&stack.run(&["failover"]).await);
    assert!(promoted.contains("killed the primary"), "{promoted}");
    let behind = claim(&api, template, 2).await;
    assert_eq!(behind.status, 201, "{behind:?}");
    for user in [1, 2] {
        let shopper = api.shopper(UserId(user)).unwrap();
        let listed = async || shopper.all_coupons().await.map_or(0, |list| list.len());
        until(listed, |listed| *listed == 1).await;
    }
    let url = EnvFile::read(&stack.env_file).unwrap().get("DATABASE_URL").unwrap().to_owned();
    let noticed = "select failovers from primary_server";
    until(async || sql(&url, noticed), |failovers| failovers.trim() == "1").await;
    assert_eq!(coupons(&url), 2);

    assert_refused(stack, "`./dev up --replica` gives it one").await;

    // The promoted server's data are the stack's from now on, and a new replica follows it.
    said(&stack.run(&["down"]).await);
    said(&stack.run(&["up", "--replica", "async"]).await);
    let url = EnvFile::read(&stack.env_file).unwrap().get("DATABASE_URL").unwrap().to_owned();
    assert_eq!(coupons(&url), 2);
    assert_eq!(sql(&url, noticed).trim(), "1", "the server is the same");
    said(&stack.run(&["down"]).await);
    assert_refused(stack, "`./dev up` starts all of the stack").await;
}

/// Asserts that a failover is refused with the way out.
async fn assert_refused(stack: &Stack, way_out: &str) {
    let refused = stack.run(&["failover"]).await;
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{why}");
    assert!(why.contains(way_out), "{why}");
}

/// Claims one coupon until there is a definite answer.
async fn claim(api: &Api, template: TemplateId, user: i64) -> Answer {
    let shopper = api.shopper(UserId(user)).unwrap();
    let claim = async || shopper.claim(template, Some("the-key"), 1).await;
    let is_heard =
        |answer: &Result<Answer, _>| matches!(answer, Ok(answer) if !answer.is_passing());
    until_within(OPEN_WITHIN, claim, is_heard).await.unwrap()
}

fn coupons(database_url: &str) -> i64 {
    sql(database_url, "select count(*) from user_coupon").trim().parse().unwrap()
}

/// Returns what a command that succeeded printed.
fn said(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn api_of(env_file: &Path) -> Api {
    let env = EnvFile::read(env_file).unwrap();
    let [url, secret, key] =
        ["API_URL", "JWT_SECRET", "OPERATOR_KEY"].map(|name| env.get(name).unwrap().to_owned());
    Api::new(&url, &secret, &key, Clock::system()).unwrap()
}

async fn published(api: &Api) -> TemplateId {
    let new = NewTemplate::simple("A sale", 10, Clock::system().now(), TimeDelta::hours(1));
    api.publish_new(&new).await.unwrap().id
}
