//! Database servers of these tests.

use std::sync::OnceLock;

use devstack::{Certificates, Flavor, OwnDatabase, TestServers, if_installed};
use testkit::{client, session};

/// A database server and its family.
#[derive(Debug, Clone)]
pub(super) struct Database {
    pub(super) url: String,
    pub(super) is_mariadb: bool,
}

impl Database {
    /// Returns every server that tests run on: the shared one, and MySQL if it is installed.
    pub(super) fn all() -> Vec<Self> {
        let shared = Self::at(&TestServers::shared().endpoints().database_url);
        let mysql = if shared.is_mariadb { Self::mysql() } else { None };
        [shared].into_iter().chain(mysql).collect()
    }

    fn at(url: &str) -> Self {
        let version = run(url, "select version()");
        Self { url: url.to_owned(), is_mariadb: version.contains("MariaDB") }
    }

    /// Returns a MySQL shared by all tests of this process.
    fn mysql() -> Option<Self> {
        static MYSQL: OnceLock<Option<OwnDatabase>> = OnceLock::new();
        let server = MYSQL.get_or_init(|| start("tailer-mysql", Flavor::Mysql, &[]));
        server.as_ref().map(|server| Self { url: server.url(), is_mariadb: false })
    }

    /// Returns servers with TLS certificates, listening on 127.0.0.1 and on 127.0.0.2, which the certificates do not
    /// name. Shared by all tests of this process.
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

    /// Returns a MariaDB that compresses everything it can. Shared by all tests of this process.
    pub(super) fn compressing_mariadb() -> Self {
        static MARIADB: OnceLock<Option<OwnDatabase>> = OnceLock::new();
        let settings = ["--log-bin-compress=ON", "--log-bin-compress-min-len=10"];
        let server = MARIADB.get_or_init(|| start("tailer-mariadb", Flavor::Mariadb, &settings));
        Self { url: server.as_ref().unwrap().url(), is_mariadb: true }
    }

    /// Creates a database for one test on the same server.
    pub(super) fn with(&self, database: &str) -> Self {
        run(&self.url, &format!("create database {database} character set utf8mb4"));
        let (server, _) = self.url.rsplit_once('/').unwrap();
        Self { url: format!("{server}/{database}"), ..self.clone() }
    }

    /// Runs statements in one session; returns their output.
    pub(super) fn sql(&self, text: &str) -> String {
        run(&self.url, text)
    }
}

/// Returns the certificates of the servers with TLS.
pub(super) fn certificates() -> &'static Certificates {
    static OWN: OnceLock<Certificates> = OnceLock::new();
    OWN.get_or_init(|| Certificates::make("tailer-tls-ca").unwrap())
}

/// Returns certificates that no server uses.
pub(super) fn foreign_certificates() -> &'static Certificates {
    static OTHER: OnceLock<Certificates> = OnceLock::new();
    OTHER.get_or_init(|| Certificates::make("tailer-tls-other-ca").unwrap())
}

/// Starts a server; `None` if MySQL is not installed, which `if_installed` reports.
fn start(name: &'static str, flavor: Flavor, settings: &[&str]) -> Option<OwnDatabase> {
    let settings: Vec<_> = settings.iter().map(|setting| (*setting).to_owned()).collect();
    // In its own runtime: the server outlives the runtime of the first test that uses it.
    let started = std::thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        runtime.block_on(OwnDatabase::start(name, flavor, &settings))
    });
    if_installed(started.join().unwrap(), "the way from the binlog to cells")
}

/// Runs statements in one session; returns their output with tabs and line breaks as they are.
fn run(url: &str, text: &str) -> String {
    session(client(url).arg("--raw"), text)
        .unwrap_or_else(|errors| panic!("{errors} in: {text:.500}"))
}
