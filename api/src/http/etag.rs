//! Versions as entity tags: `ETag` on every answer that is a template, `If-Match` on requests that change one (RFC
//! 9110, 8.8.3 and 13.1.1), `If-None-Match` where an answer need not be sent again (13.1.2).

use axum::{
    Json,
    http::{HeaderMap, HeaderValue, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;

use crate::{code::Code, problem::Problem};

/// An answer and its version, which is sent as `ETag`.
pub(crate) struct Tagged<T> {
    pub(crate) version: i64,
    pub(crate) body: T,
}

/// The versions that a client is willing to change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum IfMatch {
    /// The header was not sent.
    Absent,
    /// `*`: any version that exists.
    Any,
    /// One of these. Weak tags and tags that we never gave match nothing, so they are left out.
    Versions(Vec<i64>),
}

impl<T: Serialize> IntoResponse for Tagged<T> {
    fn into_response(self) -> Response {
        let mut response = Json(self.body).into_response();
        if let Ok(tag) = HeaderValue::from_str(&format!("\"{}\"", self.version)) {
            response.headers_mut().insert(header::ETAG, tag);
        }
        response
    }
}

impl IfMatch {
    /// Parses the header. Several headers are one list.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, Problem> {
        let mut lines = Vec::new();
        for value in headers.get_all(header::IF_MATCH) {
            lines.push(value.to_str().map_err(|_| malformed())?.trim());
        }
        match lines.as_slice() {
            [] => Ok(Self::Absent),
            ["*"] => Ok(Self::Any),
            lines => versions(&lines.join(",")).map(Self::Versions).ok_or_else(malformed),
        }
    }

    pub(crate) fn is_given(&self) -> bool {
        *self != Self::Absent
    }

    /// Returns whether an object of this version may be changed.
    pub(crate) fn admits(&self, version: i64) -> bool {
        match self {
            Self::Absent | Self::Any => true,
            Self::Versions(versions) => versions.contains(&version),
        }
    }

    /// Returns whether exactly this version is named.
    pub(crate) fn names(&self, version: i64) -> bool {
        matches!(self, Self::Versions(versions) if versions.contains(&version))
    }

    /// Rejects a change of an object whose version does not match.
    pub(crate) fn check(&self, version: i64) -> Result<(), Problem> {
        if self.admits(version) {
            return Ok(());
        }
        let detail = format!("The template is of version {version}. Look at it and decide again.");
        let problem = Problem::new(Code::PreconditionFailed, detail);
        Err(problem.with("version", version))
    }
}

/// Returns whether `If-None-Match` names this tag, by weak comparison (RFC 9110, 8.8.3.2).
pub(crate) fn is_known(headers: &HeaderMap, etag: &str) -> bool {
    fn opaque(tag: &str) -> &str {
        tag.strip_prefix("W/").unwrap_or(tag)
    }
    let lines = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|line| line.to_str().ok());
    lines
        .flat_map(|tags| tags.split(',').map(str::trim))
        .any(|tag| tag == "*" || opaque(tag) == opaque(etag))
}

fn malformed() -> Problem {
    let detail = "Send `If-Match` with the `ETag` of the template, or several, or `*`.";
    Problem::new(Code::IfMatchInvalid, detail)
}

/// Returns the versions in a list of entity tags, or `None` if it is not such a list. Empty elements are ignored.
fn versions(list: &str) -> Option<Vec<i64>> {
    let mut versions = Vec::new();
    let mut tags = 0;
    let mut rest = list;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        if rest.is_empty() {
            return (tags > 0).then_some(versions);
        }
        let weak = rest.strip_prefix("W/");
        let (opaque, after) = weak.unwrap_or(rest).strip_prefix('"')?.split_once('"')?;
        if !opaque.bytes().all(|byte| byte.is_ascii_graphic()) {
            return None;
        }
        // Accept only our own spelling: no sign and no leading zeros.
        let version: Option<i64> = opaque.parse().ok().filter(|it: &i64| it.to_string() == opaque);
        if weak.is_none() {
            versions.extend(version);
        }
        tags += 1;
        rest = after.trim_start_matches([' ', '\t']);
        if !rest.is_empty() && !rest.starts_with(',') {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lines: &[&'static str]) -> Option<IfMatch> {
        let line = |line: &&'static str| (header::IF_MATCH, HeaderValue::from_static(line));
        let mut headers = HeaderMap::new();
        for (name, value) in lines.iter().map(line) {
            headers.append(name, value);
        }
        IfMatch::of(&headers).ok()
    }

    #[test]
    fn a_list_of_tags_admits_the_versions_that_it_names() {
        let named = |versions: &[i64]| Some(IfMatch::Versions(versions.to_vec()));
        assert_eq!(of(&[]), Some(IfMatch::Absent));
        assert_eq!(of(&["*"]), Some(IfMatch::Any));
        assert_eq!(of(&["\"2\""]), named(&[2]));
        assert_eq!(of(&["\"2\", \"3\"", "\"5\""]), named(&[2, 3, 5]));
        assert_eq!(of(&[",\"2\" ,, \"3\","]), named(&[2, 3]));
        assert_eq!(of(&["\"a,b\", \"7\""]), named(&[7]));
    }

    #[test]
    fn weak_tags_and_those_that_we_never_gave_match_nothing() {
        for none in ["W/\"2\"", "\"\"", "\"+2\"", "\"02\"", "\"2 \"", "\"two\""] {
            let if_match = of(&[none]);
            // A tag cannot contain a space.
            assert_eq!(if_match, (none != "\"2 \"").then_some(IfMatch::Versions(vec![])), "{none}");
        }
        let weak_among_others = of(&["W/\"2\", \"3\""]).unwrap();
        assert!(!weak_among_others.admits(2) && weak_among_others.admits(3));
        assert!(IfMatch::Any.admits(2) && !IfMatch::Any.names(2));
    }

    #[test]
    fn a_tag_is_known_in_a_list_weak_or_strong_and_by_a_star() {
        let known = |value: &'static str| {
            let headers =
                HeaderMap::from_iter([(header::IF_NONE_MATCH, HeaderValue::from_static(value))]);
            is_known(&headers, "W/\"2.Open.7\"")
        };
        assert!(known("W/\"2.Open.7\"") && known("\"2.Open.7\"") && known("*"));
        assert!(known("\"other\", W/\"2.Open.7\""));
        assert!(!known("W/\"2.Open.8\"") && !known("2.Open.7") && !known(""));
        assert!(!is_known(&HeaderMap::new(), "W/\"2.Open.7\""));
    }

    #[test]
    fn a_header_that_is_no_list_of_tags_is_refused() {
        for wrong in ["", " , ", "2", "\"2", "2\"", "\"2\" \"3\"", "\"2\",*", "w/\"2\""] {
            assert_eq!(of(&[wrong]), None, "{wrong}");
        }
        assert_eq!(of(&["*", "*"]), None);
    }
}
