//! The servers of these tests.

use std::{
    io::Write as _,
    process::{Command, Stdio},
    sync::OnceLock,
};

use devstack::{Certificates, Flavor, OwnDatabase, TestServers, if_installed};

/// A database server and what its family is.
#[derive(Debug, Clone)]
pub(super) struct Database {
    pub(super) url: String,
    pub(super) is_mariadb: bool,
}

impl Database {
    /// Every server that tests run on: that of this test run, and MySQL where it is installed.
    pub(super) fn all() -> Vec<Self> {
        let shared = Self::at(&TestServers::shared().endpoints().database_url);
        let mysql = if shared.is_mariadb { Self::mysql() } else { None };
        [shared].into_iter().chain(mysql).collect()
    }

    fn at(url: &str) -> Self {
        let version = run(url, "select version()");
        Self { url: url.to_owned(), is_mariadb: version.contains("MariaDB") }
    }

    /// A MySQL that all tests of this process share.
    fn mysql() -> Option<Self> {
        static MYSQL: OnceLock<Option<OwnDatabase>> = OnceLock::new();
        let server = MYSQL.get_or_init(|| start("tailer-mysql", Flavor::Mysql, &[]));
        server.as_ref().map(|server| Self { url: server.url(), is_mariadb: false })
    }

    /// Servers with certificates, at 127.0.0.1 and at 127.0.0.2, which these do not name; shared likewise.
    pub(super) fn with_tls() -> Vec<Self> {
        static SERVERS: OnceLock<Vec<(OwnDatabase, bool)>> = OnceLock::new();
        let servers = SERVERS.get_or_init(|| {
            let by = certificates();
            let settings = [
                format!("--ssl-ca={}", by.ca()),
                format!("--ssl-cert={}", by.certificate()),
                format!("--ssl-key={}", by.key()),
                "--bind-address=127.0.0.1,127.0.0.2".to_owned(),
            ];
            let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
            let mariadb = start("tailer-tls-mariadb", Flavor::Mariadb, &settings);
            let mysql = start("tailer-tls-mysql", Flavor::Mysql, &settings);
            let all = [(mariadb, true), (mysql, false)].into_iter();
            all.filter_map(|(server, is_mariadb)| Some((server?, is_mariadb))).collect()
        });
        let of = |(server, is_mariadb): &(OwnDatabase, bool)| Self {
            url: server.url(),
            is_mariadb: *is_mariadb,
        };
        servers.iter().map(of).collect()
    }

    /// A MariaDB that compresses whatever it can, shared likewise.
    pub(super) fn compressing_mariadb() -> Self {
        static MARIADB: OnceLock<Option<OwnDatabase>> = OnceLock::new();
        let settings = ["--log-bin-compress=ON", "--log-bin-compress-min-len=10"];
        let server = MARIADB.get_or_init(|| start("tailer-mariadb", Flavor::Mariadb, &settings));
        Self { url: server.as_ref().unwrap().url(), is_mariadb: true }
    }

    /// The same server, with a database of its own for one test.
    pub(super) fn with(&self, database: &str) -> Self {
        run(&self.url, &format!("create database {database} character set utf8mb4"));
        let (server, _) = self.url.rsplit_once('/').unwrap();
        Self { url: format!("{server}/{database}"), ..self.clone() }
    }

    /// Runs statements in one session; returns what they print.
    pub(super) fn sql(&self, text: &str) -> String {
        run(&self.url, text)
    }
}

/// Those of the servers with TLS.
pub(super) fn certificates() -> &'static Certificates {
    static OWN: OnceLock<Certificates> = OnceLock::new();
    OWN.get_or_init(|| Certificates::make("tailer-tls-ca").unwrap())
}

/// Those of nobody.
pub(super) fn foreign_certificates() -> &'static Certificates {
    static OTHER: OnceLock<Certificates> = OnceLock::new();
    OTHER.get_or_init(|| Certificates::make("tailer-tls-other-ca").unwrap())
}

/// `None`: MySQL is not installed, which is said where it is seen.
fn start(name: &'static str, flavor: Flavor, settings: &[&str]) -> Option<OwnDatabase> {
    let settings: Vec<_> = settings.iter().map(|setting| (*setting).to_owned()).collect();
    // Its own runtime: the server outlives that of the test that asks first.
    let started = std::thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        runtime.block_on(OwnDatabase::start(name, flavor, &settings))
    });
    if_installed(started.join().unwrap(), "the way from the binlog to cells")
}

fn run(url: &str, text: &str) -> String {
    let rest = url.strip_prefix("mysql://").unwrap();
    let (login, rest) = rest.split_once('@').unwrap();
    let (user, password) = login.split_once(':').unwrap();
    let (host, rest) = rest.split_once(':').unwrap();
    let (port, database) = rest.split_once('/').unwrap();
    let mut client = Command::new("mariadb")
        .args(["--default-character-set=utf8mb4", "-NBr", "-h", host, "-P", port, "-u", user])
        .args([&format!("-p{password}"), database])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    client.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = client.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}{}", &text[..text.len().min(500)]);
    String::from_utf8(output.stdout).unwrap()
}
