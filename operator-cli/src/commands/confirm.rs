//! Asks before a command that cannot be undone: the user types the template's name at the terminal.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use serde_json::Value;

use crate::{
    api::{Api, call::Call},
    failure::{Failure, Kind},
    text,
};

/// Longest line that is read, in bytes: a name has at most 200 characters.
const LINE_BYTES_MAX: u64 = 4096;

/// Asks for the template's name, and returns the call for the version that was shown. `what` is what is about to happen,
/// e.g. `end it`.
///
/// # Errors
/// Standard input is no terminal, another text is typed, or the template cannot be read.
pub(crate) async fn confirmed(
    call: Call,
    template: i64,
    what: &str,
    api: &Api,
) -> Result<Call, Failure> {
    if !io::stdin().is_terminal() {
        let sentence =
            format!("This asks for the name of template {template} before it would {what}.");
        return Err(Failure::usage(sentence).advise("In a script, give `--yes`."));
    }
    let shown = api.send(&Call::get(format!("/v1/templates/{template}"))).await?;
    let name = shown.get("name").and_then(Value::as_str).unwrap_or_default();
    let typed = typed(&question(name, &shown, what))?;
    if !is_meant(&typed, name) {
        let sentence = "That is not its name: nothing was sent.";
        return Err(Failure::new(Kind::Usage, sentence));
    }
    let version = shown.get("version").and_then(Value::as_i64).unwrap_or_default();
    Ok(call.if_match(format!("\"{version}\"")))
}

fn question(name: &str, template: &Value, what: &str) -> String {
    let state = text::cell(template.get("state"));
    format!(
        "The template is called {}, and is {state}.\nType its name to {what}: ",
        text::clean(name)
    )
}

/// Whether the typed text is the name. Control characters, which cannot be typed, are shown and accepted as
/// replacements.
fn is_meant(typed: &str, name: &str) -> bool {
    let typed = typed.trim_end_matches(['\r', '\n']);
    !name.is_empty() && (typed == name || typed == text::clean(name))
}

/// Asks on standard error, so that standard output has answers only, and reads a line.
fn typed(question: &str) -> Result<String, Failure> {
    let failed =
        |error: io::Error| Failure::usage(format!("The terminal cannot be read: {error}."));
    let mut terminal = io::stderr();
    terminal.write_all(question.as_bytes()).and_then(|()| terminal.flush()).map_err(failed)?;
    let mut line = String::new();
    io::Read::take(io::stdin().lock(), LINE_BYTES_MAX).read_line(&mut line).map_err(failed)?;
    Ok(line)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_very_name_is_meant() {
        assert!(is_meant("A sale\n", "A sale") && is_meant("A sale\r\n", "A sale"));
        for other in ["", "\n", "a sale\n", "A sale \n", "A sale (copy)\n", "yes\n"] {
            assert!(!is_meant(other, "A sale"), "{other:?}");
        }
        assert!(!is_meant("\n", ""), "a template has a name");
    }

    #[test]
    fn a_question_steers_no_terminal() {
        let question = question("a\u{1b}[2Jb", &json!({ "state": "paused" }), "end it");
        assert!(!question.contains('\u{1b}') && question.ends_with("Type its name to end it: "));
    }
}
