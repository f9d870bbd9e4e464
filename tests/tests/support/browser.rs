//! A real headless browser, driven over a pipe by its `DevTools` protocol.

use std::{
    env,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};

/// Debian's names for it; the second belongs to the desktop browser.
const PROGRAMS: [&str; 2] = ["chromium-headless-shell", "chromium"];

/// Longest wait for one answer, including the browser's start on a busy machine.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// The browser reads commands from file descriptor 3 and writes answers to 4; the shell redirects our pipes there.
const PIPES: &str = r#"exec "$0" "$@" 3<&0 4>&1 < /dev/null > /dev/null 2>&1"#;

/// A browser with one page.
pub(crate) struct Browser {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
    session: Option<String>,
    sent: u64,
    /// Events of the page: requests, errors.
    pub(crate) events: Vec<Value>,
}

impl Browser {
    /// Starts it with a profile in `dir`; returns `None` if it is not installed.
    pub(crate) async fn start(dir: &Path) -> Option<Self> {
        devstack::full_only("opens a browser");
        let program = installed()?;
        let mut child = Command::new("sh")
            .args(["-c", PIPES])
            .arg(program)
            .args(["--headless", "--remote-debugging-pipe", "--window-size=1280,1000"])
            // There is no sandbox for root; the pages shown are ours.
            .args(["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            // Only this machine is reachable.
            .args(["--disable-background-networking", "--no-first-run"])
            .arg("--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1")
            .arg(format!("--user-data-dir={}", dir.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let commands = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        let mut browser =
            Self { child, commands, answers, session: None, sent: 0, events: Vec::new() };
        let page = browser.call("Target.createTarget", json!({ "url": "about:blank" })).await;
        let attach = json!({ "targetId": page["targetId"], "flatten": true });
        let attached = browser.call("Target.attachToTarget", attach).await;
        browser.session = Some(attached["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page", "Network", "Log", "Runtime"] {
            browser.call(&format!("{domain}.enable"), json!({})).await;
        }
        Some(browser)
    }

    /// Opens a URL.
    pub(crate) async fn open(&mut self, url: &str) {
        let answer = self.call("Page.navigate", json!({ "url": url })).await;
        assert_eq!(answer["errorText"], Value::Null, "{url}");
    }

    /// Evaluates an expression in the page.
    pub(crate) async fn evaluate(&mut self, script: &str) -> Value {
        let params = json!({ "expression": script, "returnByValue": true });
        self.call("Runtime.evaluate", params).await["result"]["value"].take()
    }

    /// Takes a screenshot: a PNG in base64.
    pub(crate) async fn screenshot(&mut self) -> String {
        let answer = self.call("Page.captureScreenshot", json!({ "format": "png" })).await;
        answer["data"].as_str().unwrap().to_owned()
    }

    /// Closes the browser.
    pub(crate) async fn end(mut self) {
        self.session = None;
        self.call("Browser.close", json!({})).await;
        timeout(ANSWER_MAX, self.child.wait()).await.unwrap().unwrap();
    }

    /// Sends a command of the protocol to the page, and returns its result.
    pub(crate) async fn call(&mut self, method: &str, params: Value) -> Value {
        self.sent += 1;
        let mut command = json!({ "id": self.sent, "method": method, "params": params });
        if let Some(session) = &self.session {
            command["sessionId"] = json!(session);
        }
        let mut bytes = command.to_string().into_bytes();
        bytes.push(0);
        self.commands.write_all(&bytes).await.unwrap();
        loop {
            let mut bytes = Vec::new();
            let read = timeout(ANSWER_MAX, self.answers.read_until(0, &mut bytes)).await;
            let count = read.unwrap_or_else(|_| panic!("no answer to {method}")).unwrap();
            assert!(count > 0, "the browser ended at {method}");
            let mut message: Value = serde_json::from_slice(&bytes[..count - 1]).unwrap();
            if message["id"] == self.sent {
                assert_eq!(message["error"], Value::Null, "{method}");
                return message["result"].take();
            }
            self.events.push(message);
        }
    }
}

fn installed() -> Option<PathBuf> {
    let folders = env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = env::split_paths(&folders).collect();
    let places = PROGRAMS.iter().flat_map(|name| folders.iter().map(move |dir| dir.join(name)));
    places.into_iter().find(|place| place.is_file())
}
