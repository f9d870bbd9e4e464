//! Fuzz targets for broker addresses and queued claims, for `fuzz/` and the test that runs its corpus only.

use rdkafka::ClientConfig;

use crate::{PartitionProgress, brokers, decode_claim, decode_payment, encode_claim};

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

/// Decodes the data as a queued claim, as progress and as a payment. Panics only if a decoded message is encoded as a
/// different one.
pub fn claim_message(data: &[u8]) {
    if let Ok(claim) = decode_claim(data) {
        let again = decode_claim(&encode_claim(&claim)).ok();
        assert_eq!(again.as_ref(), Some(&claim), "a claim is not what it was");
    }
    if let Ok(progress) = PartitionProgress::decode(data) {
        let again = PartitionProgress::decode(&progress.encode()).ok();
        let again = again.map(|read| (read.committed, read.end));
        assert_eq!(again, Some((progress.committed, progress.end)), "progress is not what it was");
    }
    if let Ok(payment) = decode_payment(data) {
        let again = decode_payment(&payment.encode()).ok();
        assert_eq!(again.as_ref(), Some(&payment), "a payment is not what it was");
    }
}
