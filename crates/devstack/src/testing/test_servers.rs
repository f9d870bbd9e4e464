//! The servers of a test run, shared by all tests. Each test uses names of its own.

use std::iter;

use clap::Parser as _;

use crate::{Endpoints, EnvFile, Flavor, Servers, full_only, not_checked, project_root};

/// Longest part of a database's name that comes from its test's name: MySQL allows 64 characters in all.
const LONGEST_NAME: usize = 40;
/// Random characters after it: enough that no two runs collide on kept data.
const RANDOM_CHARACTERS: usize = 10;

/// Servers that already run: those named by the environment, so that a suite can run on MySQL or external
/// servers; otherwise those of `.dev/test/env` (`./dev servers up`).
#[derive(Clone, Debug)]
pub struct TestServers {
    endpoints: Endpoints,
}

/// A test's own names on shared servers. Nothing exists yet: the test creates the database (with `mysql_store`)
/// and its topics.
#[derive(Clone, Debug)]
pub struct Scope {
    /// The servers; the database's URL names [`Scope::database`].
    pub endpoints: Endpoints,
    pub database: String,
    /// Prefix of every key in both Redis servers.
    pub key_prefix: String,
    /// Prefix of every topic.
    pub topic_prefix: String,
}

impl TestServers {
    /// Returns the servers of this test run.
    ///
    /// # Panics
    /// There are none. The message says how to start them.
    pub fn shared() -> Self {
        let file = project_root().join(".dev/test/env");
        let endpoints = Endpoints::try_parse_from(["test"])
            .ok()
            .or_else(|| EnvFile::read(file).and_then(|file| file.endpoints()).ok());
        match endpoints {
            Some(endpoints) => Self { endpoints },
            None => panic!(
                "no test servers: run `./dev test`, or `./dev servers up` once and then cargo test"
            ),
        }
    }

    /// The line of `.dev/test/env` with the URL of the MySQL that all tests share.
    pub const MYSQL_URL: &str = "MYSQL_DATABASE_URL";

    /// Returns the servers of this test run with this database server. `None` if MySQL is not installed, which it
    /// reports.
    ///
    /// # Panics
    /// As [`TestServers::shared`], or the quick tier has no MySQL.
    pub fn on(flavor: Flavor) -> Option<Self> {
        let mut shared = Self::shared();
        if flavor == Flavor::Mysql {
            full_only("runs on MySQL");
            let file = EnvFile::read(project_root().join(".dev/test/env")).ok();
            let Some(url) = file.as_ref().and_then(|file| file.get(Self::MYSQL_URL).ok()) else {
                not_checked("tests on MySQL, which ops/install-mysql.sh installs");
                return None;
            };
            url.clone_into(&mut shared.endpoints.database_url);
        }
        Some(shared)
    }

    /// Servers of a single test, which may stop and kill them.
    pub fn private(servers: &Servers) -> Self {
        Self { endpoints: servers.endpoints() }
    }

    /// Servers at these addresses.
    pub fn at(endpoints: Endpoints) -> Self {
        Self { endpoints }
    }

    /// Replaces the database server.
    #[must_use]
    pub fn with_database(mut self, url: &str) -> Self {
        url.clone_into(&mut self.endpoints.database_url);
        self
    }

    /// Replaces the view's Redis.
    #[must_use]
    pub fn with_view(mut self, url: &str) -> Self {
        url.clone_into(&mut self.endpoints.view_redis_url);
        self
    }

    /// Replaces the gate's Redis.
    #[must_use]
    pub fn with_gate(mut self, url: &str) -> Self {
        url.clone_into(&mut self.endpoints.gate_redis_url);
        self
    }

    pub fn endpoints(&self) -> &Endpoints {
        &self.endpoints
    }

    /// Returns unique names for one test; `name` makes them readable.
    pub fn scope(&self, name: &str) -> Scope {
        let readable = name.chars().filter(char::is_ascii_alphanumeric).take(LONGEST_NAME);
        let random = iter::repeat_with(|| fastrand::char('a'..='z')).take(RANDOM_CHARACTERS);
        let own: String = readable.chain(['_']).chain(random).collect();
        let database = format!("t_{}", own.to_ascii_lowercase());
        Scope {
            endpoints: self.endpoints.with_database(&database),
            key_prefix: format!("{database}:"),
            topic_prefix: database.clone(),
            database,
        }
    }
}

impl Scope {
    /// Replaces the broker by one of the test's own.
    #[must_use]
    pub fn with_broker(mut self, brokers: &str) -> Self {
        brokers.clone_into(&mut self.endpoints.kafka_brokers);
        self
    }

    /// Command line of a process on these servers; `options` are those that the process has.
    ///
    /// # Panics
    /// There is no such option.
    pub fn arguments(&self, program: &str, options: &[&str]) -> Vec<String> {
        let mut arguments = vec![program.to_owned()];
        for option in options {
            let value = match *option {
                "--database-url" => &self.endpoints.database_url,
                "--gate-redis-url" => &self.endpoints.gate_redis_url,
                "--view-redis-url" => &self.endpoints.view_redis_url,
                "--kafka-brokers" => &self.endpoints.kafka_brokers,
                "--key-prefix" => &self.key_prefix,
                "--topic-prefix" => &self.topic_prefix,
                other => panic!("a scope has no {other}"),
            };
            arguments.extend([(*option).to_owned(), value.clone()]);
        }
        arguments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_scopes_of_one_name_share_nothing() {
        let endpoints = Endpoints {
            database_url: "mysql://u:p@h:1/coupon".to_owned(),
            gate_redis_url: String::new(),
            view_redis_url: String::new(),
            kafka_brokers: String::new(),
        };
        let servers = TestServers { endpoints };
        let one = servers.scope("Kill -9 of each");
        let other = servers.scope("Kill -9 of each");
        assert_ne!(one.database, other.database);
        assert_eq!(one.endpoints.database(), one.database);
        assert!(one.database.starts_with("t_kill9ofeach_"));
    }
}
