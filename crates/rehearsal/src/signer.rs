//! [`TokenSigner`]: tokens of made-up users, by the shop's secret or by a command of the shop.

use std::{fmt::Write as _, io, process::Stdio};

use chrono::{DateTime, Utc};
use coupon::UserId;
use jsonwebtoken::EncodingKey;
use thiserror::Error;
use tokio::{io::AsyncWriteExt as _, process::Command};

use crate::token;

/// Who signs the tokens of a rehearsal.
#[derive(Clone)]
pub enum TokenSigner {
    /// The shop's secret, for HS256: the token has `sub` and `exp`.
    Secret(String),
    /// A command of a shell. It reads users' ids, one a line, and prints a token for each, one a line, in their order.
    Command(String),
}

/// There are no tokens.
#[derive(Debug, Error)]
pub enum SignerError {
    #[error("the secret cannot sign tokens")]
    Secret(#[source] jsonwebtoken::errors::Error),
    #[error("the command cannot be run")]
    Run(#[source] io::Error),
    #[error("the command ended with {status}")]
    Failed { status: String },
    #[error("the command printed {printed} tokens for {users} users")]
    Count { printed: usize, users: usize },
}

impl TokenSigner {
    /// Returns a token for each user, valid until `until` if a secret signs it.
    ///
    /// # Errors
    /// See [`SignerError`].
    pub async fn sign(
        &self,
        users: &[UserId],
        until: DateTime<Utc>,
    ) -> Result<Vec<String>, SignerError> {
        match self {
            Self::Secret(secret) => {
                let key = EncodingKey::from_secret(secret.as_bytes());
                let tokens = users.iter().map(|user| token::sign(&key, *user, until));
                tokens.collect::<Result<_, _>>().map_err(SignerError::Secret)
            }
            Self::Command(command) => by_command(command, users).await,
        }
    }
}

async fn by_command(command: &str, users: &[UserId]) -> Result<Vec<String>, SignerError> {
    let mut child = Command::new("sh")
        .arg("-c")
        .arg(command)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(SignerError::Run)?;
    let mut lines = String::new();
    for user in users {
        // Writing to a string cannot fail.
        writeln!(lines, "{user}").ok();
    }
    let input = child.stdin.take();
    // A command that prints while it still reads must not wait for us, nor we for it.
    let writing = tokio::spawn(async move {
        if let Some(mut input) = input {
            // One that reads only a part has said what it wants to by its output.
            input.write_all(lines.as_bytes()).await.ok();
        }
    });
    let output = child.wait_with_output().await.map_err(SignerError::Run)?;
    writing.abort();
    if !output.status.success() {
        return Err(SignerError::Failed { status: output.status.to_string() });
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let tokens = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let tokens: Vec<String> = tokens.map(str::to_owned).collect();
    if tokens.len() != users.len() {
        return Err(SignerError::Count { printed: tokens.len(), users: users.len() });
    }
    Ok(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn by(command: &str) -> Result<Vec<String>, String> {
        let signer = TokenSigner::Command(command.to_owned());
        let users = [UserId(1), UserId(2)];
        let signed = signer.sign(&users, DateTime::UNIX_EPOCH).await;
        signed.map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn a_command_reads_ids_and_prints_tokens_and_any_other_is_refused() {
        let tokens = ["t1".to_owned(), "t2".to_owned()];
        assert_eq!(by("sed s/^/t/").await, Ok(tokens.to_vec()));
        assert!(by("head -n 1").await.unwrap_err().contains("1 tokens for 2 users"));
        assert!(by("exit 3").await.unwrap_err().contains('3'));
    }

    #[tokio::test]
    async fn a_secret_signs_a_token_for_each_user() {
        let signer = TokenSigner::Secret("a secret of the shop".to_owned());
        let tokens = signer.sign(&[UserId(1), UserId(2)], DateTime::UNIX_EPOCH).await.unwrap();
        assert_eq!(tokens.len(), 2);
        assert_ne!(tokens[0], tokens[1]);
    }
}
