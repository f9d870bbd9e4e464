//! The addresses that are asked, as the settings name them.

use std::net::SocketAddr;

use anyhow::bail;
use tokio::{net::lookup_host, time::timeout};

use super::{ANSWER_MAX, kind::Kind};

/// An entry of `ADMIN_PEERS`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Peer {
    /// What runs there, as far as the settings say it.
    kind: Option<Kind>,
    /// `host:port`. The host may stand for several processes.
    address: String,
}

/// An address to ask.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) kind: Option<Kind>,
    /// As it is shown: the address, or the peer's name if that has none.
    pub(super) shown: String,
    /// The address, or why there is none.
    pub(super) found: Result<SocketAddr, String>,
}

impl Peer {
    /// Reads `host:port` or `process=host:port`. `None`: it is empty.
    ///
    /// # Errors
    /// There is no such process.
    pub(super) fn read(text: &str) -> anyhow::Result<Option<Self>> {
        let text = text.trim();
        if text.is_empty() {
            return Ok(None);
        }
        let Some((name, address)) = text.split_once('=') else {
            let host = text.rsplit_once(':').map_or(text, |(host, _)| host);
            return Ok(Some(Self { kind: Kind::of_host(host), address: text.to_owned() }));
        };
        let Some(kind) = Kind::of_word(name.trim()) else {
            let known = Kind::ALL.map(Kind::word).join(", ");
            bail!("ADMIN_PEERS names a process {name:?}, which is none of {known}");
        };
        Ok(Some(Self { kind: Some(kind), address: address.trim().to_owned() }))
    }

    /// Returns the addresses behind the peer's name, or why there are none.
    pub(super) async fn targets(&self) -> Vec<Target> {
        let none = |why: String| {
            vec![Target { kind: self.kind, shown: self.address.clone(), found: Err(why) }]
        };
        match timeout(ANSWER_MAX, lookup_host(&self.address)).await {
            Ok(Ok(found)) => {
                let of = |at: SocketAddr| Target {
                    kind: self.kind,
                    shown: at.to_string(),
                    found: Ok(at),
                };
                let targets: Vec<Target> = found.map(of).collect();
                if targets.is_empty() {
                    return none("the name stands for no address".to_owned());
                }
                targets
            }
            Ok(Err(error)) => none(runtime::report(&error)),
            Err(_) => none("the name is not resolved".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_may_say_what_runs_there_and_a_wrong_name_is_refused() {
        let read = |text| Peer::read(text).unwrap();
        let peer = |kind, address: &str| Some(Peer { kind, address: address.to_owned() });
        assert_eq!(read("127.0.0.1:9402"), peer(None, "127.0.0.1:9402"));
        assert_eq!(read(" cdc-tailer:9100"), peer(Some(Kind::CdcTailer), "cdc-tailer:9100"));
        assert_eq!(read("api = [::1]:9401 "), peer(Some(Kind::Api), "[::1]:9401"));
        assert_eq!(read(" "), None);
        let why = Peer::read("tailer=127.0.0.1:1").unwrap_err().to_string();
        assert!(why.contains("\"tailer\"") && why.contains("cdc-tailer"), "{why}");
    }
}
