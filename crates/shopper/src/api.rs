//! [`Api`]: a client of one api process with an operator's key, from which users' clients are made.

use std::sync::Arc;

use chrono::TimeDelta;
use coupon::{TemplateId, UserId};
use http_body_util::Full;
use hyper::{Request, body::Bytes};
use jsonwebtoken::EncodingKey;
use reqwest::{Client, Method, RequestBuilder};
use runtime::Clock;
use serde::de::DeserializeOwned;

use crate::{
    Answer, NewTemplate, ShopperError, Stock, Template,
    lines::{ANSWER_MAX, CONNECT_MAX, Lines},
};

/// A client of an api process. Clones share its connections.
#[derive(Clone)]
pub struct Api {
    inner: Arc<Inner>,
}

struct Inner {
    client: Client,
    lines: Lines,
    base_url: String,
    signing_key: EncodingKey,
    operator_key: String,
    clock: Clock,
}

impl Api {
    /// Creates a client of the api at `base_url`, e.g. `http://127.0.0.1:8080`; connects on first use.
    ///
    /// # Errors
    /// The HTTP client cannot be set up.
    pub fn new(
        base_url: &str,
        jwt_secret: &str,
        operator_key: &str,
        clock: Clock,
    ) -> Result<Self, ShopperError> {
        let client = Client::builder()
            .http1_only()
            .tcp_nodelay(true)
            .no_proxy()
            .connect_timeout(CONNECT_MAX)
            .timeout(ANSWER_MAX)
            .build()
            .map_err(ShopperError::Client)?;
        let inner = Inner {
            client,
            lines: Lines::new(base_url),
            base_url: base_url.trim_end_matches('/').to_owned(),
            signing_key: EncodingKey::from_secret(jwt_secret.as_bytes()),
            operator_key: operator_key.to_owned(),
            clock,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The clock for tokens and histories.
    pub fn clock(&self) -> &Clock {
        &self.inner.clock
    }

    /// Signs a token of a user.
    pub(crate) fn token(&self, user: UserId, life: TimeDelta) -> Result<String, ShopperError> {
        let until = self.inner.clock.now() + life;
        rehearsal::sign(&self.inner.signing_key, user, until).map_err(ShopperError::Token)
    }

    /// Creates a draft.
    pub async fn create(&self, template: &NewTemplate) -> Result<Template, ShopperError> {
        self.expect(201, self.operator(Method::POST, "/v1/templates").json(template)).await
    }

    /// Creates and publishes a template; then its gate is loaded.
    pub async fn publish_new(&self, template: &NewTemplate) -> Result<Template, ShopperError> {
        let draft = self.create(template).await?;
        self.turn(draft.id, "publish").await
    }

    /// Changes a template's state: `publish`, `pause`, `resume` or `end`.
    pub async fn turn(&self, id: TemplateId, verb: &str) -> Result<Template, ShopperError> {
        let request = self.operator(Method::POST, &format!("/v1/templates/{id}/{verb}"));
        // An end requires an `If-Match`; any version will do.
        let request = if verb == "end" { request.header("if-match", "*") } else { request };
        self.expect(200, request).await
    }

    /// Reads a template.
    pub async fn template(&self, id: TemplateId) -> Result<Template, ShopperError> {
        self.expect(200, self.operator(Method::GET, &format!("/v1/templates/{id}"))).await
    }

    /// Reads a template's stock.
    pub async fn stock(&self, id: TemplateId) -> Result<Stock, ShopperError> {
        self.expect(200, self.operator(Method::GET, &format!("/v1/templates/{id}/stock"))).await
    }

    /// Reads a template as a shop page does, without credentials. `known` is an `ETag` that the
    /// page already has.
    pub async fn shop(&self, id: TemplateId, known: Option<&str>) -> Result<Answer, ShopperError> {
        let request = self.anonymous(Method::GET, &format!("/v1/shop/templates/{id}"));
        self.send(known.into_iter().fold(request, |ask, tag| ask.header("if-none-match", tag)))
            .await
    }

    /// Creates a client of the same api for another operator, identified by this key.
    pub fn with_operator_key(&self, key: &str) -> Self {
        let inner = Inner {
            client: self.inner.client.clone(),
            lines: Lines::new(&self.inner.base_url),
            base_url: self.inner.base_url.clone(),
            signing_key: self.inner.signing_key.clone(),
            operator_key: key.to_owned(),
            clock: self.inner.clock.clone(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Starts a request without credentials.
    pub fn anonymous(&self, method: Method, path: &str) -> RequestBuilder {
        self.inner.client.request(method, format!("{}{path}", self.inner.base_url))
    }

    /// Starts a request with the operator's key.
    pub fn operator(&self, method: Method, path: &str) -> RequestBuilder {
        self.anonymous(method, path).header("x-api-key", &self.inner.operator_key)
    }

    /// Sends a request and returns the answer, whatever it is.
    pub async fn send(&self, request: RequestBuilder) -> Result<Answer, ShopperError> {
        let (client, request) = request.build_split();
        let request = request.map_err(ShopperError::Client)?;
        let name = format!("{} {}", request.method(), request.url().path());
        let answer = async {
            let response = client.execute(request).await?;
            let status = response.status();
            let headers = response.headers().clone();
            Ok(Answer::new(status, headers, response.text().await?))
        };
        answer.await.map_err(|source: reqwest::Error| ShopperError::NoAnswer {
            request: name,
            source: source.into(),
        })
    }

    /// Sends a request on one of the connections reserved for claims.
    pub(crate) async fn send_on_line(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<Answer, ShopperError> {
        let path = request.uri().path().to_owned();
        let no_answer = |source| ShopperError::NoAnswer { request: format!("POST {path}"), source };
        let (head, body) = self.inner.lines.send(request).await.map_err(no_answer)?.into_parts();
        let body = String::from_utf8_lossy(&body).into_owned();
        Ok(Answer::new(head.status, head.headers, body))
    }

    /// Sends a request, requires `status` and parses the answer's body.
    pub(crate) async fn expect<T: DeserializeOwned>(
        &self,
        status: u16,
        request: RequestBuilder,
    ) -> Result<T, ShopperError> {
        let answer = self.send(request).await?;
        if answer.status == status {
            return answer.json();
        }
        let request = format!("a call that expects {status}");
        Err(ShopperError::Refused { request, status: answer.status, body: answer.body })
    }
}
