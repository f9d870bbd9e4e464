//! A real browser without a screen, driven over the pipe of its own protocol.

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

/// What Debian calls it; the second is a desktop's.
const PROGRAMS: [&str; 2] = ["chromium-headless-shell", "chromium"];

/// How long the browser may take for one answer: its start on a busy machine included.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// Commands come in by the third file, answers go out by the fourth: a shell puts ours there.
const PIPES: &str = r#"exec "$0" "$@" 3<&0 4>&1 < /dev/null > /dev/null 2>&1"#;

/// A browser with one page.
pub(crate) struct Browser {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
    session: Option<String>,
    sent: u64,
    /// What the page told meanwhile: requests, errors.
    pub(crate) events: Vec<Value>,
}

impl Browser {
    /// Starts it with a profile in `dir`; absent: it is not installed.
    pub(crate) async fn start(dir: &Path) -> Option<Self> {
        let program = installed()?;
        let mut child = Command::new("sh")
            .args(["-c", PIPES])
            .arg(program)
            .args(["--headless", "--remote-debugging-pipe", "--window-size=1280,1000"])
            // As root there is no sandbox to be had; what is shown is ours.
            .args(["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            // Nothing but this machine can be asked.
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

    /// Goes to an address.
    pub(crate) async fn open(&mut self, url: &str) {
        let answer = self.call("Page.navigate", json!({ "url": url })).await;
        assert_eq!(answer["errorText"], Value::Null, "{url}");
    }

    /// What a script of one expression comes to in the page.
    pub(crate) async fn evaluate(&mut self, script: &str) -> Value {
        let params = json!({ "expression": script, "returnByValue": true });
        self.call("Runtime.evaluate", params).await["result"]["value"].take()
    }

    /// What the page looks like: a PNG, in base64.
    pub(crate) async fn screenshot(&mut self) -> String {
        let answer = self.call("Page.captureScreenshot", json!({ "format": "png" })).await;
        answer["data"].as_str().unwrap().to_owned()
    }

    /// Ends it.
    pub(crate) async fn end(mut self) {
        self.session = None;
        self.call("Browser.close", json!({})).await;
        timeout(ANSWER_MAX, self.child.wait()).await.unwrap().unwrap();
    }

    async fn call(&mut self, method: &str, params: Value) -> Value {
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
