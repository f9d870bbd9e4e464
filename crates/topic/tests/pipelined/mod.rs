//! A broker that refuses a producer's first request and accepts the one sent right behind it.

use std::{
    io,
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use devstack::{OwnBroker, at_last};
use topic::{OrderedProducer, ProducerOptions, Record, TopicLayout, TopicNames, ensure_topics};

use crate::held::{Request, published};

/// API key of the request that writes messages.
const PRODUCE: [u8; 2] = [0, 0];

/// How long the damaged request waits for a second one: long after a client that sends one has done so.
const SECOND_WITHIN: Duration = Duration::from_secs(1);

/// Time until both messages are acknowledged.
const PATIENCE: Duration = Duration::from_secs(60);

/// Forwards connections to a broker. In the first request that contains `needle`, it changes a bit of it, so that the
/// broker refuses the batch by its checksum. Returns whether it has done so.
fn forward(listener: TcpListener, broker: &OwnBroker, needle: &'static [u8]) -> Arc<AtomicBool> {
    let broker = broker.server.address();
    let is_damaged = Arc::<AtomicBool>::default();
    let has_come = Arc::clone(&is_damaged);
    thread::spawn(move || {
        for client in listener.incoming() {
            let client = client.unwrap();
            let broker = TcpStream::connect(broker).unwrap();
            let mut answers = broker.try_clone().unwrap();
            let mut to = client.try_clone().unwrap();
            thread::spawn(move || {
                drop(io::copy(&mut answers, &mut to));
                drop(to.shutdown(Shutdown::Both));
            });
            let is_damaged = Arc::clone(&is_damaged);
            thread::spawn(move || {
                // An error means that one side has closed the connection.
                drop(requests(&client, &broker, needle, &is_damaged));
                drop(broker.shutdown(Shutdown::Both));
            });
        }
    });
    has_come
}

fn requests(
    client: &TcpStream,
    broker: &TcpStream,
    needle: &[u8],
    is_damaged: &AtomicBool,
) -> io::Result<()> {
    loop {
        let mut request = Request::read(client)?;
        let found = request.body.windows(needle.len()).position(|window| window == needle);
        if let (true, Some(at)) = (request.body.starts_with(&PRODUCE), found)
            && !is_damaged.swap(true, Ordering::SeqCst)
        {
            request.body[at] ^= 1;
            client.set_read_timeout(Some(SECOND_WITHIN))?;
            drop(client.peek(&mut [0]));
            client.set_read_timeout(None)?;
        }
        request.send(broker)?;
    }
}

mod full {
    use super::*;

    /// The broker takes any first sequence number of a producer that is new to a partition, and librdkafka takes the
    /// acknowledgement of a later batch for that of all before it.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_first_message_that_is_refused_is_not_acknowledged_by_the_one_behind_it() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let way = listener.local_addr().unwrap();
        let broker = OwnBroker::advertised("pipelined", way.port()).await.unwrap();
        let is_first_on_its_way = forward(listener, &broker, b"the first");
        let brokers = way.to_string();
        let names = TopicNames::new("pipelined");
        ensure_topics(&brokers, &names, &TopicLayout::default()).await.unwrap();
        let topic = names.user_coupon();
        let topics = std::slice::from_ref(&topic);
        let options = ProducerOptions::default();
        let mut producer = OrderedProducer::connect(&brokers, topics, options).await.unwrap();
        let payloads: [&[u8]; 2] = [b"the first", b"the second"];
        for payload in payloads {
            let record = Record { topic: &topic, key: b"key", payload, headers: &[] };
            producer.enqueue(&record).await.unwrap();
            // Otherwise they may share a batch.
            at_last(async || {
                is_first_on_its_way.load(Ordering::SeqCst).then_some(()).ok_or("not yet")
            })
            .await;
        }
        tokio::time::timeout(PATIENCE, producer.drained()).await.unwrap().unwrap();
        assert_eq!(published(&brokers, &topic).await, payloads);
    }
}
