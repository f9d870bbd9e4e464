//! The client connections of a process: their number, addresses and states, and the memory that unfinished requests
//! hold.
//!
//! Everything here is a counter: a connection that ends leaves nothing behind.

pub(crate) mod admin;
pub(crate) mod arriving;
pub(crate) mod client_address;
#[cfg(test)]
mod hostile_clients;
pub(crate) mod limits;
pub(crate) mod listener;
pub(crate) mod metric;
pub(crate) mod open_files;
#[cfg(test)]
mod slow_clients;
mod unacked_bytes;
mod write_timeout;

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};
use tracing::warn;

use crate::connections::{
    client_address::{Network, client},
    limits::Limits,
    metric::{CONNECTIONS, CONNECTIONS_ENDED, LARGEST_ADDRESS, REQUESTS_HELD},
};

/// Bytes of an unfinished request that are not counted: hyper's read buffer has this size, and every connection that
/// has sent something needs one.
const HELD_FREE: usize = 8 * 1024;

/// Interval between log lines about an address with too many connections, so that an attack does not fill the log too.
const WARN_EVERY: Duration = Duration::from_mins(1);

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Waiting for the client to send a request or the rest of its head.
    Waiting,
    /// Reading or processing a request.
    Working,
    /// Sending an answer that the client does not have in full.
    Answering,
}

/// Why the server ended a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Its address has as many connections as allowed.
    Address,
    /// Unfinished requests hold as much memory as allowed.
    Memory,
    /// Its client did not take an answer in time.
    Answer,
}

pub(crate) struct Connections {
    limits: Limits,
    proxies: Vec<Network>,
    permits: Arc<Semaphore>,
    states: [AtomicUsize; 3],
    held: AtomicUsize,
    addresses: Mutex<HashMap<IpAddr, usize>>,
    started: Instant,
    /// Until when the log names no further address, in seconds since `started`.
    silent_until: AtomicU64,
}

/// One connection, shared by the client's `TimedStream` and the service that answers its requests.
pub(crate) struct Connection {
    all: Arc<Connections>,
    peer: IpAddr,
    state: Mutex<State>,
    reads: Mutex<Reads>,
    /// Whether the answer is a stream of events.
    streams: AtomicBool,
    _permit: OwnedSemaphorePermit,
    _of_address: Option<OfAddress>,
}

/// Bytes that were read for requests that are not answered yet.
#[derive(Debug, Default)]
struct Reads {
    held: usize,
    /// Bytes of the last read: at most these can belong to the request after the one that is being answered.
    last: usize,
}

/// One of the connections or requests that an address may have at a time.
pub(crate) struct OfAddress {
    all: Arc<Connections>,
    client: IpAddr,
}

impl State {
    const ALL: [Self; 3] = [Self::Waiting, Self::Working, Self::Answering];

    const fn word(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Working => "working",
            Self::Answering => "answering",
        }
    }
}

impl Ended {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Address => "address",
            Self::Memory => "memory",
            Self::Answer => "answer",
        }
    }

    pub(crate) fn count(self) {
        metrics::counter!(CONNECTIONS_ENDED.name, "reason" => self.word()).increment(1);
    }
}

impl Connections {
    /// Starts without connections. `proxies` are trusted to name their clients.
    pub(crate) fn new(limits: Limits, proxies: Vec<Network>) -> Arc<Self> {
        Arc::new(Self {
            limits,
            proxies,
            permits: Arc::new(Semaphore::new(limits.connections)),
            states: Default::default(),
            held: AtomicUsize::new(0),
            addresses: Mutex::default(),
            started: Instant::now(),
            silent_until: AtomicU64::new(0),
        })
    }

    pub(crate) fn limits(&self) -> Limits {
        self.limits
    }

    /// Waits until another connection may be accepted.
    pub(crate) async fn permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.permits).acquire_owned().await.ok()
    }

    /// Registers a connection from `peer`. Returns `None` if its address has as many as allowed.
    pub(crate) fn open(
        self: &Arc<Self>,
        peer: IpAddr,
        permit: OwnedSemaphorePermit,
    ) -> Option<Arc<Connection>> {
        let of_address = if self.is_proxy(peer) {
            None
        } else {
            let Some(of_address) = self.one_more_of(peer) else {
                self.warn_of(peer);
                Ended::Address.count();
                return None;
            };
            Some(of_address)
        };
        self.states[State::Waiting as usize].fetch_add(1, Relaxed);
        Some(Arc::new(Connection {
            all: Arc::clone(self),
            peer,
            state: Mutex::new(State::Waiting),
            reads: Mutex::default(),
            streams: AtomicBool::new(false),
            _permit: permit,
            _of_address: of_address,
        }))
    }

    /// Counts one more connection or request of a client. Returns `None` if it has as many as allowed.
    fn one_more_of(self: &Arc<Self>, address: IpAddr) -> Option<OfAddress> {
        let client = client(address);
        let mut addresses = self.addresses();
        let count = addresses.entry(client).or_default();
        if self.limits.per_address > 0 && *count >= self.limits.per_address {
            return None;
        }
        *count += 1;
        Some(OfAddress { all: Arc::clone(self), client })
    }

    fn is_proxy(&self, address: IpAddr) -> bool {
        self.proxies.iter().any(|network| network.has(address))
    }

    fn addresses(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Logs an address with too many connections. It may be the operator's own proxy on another machine.
    fn warn_of(&self, peer: IpAddr) {
        let now = self.started.elapsed().as_secs();
        let silent_until = self.silent_until.load(Relaxed);
        let next = now + WARN_EVERY.as_secs();
        let is_ours =
            || self.silent_until.compare_exchange(silent_until, next, Relaxed, Relaxed).is_ok();
        if now >= silent_until && is_ours() {
            warn!(
                client.address = %peer,
                "an address has CONNECTIONS_PER_ADDRESS connections and gets no more: if it is your proxy, \
                 name it in TRUSTED_PROXIES"
            );
        }
    }

    /// Returns the bytes that unfinished requests hold, beyond the [`HELD_FREE`] of each connection.
    pub(crate) fn held(&self) -> usize {
        self.held.load(Relaxed)
    }

    pub(crate) fn in_state(&self, state: State) -> usize {
        self.states[state as usize].load(Relaxed)
    }

    /// Returns the most connections, or requests through a proxy, that one address has.
    pub(crate) fn largest_address(&self) -> usize {
        self.addresses().values().copied().max().unwrap_or(0)
    }

    pub(crate) fn measure(&self) {
        for state in State::ALL {
            metrics::gauge!(CONNECTIONS.name, "state" => state.word())
                .set(self.in_state(state) as f64);
        }
        let free = self.permits.available_permits();
        metrics::gauge!(CONNECTIONS.name, "state" => metric::FREE).set(free as f64);
        metrics::gauge!(LARGEST_ADDRESS.name).set(self.largest_address() as f64);
        metrics::gauge!(REQUESTS_HELD.name).set(self.held() as f64);
    }
}

impl Connection {
    /// Marks the arrival of a request.
    pub(crate) fn begin(&self) {
        self.turn(State::Working);
    }

    /// Marks the answer as made. The bytes read for its request are held no longer. `streams`: it is a stream of events.
    pub(crate) fn answered(&self, streams: bool) {
        self.turn(State::Answering);
        self.streams.store(streams, Relaxed);
        let mut reads = self.reads.lock().unwrap_or_else(PoisonError::into_inner);
        let left = reads.held.min(reads.last);
        self.hold(&mut reads, left);
    }

    /// Marks all answers as taken by the client.
    pub(crate) fn taken(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if *state == State::Answering {
            self.turn_from(&mut state, State::Waiting);
        }
    }

    /// Returns whether a request is being read or worked on.
    pub(crate) fn is_working(&self) -> bool {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) == State::Working
    }

    /// Returns whether the last answer is a stream of events.
    pub(crate) fn streams(&self) -> bool {
        self.streams.load(Relaxed)
    }

    /// Returns whether more of a request may be read.
    pub(crate) fn may_read(&self) -> bool {
        let reads = self.reads.lock().unwrap_or_else(PoisonError::into_inner);
        reads.held < HELD_FREE || self.all.held() < self.all.limits.held
    }

    pub(crate) fn read(&self, bytes: usize) {
        let mut reads = self.reads.lock().unwrap_or_else(PoisonError::into_inner);
        reads.last = bytes;
        let held = reads.held + bytes;
        self.hold(&mut reads, held);
    }

    fn hold(&self, reads: &mut Reads, held: usize) {
        let counted = |bytes: usize| bytes.saturating_sub(HELD_FREE);
        self.all.held.fetch_add(counted(held), Relaxed);
        self.all.held.fetch_sub(counted(reads.held), Relaxed);
        reads.held = held;
    }

    fn turn(&self, next: State) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.turn_from(&mut state, next);
    }

    fn turn_from(&self, state: &mut State, next: State) {
        self.all.states[next as usize].fetch_add(1, Relaxed);
        self.all.states[*state as usize].fetch_sub(1, Relaxed);
        *state = next;
    }

    /// Counts a request that came through a proxy for the client that the proxy names. `lines` are the values of
    /// `X-Forwarded-For`. A client's own connections are counted already.
    ///
    /// # Errors
    /// The client has as many requests under way as allowed.
    pub(crate) fn forwarded<'a>(
        &self,
        lines: impl DoubleEndedIterator<Item = &'a str>,
    ) -> Result<Option<OfAddress>, IpAddr> {
        if !self.all.is_proxy(self.peer) {
            return Ok(None);
        }
        // The last address is the one that the proxy nearest to us has seen. Whatever a client invents stands before
        // it.
        let hops = lines.rev().flat_map(|line| line.rsplit(',')).map(Network::address_of);
        let client = hops.map_while(|hop| hop).find(|hop| !self.all.is_proxy(*hop));
        client.map(|client| self.all.one_more_of(client).ok_or(client)).transpose()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let state = *self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.all.states[state as usize].fetch_sub(1, Relaxed);
        let reads = self.reads.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.all.held.fetch_sub(reads.held.saturating_sub(HELD_FREE), Relaxed);
    }
}

impl Drop for OfAddress {
    fn drop(&mut self) {
        let mut addresses = self.all.addresses();
        if let Some(count) = addresses.get_mut(&self.client) {
            *count -= 1;
            if *count == 0 {
                addresses.remove(&self.client);
            }
        }
    }
}
