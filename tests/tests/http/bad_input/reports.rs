//! Invalid requests for reports and time series.

use reqwest::Method;

use super::{Case, NOTHING, Targets, case};

pub(super) fn cases(targets: &Targets) -> Vec<Case> {
    let ask = |path: &str| targets.api.operator(Method::GET, path);
    let mut cases = Vec::new();
    for what in ["report", "timeseries"] {
        let one = format!("/v1/templates/{}/{what}", targets.one);
        let nothing = format!("/v1/templates/{NOTHING}/{what}");
        cases.push(case(&format!("{what} of nothing"), ask(&nothing), 404, "TEMPLATE_NOT_FOUND"));
        let no_id = format!("/v1/templates/-1/{what}");
        cases.push(case(&format!("{what} of no id"), ask(&no_id), 404, "NOT_FOUND"));
        for (query, status, code) in [
            ("from=yesterday", 400, "MALFORMED_QUERY"),
            ("to=", 400, "MALFORMED_QUERY"),
            ("since=2026-11-27T08:00:00Z", 400, "MALFORMED_QUERY"),
            ("from=2026-11-27T08:00:00Z&to=2026-11-27T08:00:00Z", 422, "INVALID_SPAN"),
            ("from=2026-11-27T08:00:00Z&to=2029-11-27T08:00:00Z", 422, "INVALID_SPAN"),
            ("to=1970-01-01T00:00:00Z", 422, "INVALID_SPAN"),
        ] {
            let request = ask(&format!("{one}?{query}"));
            cases.push(case(&format!("{query} of a {what}"), request, status, code));
        }
        let nobody = targets.api.anonymous(Method::GET, &one);
        cases.push(case(&format!("{what} by nobody"), nobody, 401, "UNAUTHENTICATED"));
        let shopper = targets.attacker.request(Method::GET, &one);
        cases.push(case(&format!("{what} by a shopper"), shopper, 401, "UNAUTHENTICATED"));
    }
    let one = format!("/v1/templates/{}/timeseries", targets.one);
    for (query, status, code) in [
        ("step=0", 422, "INVALID_SPAN"),
        ("step=-60", 422, "INVALID_SPAN"),
        ("step=86401", 422, "INVALID_SPAN"),
        ("step=1m", 400, "MALFORMED_QUERY"),
        ("from=2026-11-20T08:00:00Z&to=2026-11-21T08:00:00Z&step=1", 422, "INVALID_SPAN"),
    ] {
        let request = ask(&format!("{one}?{query}"));
        cases.push(case(&format!("{query} of a time series"), request, status, code));
    }
    let path = format!("/v1/templates/{}/report?step=60", targets.one);
    cases.push(case("a report by steps", ask(&path), 400, "MALFORMED_QUERY"));
    cases
}
