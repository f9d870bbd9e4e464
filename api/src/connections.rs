//! The connections of a process: how many, whose, what each is waiting for, and what unfinished requests hold.
//!
//! Everything here is counted, nothing is remembered: a connection that ends leaves no trace.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};
use tracing::warn;

use crate::{
    client_address::{Network, client},
    limits::Limits,
    metrics::{CONNECTIONS, CONNECTIONS_ENDED, LARGEST_ADDRESS, REQUESTS_HELD},
};

/// Bytes of an unfinished request that are not counted: what any connection costs that has sent something, since
/// hyper reads into a buffer of this size.
const HELD_FREE: usize = 8 * 1024;

/// How often the log names an address that has too many connections: an attack shall not fill the log too.
const WARN_EVERY: Duration = Duration::from_mins(1);

/// What a connection is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Nothing, or half a head: the client is waited for.
    Waiting,
    /// A request is read or worked on.
    Working,
    /// The client does not have all of its answer yet.
    Answering,
}

/// Why we have ended a connection that was no longer bearable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Its address has as many as one may have.
    Address,
    /// Unfinished requests hold as much as they may.
    Memory,
    /// Its client did not take an answer in time.
    Answer,
}

/// All connections.
pub(crate) struct Connections {
    limits: Limits,
    proxies: Vec<Network>,
    places: Arc<Semaphore>,
    states: [AtomicUsize; 3],
    held: AtomicUsize,
    addresses: Mutex<HashMap<IpAddr, usize>>,
    started: Instant,
    /// Seconds from the start until which the log names no further address.
    silent_until: AtomicU64,
}

/// One connection; its client's line and the service that answers it share it.
pub(crate) struct Connection {
    all: Arc<Connections>,
    peer: IpAddr,
    state: Mutex<State>,
    reads: Mutex<Reads>,
    _place: OwnedSemaphorePermit,
    _of_address: Option<OfAddress>,
}

/// Bytes that were read of requests which are not answered yet.
#[derive(Debug, Default)]
struct Reads {
    held: usize,
    /// Of the last read: no more than this can belong to the request after the one that is answered.
    last: usize,
}

/// One of the connections or requests that an address may have at a time.
pub(crate) struct OfAddress {
    all: Arc<Connections>,
    client: IpAddr,
}

impl State {
    const ALL: [Self; 3] = [Self::Waiting, Self::Working, Self::Answering];

    fn word(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Working => "working",
            Self::Answering => "answering",
        }
    }
}

impl Ended {
    pub(crate) const ALL: [Self; 3] = [Self::Address, Self::Memory, Self::Answer];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Address => "address",
            Self::Memory => "memory",
            Self::Answer => "answer",
        }
    }

    pub(crate) fn count(self) {
        metrics::counter!(CONNECTIONS_ENDED, "reason" => self.word()).increment(1);
    }
}

impl Connections {
    /// None yet; who is among the `proxies` speaks for others.
    pub(crate) fn new(limits: Limits, proxies: Vec<Network>) -> Arc<Self> {
        Arc::new(Self {
            limits,
            proxies,
            places: Arc::new(Semaphore::new(limits.connections)),
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

    /// Waits until another connection may be taken.
    pub(crate) async fn place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places).acquire_owned().await.ok()
    }

    /// A connection from `peer` in its place; absent: its address has enough.
    pub(crate) fn open(
        self: &Arc<Self>,
        peer: IpAddr,
        place: OwnedSemaphorePermit,
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
            _place: place,
            _of_address: of_address,
        }))
    }

    /// Counts one more of a client's; absent: it has enough.
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

    /// The reader may be a person whose proxy is on another machine.
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

    /// Bytes that unfinished requests hold, those aside that any connection may hold.
    pub(crate) fn held(&self) -> usize {
        self.held.load(Relaxed)
    }

    /// How many connections there are in a state.
    pub(crate) fn in_state(&self, state: State) -> usize {
        self.states[state as usize].load(Relaxed)
    }

    /// How many connections, or requests by way of a proxy, the address has that has the most.
    pub(crate) fn largest_address(&self) -> usize {
        self.addresses().values().copied().max().unwrap_or(0)
    }

    /// Writes the gauges.
    pub(crate) fn measure(&self) {
        for state in State::ALL {
            metrics::gauge!(CONNECTIONS, "state" => state.word()).set(self.in_state(state) as f64);
        }
        let free = self.places.available_permits();
        metrics::gauge!(CONNECTIONS, "state" => "free").set(free as f64);
        metrics::gauge!(LARGEST_ADDRESS).set(self.largest_address() as f64);
        metrics::gauge!(REQUESTS_HELD).set(self.held() as f64);
    }
}

impl Connection {
    /// Another request has come.
    pub(crate) fn begin(&self) {
        self.turn(State::Working);
    }

    /// Its answer is made; what was read for it is held no longer.
    pub(crate) fn answered(&self) {
        self.turn(State::Answering);
        let mut reads = self.reads.lock().unwrap_or_else(PoisonError::into_inner);
        let left = reads.held.min(reads.last);
        self.hold(&mut reads, left);
    }

    /// The client has all that was answered.
    pub(crate) fn taken(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if *state == State::Answering {
            self.turn_from(&mut state, State::Waiting);
        }
    }

    /// Whether more may be read of its request.
    pub(crate) fn may_read(&self) -> bool {
        let reads = self.reads.lock().unwrap_or_else(PoisonError::into_inner);
        reads.held < HELD_FREE || self.all.held() < self.all.limits.held
    }

    /// So much was read.
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

    /// Counts a request that came by way of a proxy to the client which the proxy names; `forwarded` are the lines of
    /// `X-Forwarded-For`. A client's own connections are counted already.
    ///
    /// # Errors
    /// That client has as many under way as one may have.
    pub(crate) fn forwarded<'a>(
        &self,
        lines: impl DoubleEndedIterator<Item = &'a str>,
    ) -> Result<Option<OfAddress>, IpAddr> {
        if !self.all.is_proxy(self.peer) {
            return Ok(None);
        }
        // The last one is what the proxy nearest to us has seen; whatever a client has made up stands before it.
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
