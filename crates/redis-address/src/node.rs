//! [`Node`]: one of the servers of an address.

use std::fmt;

/// A master of a cluster, by its host and port; or the only server of another address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node(Option<(String, u16)>);

impl Node {
    /// The server of an address that is not a cluster's: the address alone leads to it.
    pub(crate) fn the_only() -> Self {
        Self(None)
    }

    pub(crate) fn at(host: String, port: u16) -> Self {
        Self(Some((host, port)))
    }

    pub(crate) fn place(&self) -> Option<(&str, u16)> {
        self.0.as_ref().map(|(host, port)| (&**host, *port))
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some((host, port)) => write!(f, "{host}:{port}"),
            None => f.write_str("the server"),
        }
    }
}
