//! What the console is made of: sessions in place of keys, the live figures of sales, its calls; and what moves it, a rehearsal.

/// The full tier: CONTRIBUTING.md, "Two tiers".
mod full {
    mod browser;
    mod outage;
    mod queue;
}
mod calls;
mod live;
mod rehearsal;
mod sessions;

use reqwest::{Method, RequestBuilder};
use serde_json::Value;
use shopper::{Answer, Api};

/// Where sessions begin and end.
const SESSION: &str = "/v1/console/session";

/// A browser that is signed in, as far as the api sees it.
struct Browser {
    /// What it sends as `Cookie`.
    cookie: String,
    /// The session, as the api told it.
    session: Value,
}

impl Browser {
    /// Signs in by an operator's key.
    async fn sign_in(operator: &Api) -> Self {
        let answer = operator.send(operator.operator(Method::POST, SESSION)).await.unwrap();
        assert_eq!(answer.status, 201, "{answer:?}");
        let line = answer.header("set-cookie").unwrap();
        let (cookie, attributes) = line.split_once("; ").unwrap();
        assert_eq!(attributes, "Path=/; HttpOnly; SameSite=Strict; Max-Age=43200", "{line}");
        Self { cookie: cookie.to_owned(), session: answer.json().unwrap() }
    }

    fn csrf_token(&self) -> &str {
        self.session["csrf_token"].as_str().unwrap()
    }

    /// A request that only has the cookie.
    fn bare(&self, api: &Api, method: Method, path: &str) -> RequestBuilder {
        api.anonymous(method, path).header("cookie", &self.cookie)
    }

    /// A request of the console's own page.
    fn ask(&self, api: &Api, method: Method, path: &str) -> RequestBuilder {
        let request = self.bare(api, method, path).header("x-csrf-token", self.csrf_token());
        request.header("sec-fetch-site", "same-origin")
    }

    async fn get(&self, api: &Api, path: &str) -> Answer {
        api.send(self.ask(api, Method::GET, path)).await.unwrap()
    }
}

/// Status and code of a refusal.
fn refused(answer: &Answer) -> (u16, String) {
    (answer.status, answer.code().unwrap_or_default())
}
