//! A network that delays requests that end a transaction.

use std::{
    collections::BTreeSet,
    io::{self, Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use devstack::{OwnBroker, at_last};
use topic::{FencedWriter, TableReader, TopicLayout, TopicNames, ensure_topics};

/// API key of the request that ends a transaction.
const END_TXN: [u8; 2] = [0, 26];

/// A proxy in front of a broker that can delay requests that end a transaction.
struct DelayingProxy {
    listener: TcpListener,
    gate: Arc<Barrier>,
}

#[derive(Default)]
struct Barrier {
    state: Mutex<State>,
    changed: Condvar,
    /// Requests that were held and are answered by now.
    answered: AtomicUsize,
}

#[derive(Default)]
struct State {
    is_closed: bool,
    /// Closes behind a request with these bytes.
    closes_behind: Option<&'static [u8]>,
    /// Number of requests that have come, and those of them that are held although the barrier is open.
    come: usize,
    kept: BTreeSet<usize>,
}

impl Barrier {
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let changed = change(&mut self.state.lock().unwrap());
        self.changed.notify_all();
        changed
    }

    /// Waits until the request may go on. Returns whether it was held.
    fn pass(&self) -> bool {
        let (number, is_held) = self.change(|state| {
            state.come += 1;
            (state.come, state.is_closed)
        });
        let is_held_now = |state: &mut State| state.is_closed || state.kept.contains(&number);
        drop(self.changed.wait_while(self.state.lock().unwrap(), is_held_now).unwrap());
        is_held
    }
}

impl DelayingProxy {
    fn new() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").unwrap(), gate: Arc::default() }
    }

    fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap()
    }

    /// Forwards connections to the broker.
    fn lead_to(&self, broker: SocketAddr) {
        let listener = self.listener.try_clone().unwrap();
        let gate = Arc::clone(&self.gate);
        thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.unwrap();
                let broker = TcpStream::connect(broker).unwrap();
                let from = broker.try_clone().unwrap();
                let to = client.try_clone().unwrap();
                let gate = Arc::clone(&gate);
                let held = Arc::<AtomicUsize>::default();
                let answers = Arc::clone(&gate);
                let held_here = Arc::clone(&held);
                thread::spawn(move || {
                    drop(pass_answers(from, &to, &answers, &held_here));
                    drop(to.shutdown(Shutdown::Both));
                });
                thread::spawn(move || {
                    // An error means that one side has closed the connection.
                    drop(requests(&client, &broker, &gate, &held));
                    // What was held may still be answered.
                    if held.load(Ordering::SeqCst) == 0 {
                        drop(broker.shutdown(Shutdown::Both));
                    }
                });
            }
        });
    }
}

/// Forwards answers, and counts those to requests that were held: the client may be gone by then.
fn pass_answers(
    mut broker: TcpStream,
    mut client: &TcpStream,
    gate: &Barrier,
    held: &AtomicUsize,
) -> io::Result<()> {
    let mut some = vec![0; 64 * 1024];
    loop {
        let length = broker.read(&mut some)?;
        gate.answered.fetch_add(held.swap(0, Ordering::SeqCst), Ordering::SeqCst);
        if length == 0 || client.write_all(&some[..length]).is_err() {
            return Ok(());
        }
    }
}

/// A request of the Kafka protocol: four bytes of length, two bytes of API key, and the rest.
pub(crate) struct Request {
    length: [u8; 4],
    /// From the API key on.
    pub(crate) body: Vec<u8>,
}

impl Request {
    pub(crate) fn read(mut client: &TcpStream) -> io::Result<Self> {
        let mut length = [0; 4];
        client.read_exact(&mut length)?;
        let mut body = vec![0; usize::try_from(u32::from_be_bytes(length)).unwrap()];
        client.read_exact(&mut body)?;
        Ok(Self { length, body })
    }

    pub(crate) fn send(&self, mut broker: &TcpStream) -> io::Result<()> {
        broker.write_all(&[&self.length[..], &self.body].concat())
    }
}

/// Forwards requests.
fn requests(
    client: &TcpStream,
    broker: &TcpStream,
    gate: &Barrier,
    held: &AtomicUsize,
) -> io::Result<()> {
    loop {
        let request = Request::read(client)?;
        if request.body.starts_with(&END_TXN) && gate.pass() {
            held.fetch_add(1, Ordering::SeqCst);
        }
        request.send(broker)?;
        gate.change(|state| {
            let behind = state.closes_behind.filter(|needle| {
                request.body.windows(needle.len()).any(|window| window == *needle)
            });
            if behind.is_some() {
                (state.is_closed, state.closes_behind) = (true, None);
            }
        });
    }
}

/// Takes over an id on a new broker. It first makes the topic of its transactions, and refuses to begin one until it has
/// read that topic: on a busy machine for longer than a writer waits. A tailer tries again as well.
async fn first_writer(brokers: &str, id: &str) -> FencedWriter {
    at_last(async || FencedWriter::take_over(brokers, id).await).await
}

/// Returns what a reader of committed messages sees.
pub(crate) async fn published(brokers: &str, topic: &str) -> Vec<Vec<u8>> {
    let reader = TableReader::open_to_end(brokers, topic).await.unwrap();
    let messages = reader.read_to_end().await.unwrap();
    messages.into_iter().filter_map(|message| message.payload).collect()
}

mod full {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_commit_that_is_not_answered_in_time_is_in_the_way_of_no_later_write() {
        let way = DelayingProxy::new();
        let broker = OwnBroker::advertised("held-commit", way.address().port()).await.unwrap();
        way.lead_to(broker.server.address());
        let brokers = way.address().to_string();
        let names = TopicNames::new("held");
        ensure_topics(&brokers, &names, &TopicLayout::default()).await.unwrap();
        let topic = names.checkpoint();
        let key = b"key".as_slice();
        let writer = first_writer(&brokers, "held").await;
        writer.write(&topic, key, b"first").await.unwrap();

        way.gate.change(|state| state.is_closed = true);
        let late = writer.write(&topic, key, b"second").await.unwrap_err();
        assert!(late.is_retriable(), "{late:?}");
        way.gate.change(|state| state.is_closed = false);
        at_last(async || writer.write(&topic, key, b"third").await).await;
        let published = published(&brokers, &topic).await;
        assert_eq!(published[0], b"first");
        assert_eq!(published.last().unwrap(), b"third");
    }

    /// The client does not say which transaction it ends.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_commit_that_arrives_late_ends_no_later_transaction() {
        let way = DelayingProxy::new();
        let broker = OwnBroker::advertised("late-commit", way.address().port()).await.unwrap();
        way.lead_to(broker.server.address());
        let brokers = way.address().to_string();
        let names = TopicNames::new("late");
        ensure_topics(&brokers, &names, &TopicLayout::default()).await.unwrap();
        let topic = names.checkpoint();
        let key = b"key".as_slice();
        let writer = Arc::new(first_writer(&brokers, "late").await);
        writer.write(&topic, key, b"first").await.unwrap();

        let late = way.gate.change(|state| {
            state.is_closed = true;
            state.come + 1
        });
        writer.write(&topic, key, b"second").await.unwrap_err();
        way.gate.change(|state| {
            state.kept.insert(late);
            (state.is_closed, state.closes_behind) = (false, Some(b"third".as_slice()));
        });
        let third = Arc::clone(&writer);
        let own_topic = topic.clone();
        let third = tokio::spawn(async move {
            while let Err(error) = third.write(&own_topic, b"key", b"third").await {
                assert!(error.is_retriable(), "{error:?}");
            }
        });
        // Its message is written, and its commit is on the way.
        let seen = way.gate.change(|state| state.come);
        at_last(async || {
            let (is_closed, come) = way.gate.change(|state| (state.is_closed, state.come));
            if is_closed && come > seen { Ok(()) } else { Err((is_closed, come)) }
        })
        .await;
        let answered = way.gate.answered.load(Ordering::SeqCst);
        way.gate.change(|state| {
            // All others stay where they are.
            state.kept = (1..=state.come + 1).filter(|number| *number != late).collect();
            state.is_closed = false;
        });
        at_last(async || match way.gate.answered.load(Ordering::SeqCst) {
            now if now > answered => Ok(()),
            now => Err(now),
        })
        .await;
        let before = published(&brokers, &topic).await;
        assert!(!before.contains(&b"third".to_vec()), "committed before its commit was sent");
        way.gate.change(|state| state.kept.clear());
        third.await.unwrap();
        assert_eq!(published(&brokers, &topic).await.last().unwrap(), b"third");
    }

    /// The writer does not know whether it was replaced in between.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_writer_that_lost_an_answer_does_not_take_over_from_its_successor() {
        let way = DelayingProxy::new();
        let broker = OwnBroker::advertised("lost-commit", way.address().port()).await.unwrap();
        way.lead_to(broker.server.address());
        let brokers = way.address().to_string();
        let names = TopicNames::new("lost");
        ensure_topics(&brokers, &names, &TopicLayout::default()).await.unwrap();
        let topic = names.checkpoint();
        let key = b"key".as_slice();
        let writer = first_writer(&brokers, "lost").await;
        writer.write(&topic, key, b"first").await.unwrap();
        way.gate.change(|state| state.is_closed = true);
        writer.write(&topic, key, b"second").await.unwrap_err();
        way.gate.change(|state| state.is_closed = false);
        let successor = FencedWriter::take_over(&brokers, "lost").await.unwrap();
        successor.write(&topic, key, b"its own").await.unwrap();
        let refused = writer.write(&topic, key, b"third").await.unwrap_err();
        assert!(matches!(refused, topic::TopicError::Fenced { .. }), "{refused:?}");
        assert_eq!(published(&brokers, &topic).await.last().unwrap(), b"its own");
    }
}
