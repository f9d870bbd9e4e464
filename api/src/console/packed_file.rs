//! A file of the console as it is sent: compressed for every browser, and not again to one that has it.

use axum::{
    body::Bytes,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use sha2::{Digest as _, Sha256};

use crate::http::{etag, packed};

/// Bytes of the digest that make a tag: enough that no two contents share one.
const TAG_BYTES: usize = 16;

/// A file, compressed and not. The bytes differ, so their entity tags do too.
pub(super) struct PackedFile {
    kind: HeaderValue,
    plain: Tagged,
    /// `None`: it could not be packed.
    gzip: Option<Tagged>,
}

struct Tagged {
    bytes: Bytes,
    tag: HeaderValue,
}

impl PackedFile {
    pub(super) fn of(name: &str, bytes: Bytes) -> Self {
        let gzip = packed::gzip(&bytes).ok();
        let gzip = gzip.map(|gzip| Tagged::of(gzip.into()));
        Self { kind: HeaderValue::from_static(kind(name)), plain: Tagged::of(bytes), gzip }
    }

    pub(super) fn answer(&self, headers: &HeaderMap) -> Response {
        let gzip = self.gzip.as_ref().filter(|_| packed::takes_gzip(headers));
        let Tagged { bytes, tag } = gzip.unwrap_or(&self.plain);
        let tags = [(header::ETAG, tag.clone())];
        if etag::is_known(headers, tag.to_str().unwrap_or_default()) {
            return (StatusCode::NOT_MODIFIED, tags).into_response();
        }
        let kind = [(header::CONTENT_TYPE, self.kind.clone())];
        let mut answer = (tags, kind, bytes.clone()).into_response();
        if gzip.is_some() {
            let coding = HeaderValue::from_static("gzip");
            answer.headers_mut().insert(header::CONTENT_ENCODING, coding);
        }
        answer
    }

    /// Bytes that a browser receives.
    #[cfg(test)]
    pub(super) fn sent_bytes(&self) -> usize {
        self.gzip.as_ref().unwrap_or(&self.plain).bytes.len()
    }
}

impl Tagged {
    fn of(bytes: Bytes) -> Self {
        let digest = Sha256::digest(&bytes);
        let tag: String = digest.iter().take(TAG_BYTES).map(|byte| format!("{byte:02x}")).collect();
        let tag = HeaderValue::from_str(&format!("\"{tag}\""));
        Self { bytes, tag: tag.unwrap_or_else(|_| HeaderValue::from_static("\"file\"")) }
    }
}

/// Returns the media type of a file, by its name.
fn kind(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, ending)| ending) {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("json") => "application/json",
        Some("svg") => "image/svg+xml",
        _ => "text/plain; charset=utf-8",
    }
}
