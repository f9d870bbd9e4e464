//! Addresses of a stack's servers.

use clap::Parser;

/// The server addresses that every process of the platform takes, named by environment variables.
#[derive(Clone, Debug, PartialEq, Eq, Parser)]
pub struct Endpoints {
    /// URL of the MariaDB or MySQL database: `mysql://user:password@host:port/database`.
    #[arg(long, env = "DATABASE_URL")]
    pub database_url: String,
    /// URL of the gate's Redis: `redis://host:port`.
    #[arg(long, env = "GATE_REDIS_URL")]
    pub gate_redis_url: String,
    /// URL of the view's Redis: `redis://host:port`.
    #[arg(long, env = "VIEW_REDIS_URL")]
    pub view_redis_url: String,
    /// Kafka brokers: `host:port`, separated by commas.
    #[arg(long, env = "KAFKA_BROKERS")]
    pub kafka_brokers: String,
}

impl Endpoints {
    /// Returns the same servers with another database.
    pub fn with_database(&self, database: &str) -> Self {
        Self { database_url: self.url_of_database(database), ..self.clone() }
    }

    /// Returns the URL of another database on the same server.
    pub fn url_of_database(&self, database: &str) -> String {
        let (address, query) = match self.database_url.split_once('?') {
            Some((address, query)) => (address, format!("?{query}")),
            None => (self.database_url.as_str(), String::new()),
        };
        let authority = address.find("://").map_or(0, |at| at + "://".len());
        let server = match address[authority..].find('/') {
            Some(slash) => &address[..authority + slash],
            None => address,
        };
        format!("{server}/{database}{query}")
    }

    /// Returns the database named in the URL, or an empty string.
    pub fn database(&self) -> &str {
        let address = self.database_url.split('?').next().unwrap_or_default();
        address.splitn(4, '/').nth(3).unwrap_or_default()
    }

    /// Returns the addresses as environment variables.
    pub fn variables(&self) -> [(&'static str, &str); 4] {
        [
            ("DATABASE_URL", &self.database_url),
            ("GATE_REDIS_URL", &self.gate_redis_url),
            ("VIEW_REDIS_URL", &self.view_redis_url),
            ("KAFKA_BROKERS", &self.kafka_brokers),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(database_url: &str) -> Endpoints {
        Endpoints {
            database_url: database_url.to_owned(),
            gate_redis_url: String::new(),
            view_redis_url: String::new(),
            kafka_brokers: String::new(),
        }
    }

    #[test]
    fn another_database_keeps_server_user_and_options() {
        assert_eq!(at("mysql://u:p@h:1/a").url_of_database("b"), "mysql://u:p@h:1/b");
        assert_eq!(at("mysql://u:p@h:1").url_of_database("b"), "mysql://u:p@h:1/b");
        assert_eq!(at("mysql://u:p@h:1/a?x=y").url_of_database("b"), "mysql://u:p@h:1/b?x=y");
    }

    #[test]
    fn the_database_follows_the_server_in_the_address() {
        assert_eq!(at("mysql://u:p@h:1/a?x=y").database(), "a");
        assert_eq!(at("mysql://u:p@h:1").database(), "");
    }
}
