//! A broker that delays its answer to one kind of request.

use std::{
    io::{self, Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex},
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
    is_closed: Mutex<bool>,
    opened: Condvar,
}

impl Barrier {
    fn set(&self, is_closed: bool) {
        *self.is_closed.lock().unwrap() = is_closed;
        self.opened.notify_all();
    }

    fn pass(&self) {
        let is_closed = self.is_closed.lock().unwrap();
        drop(self.opened.wait_while(is_closed, |is_closed| *is_closed).unwrap());
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
        let (listener, gate) = (self.listener.try_clone().unwrap(), Arc::clone(&self.gate));
        thread::spawn(move || {
            for client in listener.incoming() {
                let (client, broker) = (client.unwrap(), TcpStream::connect(broker).unwrap());
                let (mut from, mut to) = (broker.try_clone().unwrap(), client.try_clone().unwrap());
                // Errors mean that one side has closed the connection.
                thread::spawn(move || {
                    drop(io::copy(&mut from, &mut to));
                    drop(to.shutdown(Shutdown::Both));
                });
                let gate = Arc::clone(&gate);
                thread::spawn(move || {
                    drop(requests(&client, &broker, &gate));
                    drop(broker.shutdown(Shutdown::Both));
                });
            }
        });
    }
}

/// Forwards requests: four bytes of length, two bytes of API key, and the rest.
fn requests(mut client: &TcpStream, mut broker: &TcpStream, gate: &Barrier) -> io::Result<()> {
    loop {
        let mut length = [0; 4];
        client.read_exact(&mut length)?;
        let mut request = vec![0; usize::try_from(u32::from_be_bytes(length)).unwrap()];
        client.read_exact(&mut request)?;
        if request.starts_with(&END_TXN) {
            gate.pass();
        }
        broker.write_all(&[&length[..], &request].concat())?;
    }
}

mod full {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_commit_that_is_not_answered_in_time_is_in_the_way_of_no_later_write() {
        let way = DelayingProxy::new();
        let broker = OwnBroker::advertised("held-commit", way.address().port()).await.unwrap();
        way.lead_to(broker.server.address());
        let (brokers, names) = (way.address().to_string(), TopicNames::new("held"));
        ensure_topics(&brokers, &names, &TopicLayout::default()).await.unwrap();
        let (topic, key) = (names.checkpoint(), b"key".as_slice());
        let writer = FencedWriter::take_over(&brokers, "held").await.unwrap();
        writer.write(&topic, key, b"first").await.unwrap();

        way.gate.set(true);
        let late = writer.write(&topic, key, b"second").await.unwrap_err();
        assert!(late.is_retriable(), "{late:?}");
        way.gate.set(false);
        at_last(async || writer.write(&topic, key, b"third").await).await;

        let messages =
            TableReader::open_to_end(&brokers, &topic).await.unwrap().read_to_end().await.unwrap();
        let published: Vec<_> =
            messages.iter().filter_map(|message| message.payload.as_deref()).collect();
        assert_eq!(published[..2], [b"first".as_slice(), b"second"]);
        assert_eq!(published.last().unwrap(), b"third");
    }
}
