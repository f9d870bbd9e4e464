//! A cluster: its masters and their slots.

use std::{collections::BTreeSet, ops::RangeInclusive};

use futures::future::try_join_all;
use redis::{
    AsyncConnectionConfig, ConnectionAddr, ErrorKind, RedisConnectionInfo, RedisError, RedisResult,
    Value, aio::MultiplexedConnection, from_redis_value,
};
use tokio::time::timeout;

use crate::{
    AddressError, Masters, Node,
    hosts::{ANSWER_MAX, Hosts, login_of},
    masters::Master,
    transport::Transport,
};

/// Port of a node if the address names none.
const NODE_PORT: u16 = 6_379;

/// Some nodes of a cluster; each knows the others.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) hosts: Hosts,
    /// Login for every node.
    login: RedisConnectionInfo,
}

/// A range of slots and its master, as reported by some node.
type Range = (u16, u16, NodeAddress);

/// Host and port. The host is `None` if it is that of the node that was asked; the port is for TLS
/// if the connection uses TLS.
type NodeAddress = (Option<String>, u16);

impl Cluster {
    /// Parses the address. `kind` is the scheme without `+cluster`.
    pub(crate) fn parse(kind: &str, authority: &str, path: &str) -> Result<Self, AddressError> {
        if !path.is_empty() {
            return Err(AddressError::Malformed);
        }
        let (login, hosts) = login_of(authority)?;
        Ok(Self { hosts: Hosts::parse(kind, hosts, NODE_PORT, &login)?, login })
    }

    /// Connects to every master that has slots.
    pub(crate) async fn connect(
        &self,
        transport: &Transport,
        config: &AsyncConnectionConfig,
    ) -> RedisResult<Masters> {
        let problem = "no node says who belongs to the cluster";
        let found = self.hosts.ask(transport, problem, ranges).await?;
        // The answer may be out of date even if every connection succeeds.
        self.hosts.ask_another_than(found.by);
        let asked = host_of(self.hosts.each[found.by].addr());
        let opened = masters(found.answer).into_iter().map(async |((host, port), slots)| {
            let host = host.unwrap_or_else(|| asked.clone());
            let connection = self.open(transport, config, &host, port).await?;
            RedisResult::Ok(Master { host, port, slots, connection })
        });
        Masters::of_cluster(try_join_all(opened).await?)
    }

    /// Returns each range of slots with its master, ordered. Asks the nodes of the address, and if none of them answers,
    /// those that `known` names.
    pub(crate) async fn slots(
        &self,
        transport: &Transport,
        known: &BTreeSet<Node>,
    ) -> RedisResult<Vec<(RangeInclusive<u16>, Node)>> {
        let problem = "no node says who has which slots";
        let failure = match self.hosts.ask(transport, problem, ranges).await {
            Ok(found) => {
                // The answer may be out of date.
                self.hosts.ask_another_than(found.by);
                return Ok(named(found.answer, &host_of(self.hosts.each[found.by].addr())));
            }
            Err(failure) => failure,
        };
        // The timeout below already covers connecting.
        let config = AsyncConnectionConfig::new().set_connection_timeout(None);
        for (host, port) in known.iter().filter_map(Node::place) {
            let asked = async { ranges(self.open(transport, &config, host, port).await?).await };
            if let Ok(Ok(answer)) = timeout(ANSWER_MAX, asked).await {
                return Ok(named(answer, host));
            }
        }
        Err(failure)
    }

    /// Connects to a node that another node named, and checks that it is a master.
    pub(crate) async fn open(
        &self,
        transport: &Transport,
        config: &AsyncConnectionConfig,
        host: &str,
        port: u16,
    ) -> RedisResult<MultiplexedConnection> {
        let server = transport.server_at(host.to_owned(), port, &self.login)?;
        transport.open_master(server, config).await
    }
}

impl Masters {
    /// Returns whether a master of the cluster reports other slots than these connections were opened for. A slot that
    /// no client reads or writes moves without an error on any connection. The report of a master that is cut off from
    /// the others is ignored.
    pub async fn have_moved(&self) -> bool {
        if !self.is_cluster() {
            return false;
        }
        let opened = sorted(self.slots_by_port());
        for master in self.all() {
            let Ok(reported) = ranges(master).await else { continue };
            let reported = masters(reported).into_iter().map(|((_, port), slots)| (port, slots));
            if sorted(reported) != opened {
                return true;
            }
        }
        false
    }
}

/// The slots of each port, ordered. A node's host has several names, so it is not compared.
fn sorted(all: impl Iterator<Item = (u16, Vec<(u16, u16)>)>) -> Vec<(u16, Vec<(u16, u16)>)> {
    let mut all: Vec<_> = all
        .map(|(port, mut slots)| {
            slots.sort_unstable();
            (port, slots)
        })
        .collect();
    all.sort_unstable();
    all
}

fn host_of(address: &ConnectionAddr) -> String {
    match address {
        ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => host.clone(),
        other => other.to_string(),
    }
}

/// Returns every range of slots with its master, from a node that is not cut off from the others.
async fn ranges(mut node: MultiplexedConnection) -> RedisResult<Vec<Range>> {
    let (state, ranges): (String, Vec<Vec<Value>>) = redis::pipe()
        .cmd("CLUSTER")
        .arg("INFO")
        .cmd("CLUSTER")
        .arg("SLOTS")
        .query_async(&mut node)
        .await?;
    if !state.contains("cluster_state:ok") {
        return Err(RedisError::from((ErrorKind::Io, "the cluster is not whole to it")));
    }
    ranges.into_iter().map(range).collect()
}

/// Reads one range of `CLUSTER SLOTS`: first slot, last slot, the master, then its replicas.
pub(crate) fn range(parts: Vec<Value>) -> RedisResult<Range> {
    let unreadable = || RedisError::from((ErrorKind::Parse, "CLUSTER SLOTS cannot be read"));
    let number = |value: Option<Value>| -> RedisResult<u16> {
        // The driver would truncate a number that is too large for 16 bits.
        let number: i64 = from_redis_value(value.ok_or_else(unreadable)?)?;
        u16::try_from(number).map_err(|_| unreadable())
    };
    let mut parts = parts.into_iter();
    let [first, last, master] = [parts.next(), parts.next(), parts.next()];
    let first = number(first)?;
    let last = number(last)?;
    let master: Vec<Value> = from_redis_value(master.ok_or_else(unreadable)?)?;
    let mut master = master.into_iter();
    let host: Option<String> = from_redis_value(master.next().ok_or_else(unreadable)?)?;
    let port = number(master.next())?;
    if host.as_deref() == Some("?") {
        let problem = "a node has no name: set cluster-announce-hostname";
        return Err(RedisError::from((ErrorKind::Io, problem)));
    }
    Ok((first, last, (host.filter(|host| !host.is_empty()), port)))
}

/// Orders the ranges. `asked` is the host of the node that reported them.
fn named(mut ranges: Vec<Range>, asked: &str) -> Vec<(RangeInclusive<u16>, Node)> {
    ranges.sort_unstable_by_key(|(first, _, _)| *first);
    let named = |(first, last, (host, port)): Range| {
        (first..=last, Node::at(host.unwrap_or_else(|| asked.to_owned()), port))
    };
    ranges.into_iter().map(named).collect()
}

/// Groups the ranges by master.
pub(crate) fn masters(ranges: Vec<Range>) -> Vec<(NodeAddress, Vec<(u16, u16)>)> {
    let mut masters: Vec<(NodeAddress, Vec<(u16, u16)>)> = Vec::new();
    for (first, last, address) in ranges {
        match masters.iter_mut().find(|(known, _)| *known == address) {
            Some((_, slots)) => slots.push((first, last)),
            None => masters.push((address, vec![(first, last)])),
        }
    }
    masters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_no_slot_and_no_port_has_is_not_cut_to_one() {
        let read = |first, last, port| {
            let master = vec![Value::BulkString(b"a".to_vec()), Value::Int(port)];
            range(vec![Value::Int(first), Value::Int(last), Value::Array(master)])
        };
        let address = (Some("a".to_owned()), 6_379);
        assert_eq!(read(0, 16_383, 6_379).unwrap(), (0, 16_383, address));
        for (first, last, port) in [(65_536, 16_383, 6_379), (0, -1, 6_379), (0, 16_383, 71_915)] {
            assert!(read(first, last, port).is_err(), "{first} {last} {port}");
        }
    }
}
