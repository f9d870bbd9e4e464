//! Flags that every process takes, and the type of secret values.

use std::{fmt, net::SocketAddr, str::FromStr, time::Duration};

use clap::{Args, ValueEnum};
use secrecy::{ExposeSecret, SecretString};

/// Flags and environment variables common to every process.
#[derive(Debug, Clone, Args)]
pub struct ProcessConfig {
    /// Address of the admin listener: /livez, /readyz, /status and /metrics. Keep it off the public network.
    #[arg(long, env = "ADMIN_LISTEN", default_value = "127.0.0.1:0")]
    pub admin_listen: SocketAddr,

    /// Format of log lines: `text` for people, `json` for collectors.
    #[arg(long, env = "LOG_FORMAT", value_enum, default_value = "text")]
    pub log_format: LogFormat,

    /// Filter for log lines, in tracing's syntax, e.g. `info,landing=debug`.
    #[arg(long, env = "RUST_LOG", default_value = "info")]
    pub log_filter: String,

    /// Address of the collector that receives trace spans (OTLP over HTTP), e.g. `http://127.0.0.1:4318`. Without it no
    /// spans are made.
    #[arg(long, env = "OTEL_EXPORTER_OTLP_ENDPOINT", value_name = "URL")]
    pub otlp_endpoint: Option<String>,

    /// Share of requests without a traceparent that are traced, from 0 to 1. A request with a traceparent is traced if
    /// its sampled flag is set.
    #[arg(long, env = "OTEL_TRACES_SAMPLER_ARG", default_value = "0.01", value_name = "SHARE")]
    pub trace_share: Share,

    /// How long SIGTERM leaves the process at work, though not ready, so that balancers stop sending it requests first.
    /// For processes that others send requests to.
    #[arg(skip)]
    pub leave: Duration,
}

/// A number from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share(pub f64);

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse() {
            Ok(share) if (0.0..=1.0).contains(&share) => Ok(Self(share)),
            _ => Err("a share is a number from 0 to 1".to_owned()),
        }
    }
}

/// Format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One readable line per event.
    Text,
    /// One JSON object per event.
    Json,
}

/// A configuration value that must never be printed: passwords, keys, URLs that contain them.
#[derive(Clone)]
pub struct Secret(SecretString);

impl Secret {
    /// Returns the value itself. Call it only where the value is passed to a client library.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

impl FromStr for Secret {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(SecretString::from(text.to_owned())))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_a_number_from_0_to_1() {
        assert_eq!("0.25".parse(), Ok(Share(0.25)));
        for wrong in ["", "1.1", "-0.1", "NaN", "all"] {
            assert!(wrong.parse::<Share>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_secret_is_not_printed() {
        let secret: Secret = "hunter2".parse().unwrap();
        assert_eq!(format!("{secret:?}"), "[secret]");
        assert_eq!(secret.expose(), "hunter2");
    }
}
