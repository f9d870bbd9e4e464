//! Rules of plain code: one binding a line, and parameters with names.

use std::fs;

use devstack::project_root;

use super::tidy::rust_files;

/// A tuple that is taken apart where it is made says less than two lines, and a pair of parameters says less than two
/// names. What travels together is a struct.
#[test]
fn nothing_is_packed_into_a_tuple_to_save_a_line_or_a_parameter() {
    let mut packed = Vec::new();
    for file in rust_files() {
        let text = fs::read_to_string(&file).unwrap();
        let name = file.strip_prefix(project_root()).unwrap().display().to_string();
        let lets = text.match_indices("let (").filter(|(at, _)| is_taken_apart(&text[at + 4..]));
        let parameters = text.match_indices("): (").filter(|(at, _)| is_parameter(&text, *at));
        packed.extend(lets.chain(parameters).map(|(at, _)| {
            let line = text[..at].matches('\n').count() + 1;
            format!("{name}:{line} {}", text.lines().nth(line - 1).unwrap().trim())
        }));
    }
    assert!(packed.is_empty(), "{packed:#?}");
}

/// Whether `(a, b) = (x, y);` comes first.
fn is_taken_apart(text: &str) -> bool {
    let Some(names) = enclosed(text) else { return false };
    let Some(values) = text[names.len()..].strip_prefix(" = ") else { return false };
    let Some(tuple) = enclosed(values) else { return false };
    tuple.starts_with('(') && values[tuple.len()..].starts_with(';')
}

/// Whether a tuple of names ends at `at`, in the parameters of a function.
fn is_parameter(text: &str, at: usize) -> bool {
    let Some(begin) = text[..at].rfind('(') else { return false };
    let names = &text[begin + 1..at];
    let is_names = names.chars().all(|c| c.is_alphanumeric() || "_, ".contains(c));
    let line = text[..begin].rsplit('\n').next().unwrap();
    is_names && names.contains(", ") && (line.trim().is_empty() || line.contains("fn "))
}

/// Returns the brackets at the beginning of `text`, with what they enclose.
fn enclosed(text: &str) -> Option<&str> {
    let mut open = 0;
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' | '{' => open += 1,
            ')' | ']' | '}' => open -= 1,
            _ => {}
        }
        if open == 0 {
            return (at > 0).then(|| &text[..=at]);
        }
    }
    None
}

#[test]
fn packed_tuples_are_told_from_others() {
    let packed = ["(a, b) = (1, 2);", "(mut a, b) = (f(x), [1]);"];
    let others = [
        "(a, b) = pair;",
        "(a, b) = (1..3).unzip();",
        "(a, b): (u8, u8) = pair;",
        "(a, b) = { f() };",
    ];
    assert!(packed.into_iter().all(is_taken_apart));
    assert!(!others.into_iter().any(is_taken_apart));
}
