//! Fuzz target for broker addresses, for `fuzz/` and the test that runs its corpus only.

use rdkafka::ClientConfig;

use crate::brokers;

/// Parses an address of brokers. Panics only if TLS is requested but not fully checked, or is used without a request.
pub fn brokers_address(data: &[u8]) {
    let Ok(address) = str::from_utf8(data) else { return };
    let mut config = ClientConfig::new();
    brokers::set(&mut config, address);
    assert!(config.get("bootstrap.servers").is_some(), "no brokers");
    if brokers::are_by_tls(address) {
        for (name, value) in [
            ("security.protocol", "ssl"),
            ("enable.ssl.certificate.verification", "true"),
            ("ssl.endpoint.identification.algorithm", "https"),
        ] {
            assert_eq!(config.get(name), Some(value), "{name} of {address:?}");
        }
    } else {
        assert_eq!(config.get("security.protocol"), None, "{address:?}");
    }
}
