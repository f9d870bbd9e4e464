//! `coupon template watch` on a terminal, and in a pipe. The terminal is created by util-linux's `script`, so the
//! bytes are those that a screen would get.

use std::{env, path::PathBuf, process::Stdio};

use coupon::UserId;
use pipeline_tests::{STATE_MAX, World};
use shopper::Wish;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};

use crate::operators::cli::Cli;

/// Start of a redraw: return to the line's start, clear the line, disable wrapping.
const REDRAWN: &str = "\r\u{1b}[2K\u{1b}[?7l";
/// End of a redraw: enable wrapping.
const DRAWN: &str = "\u{1b}[?7h";
/// Bytes read at a time; a redraw has about a hundred.
const READ_BYTES: usize = 4096;
/// Ctrl-C, as a terminal's keyboard sends it.
const CTRL_C: &[u8] = b"\x03";

/// A command on a terminal.
struct Terminal {
    script: Child,
    /// The keyboard. While it is open, the command's input does not end.
    keys: ChildStdin,
    screen: ChildStdout,
    /// Everything written to the screen so far.
    seen: String,
}

impl Terminal {
    fn run(world: &World, words: &str) -> Self {
        // Replaces the shell, which would receive Ctrl-C too.
        let command = format!("exec '{}' {words}", binary().display());
        let mut script = Command::new("script");
        script.args(["-qec", &command, "/dev/null"]).kill_on_drop(true);
        script.env("API_URL", world.platform.api_url());
        script.env("OPERATOR_KEY", &world.platform.options.operator_key);
        script.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut script = script.spawn().unwrap();
        let keys = script.stdin.take().unwrap();
        let screen = script.stdout.take().unwrap();
        Self { script, keys, screen, seen: String::new() }
    }

    /// Reads more; returns false at the end.
    async fn read(&mut self) -> bool {
        let mut bytes = [0; READ_BYTES];
        let count = self.screen.read(&mut bytes).await.unwrap();
        self.seen.push_str(&String::from_utf8_lossy(&bytes[..count]));
        count > 0
    }

    /// Reads the screen until it has shown this.
    async fn until(&mut self, what: &str) {
        let looking = async {
            while !self.seen.contains(what) {
                assert!(self.read().await, "the end, and no {what:?} in {:?}", self.seen);
            }
        };
        let looked = timeout(STATE_MAX, looking).await;
        assert!(looked.is_ok(), "no {what:?} in {:?}", self.seen);
    }

    async fn press(&mut self, key: &[u8]) {
        self.keys.write_all(key).await.unwrap();
        self.keys.flush().await.unwrap();
    }

    /// Reads until the command has ended; returns its exit code and all its output.
    async fn finish(mut self) -> (i32, String) {
        let end = async {
            while self.read().await {}
            self.script.wait().await.unwrap()
        };
        let status = timeout(STATE_MAX, end).await;
        let status = status.unwrap_or_else(|_| panic!("it does not end: {:?}", self.seen));
        drop(self.keys);
        (status.code().unwrap(), self.seen)
    }
}

/// Path of the binary beside this test's.
fn binary() -> PathBuf {
    let own = env::current_exe().unwrap();
    own.ancestors().nth(2).unwrap().join("coupon")
}

/// Returns the redraws of the line, and the text below the last one.
fn looks(seen: &str) -> (Vec<&str>, &str) {
    let mut parts = seen.split(REDRAWN);
    assert_eq!(parts.next(), Some(""), "something stands before the first look: {seen:?}");
    let parts: Vec<&str> = parts.collect();
    let ends: Vec<(&str, &str)> =
        parts.iter().map(|part| part.split_once(DRAWN).unwrap()).collect();
    let (last, above) = ends.split_last().unwrap();
    for (look, behind) in above {
        assert_eq!(*behind, "", "{look} is not written over: {seen:?}");
    }
    (ends.iter().map(|(look, _)| *look).collect(), last.1)
}

/// The figures of a line: percent, landed, rate, left, lag, state.
fn figures(look: &str) -> Vec<&str> {
    let (bar, figures) = look.strip_prefix('[').unwrap().split_once("] ").unwrap();
    assert!(bar.len() == 16 && bar.trim_start_matches('#').trim_start_matches('-').is_empty());
    let figures: Vec<&str> = figures.trim_start().split("  ").collect();
    // Claims that land between the two reads for a line can make it show drift once.
    let [percent, landed, rate, left, lag, _, ..] = figures[..] else { panic!("{look:?}") };
    assert!(percent.ends_with('%') && landed.ends_with(" landed"), "{look:?}");
    let is_rest = left.ends_with(" left") || left.ends_with(" unclaimed");
    assert!(rate.ends_with("/s") && is_rest, "{look:?}");
    let seconds = lag.strip_prefix("lag ").unwrap().strip_suffix(" s");
    assert!(lag == "lag -" || seconds.is_some_and(|it| it.parse::<f64>().is_ok()), "{look:?}");
    figures
}

#[tokio::test]
async fn a_terminal_shows_one_line_that_is_written_over_until_everything_is_sold() {
    let world = World::start("watch terminal").await;
    let template = world.template(30, |new| new).await;
    let mut terminal = Terminal::run(&world, &format!("template watch {template}"));
    terminal.until("0/30 landed").await;
    let wishes = (1..=40).map(|user| Wish::one(template, UserId(user))).collect();
    assert_eq!(world.crowd().run(wishes).await.unwrap().given_up, 0);
    let (code, seen) = terminal.finish().await;
    let (looks, below) = looks(&seen);
    assert_eq!((code, below), (0, "\r\nSold out.\r\n"), "{seen:?}");
    assert!(looks.len() >= 2 && !looks.iter().any(|look| look.contains('\n')), "{seen:?}");
    let all: Vec<Vec<&str>> = looks.iter().map(|look| figures(look)).collect();
    assert_eq!(all[0][..4], ["0%", "0/30 landed", "0/s", "30 left"], "{seen:?}");
    let last = all.last().unwrap();
    assert_eq!((last[0], last[1], last[3]), ("100%", "30/30 landed", "0 left"), "{seen:?}");
    let rate: f64 = last[2].trim_end_matches("/s").parse().unwrap();
    assert!(rate > 0.0, "they landed within the last seconds: {seen:?}");
    assert!(looks[0].starts_with("[----------------]"), "{seen:?}");
    assert!(looks.last().unwrap().starts_with("[################]"), "{seen:?}");
    world.end().await;
}

#[tokio::test]
async fn a_terminal_has_its_line_ended_when_the_template_is_when_nobody_wants_more_and_on_a_refusal()
 {
    let world = World::start("watch ends").await;
    let cli = Cli::of(&world);
    let template = world.template(30, |new| new).await;
    let watch = format!("template watch {template}");

    let mut terminal = Terminal::run(&world, &watch);
    terminal.until(DRAWN).await;
    terminal.press(CTRL_C).await;
    let (code, seen) = terminal.finish().await;
    let (_, below) = looks(&seen);
    assert!(below.ends_with("\r\nWatched until you stopped it.\r\n"), "{seen:?}");
    assert_eq!(code, 0, "{seen:?}");

    let mut terminal = Terminal::run(&world, &watch);
    terminal.until(DRAWN).await;
    assert_eq!(cli.json(&format!("template end {template} --yes")).await["state"], "ended");
    let (code, seen) = terminal.finish().await;
    let (looks, below) = looks(&seen);
    assert_eq!((code, below), (0, "\r\nThe template has ended.\r\n"), "{seen:?}");
    let last = figures(looks.last().unwrap());
    assert_eq!((last[3], last[5]), ("30 unclaimed", "ended"), "{seen:?}");

    // Nothing is drawn for an unknown template: no empty line before the message.
    let (code, seen) = Terminal::run(&world, "template watch 1").finish().await;
    assert!(code == 1 && seen.starts_with("coupon: ") && seen.contains("(TEMPLATE_NOT_FOUND)"));
    assert!(!seen.contains('\u{1b}'), "{seen:?}");
    world.end().await;
}

#[tokio::test]
async fn a_pipe_gets_plain_lines_and_nothing_of_a_terminal() {
    let world = World::start("watch pipe").await;
    let template = world.template(30, |new| new).await;
    let ran = Cli::of(&world).run(&format!("template watch {template} --for 1")).await;
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    assert!(!ran.out.contains(['\r', '\u{1b}', '[']), "{ran:?}");
    let lines: Vec<&str> = ran.out.lines().collect();
    assert!(lines.len() >= 2 && ran.out.ends_with('\n'), "{ran:?}");
    for look in &lines[..lines.len() - 1] {
        let (elapsed, figures) = look.trim_start().split_once("  ").unwrap();
        assert!(elapsed.ends_with('s') && figures.contains("0/30 landed  0/s  30 left  lag "));
    }
    assert_eq!(*lines.last().unwrap(), "Watched for as long as asked.");
    world.end().await;
}
