//! Gzip for answers that never change: they are packed once, for clients that accept it.

use std::io::{self, Write as _};

use axum::http::{HeaderMap, header};
use flate2::{Compression, write::GzEncoder};

/// Packs with the best compression, since it is done once.
///
/// # Errors
/// Memory is exhausted.
pub(crate) fn gzip(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::best());
    packer.write_all(bytes)?;
    packer.finish()
}

/// Returns whether a client accepts gzip (RFC 9110, 12.5.3): `gzip` or `*` is named with a weight above 0. A client
/// that names nothing may be old, or a person with curl.
pub(crate) fn takes_gzip(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(header::ACCEPT_ENCODING).iter();
    let codings = lines.filter_map(|line| line.to_str().ok()).flat_map(|line| line.split(','));
    let weights = codings.filter_map(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default().to_ascii_lowercase();
        let is_named = matches!(name.as_str(), "gzip" | "x-gzip");
        let weight = parts.find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")));
        let takes =
            weight.is_none_or(|weight| weight.parse().is_ok_and(|weight: f32| weight > 0.0));
        (is_named || name == "*").then_some((is_named, takes))
    });
    // The weight of gzip itself, or else that of `*`.
    weights.max_by_key(|(is_named, _)| *is_named).is_some_and(|(_, takes)| takes)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use axum::http::HeaderValue;
    use flate2::read::GzDecoder;

    use super::*;

    #[test]
    fn a_packed_body_unpacks_to_the_same_bytes() {
        let text = "coupon ".repeat(1_000);
        let packed = gzip(text.as_bytes()).unwrap();
        assert!(packed.len() * 10 < text.len());
        let mut unpacked = String::new();
        GzDecoder::new(packed.as_slice()).read_to_string(&mut unpacked).unwrap();
        assert_eq!(unpacked, text);
    }

    #[test]
    fn gzip_is_for_clients_that_accept_it() {
        let takes = |lines: &[&'static str]| {
            let line =
                |line: &&'static str| (header::ACCEPT_ENCODING, HeaderValue::from_static(line));
            takes_gzip(&lines.iter().map(line).collect())
        };
        for lines in
            [&["gzip"][..], &["br, GZIP;q=0.5"], &["*"], &["identity", "gzip"], &["x-gzip"]]
        {
            assert!(takes(lines), "{lines:?}");
        }
        for lines in [&[][..], &["identity"], &["gzip;q=0, *"], &["*;q=0"], &["br"], &["gzip;q=x"]]
        {
            assert!(!takes(lines), "{lines:?}");
        }
    }
}
