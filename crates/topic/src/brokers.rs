//! Parses the broker list, optionally with TLS.
//!
//! Without TLS: `host:port,host:port`. With TLS: `ssl://host:port,host:port?ssl-ca=/etc/coupon/ca.pem`. A broker's
//! certificate must be signed by a trusted CA and match the host that the broker advertises. The options have the same
//! names as in MySQL and Redis addresses: `ssl-ca` (PEM file of the CA; default: the system's CAs), `ssl-cert` and
//! `ssl-key` (files of the client's certificate and its key, for brokers that ask for one).

use rdkafka::ClientConfig;

/// Prefix of an address that uses TLS.
const TLS: &str = "ssl://";

/// Returns whether an address uses TLS.
pub(crate) fn are_by_tls(brokers: &str) -> bool {
    brokers.starts_with(TLS)
}

/// Applies an address to `config`. The client rejects invalid options, naming the option as it was written.
pub(crate) fn set(config: &mut ClientConfig, brokers: &str) {
    let Some(address) = brokers.strip_prefix(TLS) else {
        config.set("bootstrap.servers", brokers);
        return;
    };
    let (servers, query) = address.split_once('?').unwrap_or((address, ""));
    config.set("bootstrap.servers", servers).set("security.protocol", "ssl");
    // The library's defaults, set explicitly because TLS protects nothing without them.
    config.set("enable.ssl.certificate.verification", "true");
    config.set("ssl.endpoint.identification.algorithm", "https");
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        match &*name {
            "ssl-ca" => config.set("ssl.ca.location", value),
            "ssl-cert" => config.set("ssl.certificate.location", value),
            "ssl-key" => config.set("ssl.key.location", value),
            unknown => config.set(format!("{unknown} (an option of KAFKA_BROKERS)"), value),
        };
    }
}

#[cfg(test)]
mod tests {
    use rdkafka::{config::FromClientConfig, producer::BaseProducer};

    use super::*;

    fn config(brokers: &str) -> ClientConfig {
        let mut config = ClientConfig::new();
        set(&mut config, brokers);
        config
    }

    #[test]
    fn an_address_without_tls_is_passed_on_unchanged() {
        let config = config("a:1,b:2");
        assert_eq!(config.get("bootstrap.servers"), Some("a:1,b:2"));
        assert_eq!(config.get("security.protocol"), None);
    }

    #[test]
    fn an_address_with_tls_names_places_and_certificates() {
        let config = config("ssl://a:1,b:2?ssl-ca=/etc/a%20ca.pem&ssl-cert=/c&ssl-key=/k");
        let get = |name| config.get(name).unwrap();
        assert_eq!((get("bootstrap.servers"), get("security.protocol")), ("a:1,b:2", "ssl"));
        assert_eq!(get("ssl.ca.location"), "/etc/a ca.pem");
        assert_eq!((get("ssl.certificate.location"), get("ssl.key.location")), ("/c", "/k"));
    }

    #[test]
    fn a_wrong_option_is_refused_by_name() {
        for (address, word) in [
            ("ssl://a:1?tls-ca=/a", "tls-ca (an option of KAFKA_BROKERS)"),
            ("ssl://a:1?enable.ssl.certificate.verification=false", "KAFKA_BROKERS"),
            ("ssl://a:1?ssl-ca=/not/there.pem", "ssl.ca.location"),
        ] {
            let error = BaseProducer::from_config(&config(address)).err().unwrap().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
