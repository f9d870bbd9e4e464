//! The console as people see it: in a real browser without a screen, by the pages' own buttons and fields. What a button did is
//! counted in MySQL.

mod actions;
mod broken;
mod customers;
mod figures;
mod looks;
mod pages;
mod safety;

use coupon::{TemplateId, UserId};
use pipeline_tests::{World, until};
use serde_json::{Value, json};
use testkit::sql;

use crate::{operators::merchants::made, support::browser::Browser};

/// What to do on a machine without a browser.
const MISSING: &str =
    "the console is tested in Chromium, which `ops/install.sh --for-tests` installs";

/// States of a template in MySQL.
const PUBLISHED: &str = "1";
const PAUSED: &str = "2";
const ENDED: &str = "3";

/// The console in a browser.
struct Console {
    browser: Browser,
}

impl Console {
    /// Opens the console of the api at `base`, e.g. `http://127.0.0.1:8080`. Times are UTC there.
    async fn open(world: &World, base: &str) -> Self {
        let dir = world.platform.options.dir.join("browser");
        let browser = Browser::start(&dir).await.expect(MISSING);
        let mut console = Self { browser };
        console.live_in("UTC").await;
        console.browser.open(&format!("{base}/console")).await;
        console
    }

    /// Opens the console, and signs in by the platform's own key.
    async fn of_platform(world: &World) -> Self {
        let mut console = Self::open(world, world.platform.api_url()).await;
        console.sign_in(&world.platform.options.operator_key).await;
        console
    }

    async fn sign_in(&mut self, key: &str) {
        self.fill("#key", key).await;
        self.click("Sign in").await;
        self.until("document.querySelector('.shell') && !document.querySelector('.sign-in')").await;
    }

    async fn sign_out(&mut self) {
        let leave = "document.querySelector('.who button').click() === undefined";
        self.until(leave).await;
        self.until("document.querySelector('main.sign-in')").await;
    }

    /// Sets the time zone of the browser, for what is opened or loaded again from now on.
    async fn live_in(&mut self, zone: &str) {
        self.browser.call("Emulation.setTimezoneOverride", json!({ "timezoneId": zone })).await;
    }

    /// Opens a page by the part of the address behind `#`.
    async fn go(&mut self, hash: &str) {
        let script = format!("location.hash = {}", json!(hash));
        self.browser.evaluate(&script).await;
        let name = hash.trim_start_matches("#/").split(['/', '?']).next().unwrap_or_default();
        let title = json!(format!("{name} · coupons"));
        self.until(&format!("document.title.toLowerCase() === {title}")).await;
    }

    async fn reload(&mut self) {
        self.browser.evaluate("window.isOld = true").await;
        self.browser.call("Page.reload", json!({})).await;
        self.until("!window.isOld && document.querySelector('#app *')").await;
    }

    /// Waits until a condition, an expression, holds in the page. If it never does, the page's text is in the failure.
    async fn until(&mut self, condition: &str) {
        let script = format!("Boolean({condition}) || document.body.innerText.slice(0, 4000)");
        let browser = &mut self.browser;
        until(async || browser.evaluate(&script).await, |seen| *seen == true).await;
    }

    /// Waits until the page says this, in what is seen of it.
    async fn until_says(&mut self, words: &str) {
        self.until(&format!("document.body.innerText.includes({})", json!(words))).await;
    }

    /// Waits until the first sale's bar has this part: `20 left`.
    async fn until_bar(&mut self, part: &str) {
        let part = json!(part);
        self.until(&format!(
            "document.querySelector('.bar').ariaLabel.split(/[,;] /).includes({part})"
        ))
        .await;
    }

    /// Waits until nothing of the page is being read any more.
    async fn until_read(&mut self) {
        self.until("document.querySelector('#main') && !document.querySelector('.loading')").await;
    }

    /// Waits until no dialog is in front of the page.
    async fn until_closed(&mut self) {
        self.until("!document.querySelector('dialog')").await;
    }

    /// Evaluates an expression, and waits for what it promises.
    async fn promised(&mut self, script: &str) -> Value {
        let params = json!({ "expression": script, "returnByValue": true, "awaitPromise": true });
        let mut answer = self.browser.call("Runtime.evaluate", params).await;
        assert_eq!(answer["exceptionDetails"], Value::Null, "{script}");
        answer["result"]["value"].take()
    }

    /// Clicks the last button or link with this text or name: a dialog is behind the page it stands in front of.
    async fn click(&mut self, text: &str) {
        self.click_times(text, 1).await;
    }

    /// Clicks a button twice before the page can answer, as an impatient hand does.
    async fn click_twice(&mut self, text: &str) {
        self.click_times(text, 2).await;
    }

    async fn click_times(&mut self, text: &str, times: usize) {
        let script = format!(
            "(() => {{
                const fits = (one) => one.getClientRects().length > 0 && !one.disabled
                    && (one.innerText.trim() === {text} || one.ariaLabel === {text});
                const found = [...document.querySelectorAll('button, a')].filter(fits).pop();
                if (!found) return false;
                for (let at = 0; at < {times}; at += 1) found.click();
                return true;
            }})()",
            text = json!(text)
        );
        self.until(&script).await;
    }

    /// Types into a field, or chooses in a list what it must have.
    async fn fill(&mut self, selector: &str, value: &str) {
        let script = format!(
            "(() => {{
                const field = document.querySelector({selector});
                if (!field || field.disabled) return false;
                const kind = {{ TEXTAREA: HTMLTextAreaElement, SELECT: HTMLSelectElement }}[field.tagName] || HTMLInputElement;
                Object.getOwnPropertyDescriptor(kind.prototype, 'value').set.call(field, {value});
                if (field.tagName === 'SELECT' && field.value !== {value}) return false;
                field.dispatchEvent(new Event('input', {{ bubbles: true }}));
                field.dispatchEvent(new Event('change', {{ bubbles: true }}));
                return true;
            }})()",
            selector = json!(selector),
            value = json!(value)
        );
        self.until(&script).await;
    }

    /// Asserts that no script failed and that the page's policy forbade nothing. What the api refuses is no complaint.
    fn assert_no_complaint(&self) {
        let is_complaint = |event: &&Value| {
            let of_network = event["params"]["entry"]["source"] == "network";
            event["method"] == "Runtime.exceptionThrown"
                || (event["method"] == "Log.entryAdded" && !of_network)
        };
        let complaints: Vec<&Value> = self.browser.events.iter().filter(is_complaint).collect();
        assert!(complaints.is_empty(), "{complaints:#?}");
    }

    /// Asserts that all went well in the page, and closes the browser.
    async fn end(self) {
        self.assert_no_complaint();
        self.browser.end().await;
    }
}

/// The only value that a query finds in MySQL, as text.
fn found(world: &World, query: &str) -> String {
    sql(&world.scope.endpoints.database_url, query).trim().to_owned()
}

/// Waits until a query finds this in MySQL.
async fn until_found(world: &World, query: &str, expected: &str) {
    until(async || found(world, query), |seen| seen == expected).await;
}

fn state_of(template: TemplateId) -> String {
    format!("SELECT state FROM coupon_template WHERE id = {template}")
}

/// How often operators did something, by the record.
fn times_done(world: &World, action: &str) -> String {
    found(world, &format!("SELECT COUNT(*) FROM audit_entry WHERE action = '{action}'"))
}

/// Makes a key of the platform's merchant; returns its secret.
async fn secret(world: &World, scope: &str) -> String {
    let key = json!({ "name": scope, "scopes": [scope] });
    let key = made(world.api(), "/v1/api-keys", &key).await;
    key["key"].as_str().unwrap().to_owned()
}

/// Claims a coupon for a user; returns its id.
async fn claimed(world: &World, template: TemplateId, user: i64) -> String {
    let shopper = world.api().shopper(UserId(user)).unwrap();
    let answer = shopper.claim(template, Some("k"), 1).await.unwrap();
    assert_eq!(answer.status, 201, "{answer:?}");
    let claim: Value = answer.json().unwrap();
    claim["coupons"][0]["id"].as_str().unwrap().to_owned()
}
