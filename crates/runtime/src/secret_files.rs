//! Secrets from files. A secret setting `NAME` is also read from the file that `NAME_FILE` names, which is how Docker,
//! Kubernetes and systemd provide secrets. An environment variable is visible to child processes and to anyone who may
//! inspect the process; a file is read once.

use std::{env, ffi::OsString, fs, path::Path};

use clap::{Arg, Command, CommandFactory, Parser, error::ErrorKind};

/// Suffix of the variable that names a secret's file.
const SUFFIX: &str = "_FILE";

/// Largest secret file, in bytes. URLs and keys have hundreds.
const FILE_BYTES_MAX: usize = 64 * 1024;

/// Reads a process's settings from its command line, its environment and its secret files. If they are invalid, prints
/// clap's error and exits.
pub fn parse<T: Parser>() -> T {
    let words = env::args_os().collect();
    let words = with_secrets(&T::command(), words, |name| env::var_os(name));
    let words = words.unwrap_or_else(|wrong| {
        <T as CommandFactory>::command().error(ErrorKind::ValueValidation, wrong).exit()
    });
    let mut matches = T::command().get_matches_from(words);
    T::from_arg_matches_mut(&mut matches)
        .unwrap_or_else(|error| error.format(&mut T::command()).exit())
}

/// Returns the command line with the secrets from files added as flags.
///
/// # Errors
/// Returns a sentence if a secret is given twice or its file cannot be read.
fn with_secrets(
    command: &Command,
    mut words: Vec<OsString>,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<Vec<OsString>, String> {
    let given = |name: &str| variable(name).filter(|value| !value.is_empty());
    for argument in command.get_arguments().filter(|argument| argument.is_hide_env_values_set()) {
        let Some((name, flag)) = names(argument) else { continue };
        let file_name = format!("{name}{SUFFIX}");
        let Some(file) = given(&file_name) else { continue };
        if given(&name).is_some() {
            return Err(format!("{name} and {file_name} exclude each other: unset one of them"));
        }
        let secret = read(Path::new(&file)).map_err(|why| format!("{file_name}: {why}"))?;
        // Inserted before the typed flags, so that clap reports a conflict if the same flag was typed.
        words.insert(1.min(words.len()), OsString::from(format!("--{flag}={secret}")));
    }
    Ok(words)
}

/// Returns the environment variable and the flag of a setting.
fn names(argument: &Arg) -> Option<(String, &str)> {
    Some((argument.get_env()?.to_str()?.to_owned(), argument.get_long()?))
}

fn read(file: &Path) -> Result<String, String> {
    let text = fs::read_to_string(file)
        .map_err(|error| format!("{} cannot be read: {error}", file.display()))?;
    // `echo` and editors end the file with a line break.
    let text = text.strip_suffix('\n').unwrap_or(&text);
    let text = text.strip_suffix('\r').unwrap_or(text);
    if text.is_empty() || text.len() > FILE_BYTES_MAX || text.contains(['\n', '\0']) {
        return Err(format!("{} holds no secret of one line", file.display()));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::Secret;

    #[derive(Parser)]
    struct Settings {
        #[arg(long, env = "TEST_SECRET_URL", hide_env_values = true, default_value = "none")]
        secret_url: Secret,
        #[arg(long, env = "TEST_OPEN")]
        open: Option<String>,
    }

    /// Parses `words` and `variables` and returns the secret.
    fn read_with(words: &[&str], variables: &[(&str, &str)]) -> Result<String, String> {
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        };
        let words = words.iter().map(OsString::from).collect();
        let words = with_secrets(&Settings::command(), words, variable)?;
        let settings = Settings::try_parse_from(words).map_err(|error| error.to_string())?;
        assert_eq!(settings.open, None);
        Ok(settings.secret_url.expose().to_owned())
    }

    fn file(name: &str, text: &str) -> PathBuf {
        let folder = env::temp_dir().join(format!("coupon-secret-files-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join(name);
        fs::write(&file, text).unwrap();
        file
    }

    #[test]
    fn a_secret_may_stand_in_a_file_and_only_a_secret() {
        let right = file("right", "redis://:p=a%20b@h:1\n");
        let right = right.to_str().unwrap();
        let url = "TEST_SECRET_URL_FILE";
        let open = "TEST_OPEN_FILE";
        assert_eq!(read_with(&["it"], &[]).unwrap(), "none");
        assert_eq!(read_with(&["it"], &[(url, right)]).unwrap(), "redis://:p=a%20b@h:1");
        assert_eq!(read_with(&["it"], &[(url, ""), (open, right)]).unwrap(), "none");
    }

    #[test]
    fn a_setting_given_twice_or_unreadable_is_reported_without_the_secret() {
        let right = file("one", "hunter2");
        let empty = file("empty", "\n");
        let lines = file("two", "a\nhunter2\n");
        let url = "TEST_SECRET_URL_FILE";
        for (words, variables, part) in [
            (vec!["it"], vec![(url, right.to_str().unwrap()), ("TEST_SECRET_URL", "x")], "exclude"),
            (vec!["it", "--secret-url=x"], vec![(url, right.to_str().unwrap())], "--secret-url"),
            (vec!["it"], vec![(url, "/nowhere/secret")], "/nowhere/secret cannot be read"),
            (vec!["it"], vec![(url, empty.to_str().unwrap())], "no secret"),
            (vec!["it"], vec![(url, lines.to_str().unwrap())], "no secret"),
        ] {
            let wrong = read_with(&words, &variables).unwrap_err();
            assert!(wrong.contains(part) && !wrong.contains("hunter2"), "{wrong}");
        }
    }
}
