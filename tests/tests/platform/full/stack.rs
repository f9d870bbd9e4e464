//! `devstack up --flavor mysql`: a whole platform on a MySQL, which keeps running after the command.

use std::{
    env, fs,
    panic::AssertUnwindSafe,
    path::{Path, PathBuf},
    process::Output,
};

use chrono::TimeDelta;
use coupon::UserId;
use devstack::{EnvFile, not_checked, project_root};
use futures::FutureExt as _;
use pipeline_tests::until;
use runtime::Clock;
use shopper::{Api, NewTemplate};
use tokio::process::Command;

/// Named in the error of a machine without MySQL.
const INSTALLER: &str = "install-mysql.sh";

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
    let env = EnvFile::read(env_file).unwrap();
    let [url, secret, key] =
        ["API_URL", "JWT_SECRET", "OPERATOR_KEY"].map(|name| env.get(name).unwrap().to_owned());
    let clock = Clock::system();
    let now = clock.now();
    let api = Api::new(&url, &secret, &key, clock).unwrap();
    let new = NewTemplate::simple("A sale", 10, now, TimeDelta::hours(1));
    let template = api.publish_new(&new).await.unwrap().id;
    let shopper = api.shopper(UserId(1)).unwrap();
    assert_eq!(shopper.claim(template, None, 1).await.unwrap().status, 201);
    until(async || shopper.all_coupons().await.unwrap().len(), |listed| *listed == 1).await;
}
