//! Starts and stops real servers, which all other tests depend on.
#![expect(clippy::unwrap_used, reason = "in a test it is the failure")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use devstack::{Options, Servers, project_root};

/// Longest wait for something the kernel does at once.
const AT_ONCE: Duration = Duration::from_secs(10);

/// A folder of one test, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = project_root().join(".dev/devstack-tests").join(name);
        drop(fs::remove_dir_all(&path));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

fn sql(port: u16, statement: &str) -> String {
    let output = Command::new("mariadb")
        .args(["--no-defaults", "--batch", "--skip-column-names", "-h127.0.0.1"])
        .args(["-ucoupon", "-pcoupon", "coupon", &format!("-P{port}"), "-e", statement])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn redis(port: u16, arguments: &[&str]) -> String {
    let output =
        Command::new("redis-cli").args(["-p", &port.to_string()]).args(arguments).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Whether a process with this pid exists and is not a zombie.
fn lives(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

#[tokio::test]
async fn servers_die_with_an_owner_that_is_killed() {
    let folder = Folder::new("owner");
    let mut owner = Command::new(env!("CARGO_BIN_EXE_devstack"))
        .args(["servers", "run", "--dir"])
        .arg(&folder.0)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // One line once all of them are ready: name=pid, separated by blanks.
    let mut line = String::new();
    BufReader::new(owner.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let pids: Vec<i32> =
        line.split_whitespace().filter_map(|word| word.split_once('=')?.1.parse().ok()).collect();
    assert_eq!(pids.len(), 4, "{line}");
    assert!(pids.iter().all(|&pid| lives(pid)));
    owner.kill().unwrap();
    owner.wait().unwrap();
    let gone = async {
        while pids.iter().any(|&pid| lives(pid)) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(AT_ONCE, gone).await.expect("servers outlived their owner");
}

#[test]
fn detached_servers_are_found_again_and_ended() {
    let folder = Folder::new("detached");
    let run = |verb: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_devstack"))
            .args(["servers", verb, "--dir"])
            .arg(&folder.0)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    run("up");
    assert_eq!(recorded(&folder.0).len(), 4);
    assert!(run("up").contains("run already"));
    assert!(run("down").contains("kafka, mariadb, redis-gate, redis-view"));
    assert!(recorded(&folder.0).is_empty());
    assert!(run("down").contains("nothing ran"));
}

fn recorded(folder: &Path) -> Vec<String> {
    devstack::records::running(folder).unwrap()
}

mod full {
    use super::*;

    #[tokio::test]
    async fn servers_answer_survive_faults_and_keep_their_data_and_ports() {
        let folder = Folder::new("whole");
        let mut servers = Servers::start(&folder.0, &Options::default()).await.unwrap();
        let truth = servers.database.address().port();
        let gate = servers.gate.address().port();
        assert_eq!(
            sql(
                truth,
                "select @@binlog_format, @@binlog_row_image, @@binlog_row_metadata, @@time_zone"
            ),
            "ROW\tFULL\tFULL\t+00:00"
        );
        sql(truth, "create table kept (id bigint primary key); insert into kept values (7)");
        redis(gate, &["set", "kept", "7"]);
        let view = servers.view.address().port();
        assert!(redis(view, &["config", "get", "maxmemory-policy"]).ends_with("allkeys-lru"));

        servers.database.kill().unwrap();
        assert!(!servers.database.is_ready().await);
        servers.database.start().await.unwrap();
        assert_eq!(servers.database.address().port(), truth);

        servers.gate.pause().unwrap();
        assert!(!servers.gate.is_ready().await);
        servers.gate.resume().unwrap();
        servers.gate.ready().await.unwrap();

        servers.kafka.kill().unwrap();
        servers.kafka.start().await.unwrap();

        servers.stop().await.unwrap();
        assert_eq!(servers.gate.pause().unwrap_err().to_string(), "redis-gate is not running");
        assert!(servers.gate.stop().await.unwrap().is_none());
        servers.database.start().await.unwrap();
        servers.gate.start().await.unwrap();
        assert_eq!(sql(truth, "select id from kept"), "7");
        assert_eq!(redis(gate, &["get", "kept"]), "7");
    }

    #[tokio::test]
    async fn a_server_that_cannot_start_is_quoted_with_the_way_out() {
        let folder = Folder::new("wrong");
        let options = Options {
            database_arguments: vec!["--no-such-setting=1".to_owned()],
            ..Options::default()
        };
        let error = Servers::start(&folder.0, &options).await.unwrap_err().to_string();
        assert!(error.contains("mariadb ended with"), "{error}");
        assert!(error.contains("no-such-setting"), "{error}");
    }
}
