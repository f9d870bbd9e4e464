//! A server that answers everything except requests for its binlog, as while a slow disk delays a new binlog file.
#![expect(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::{
    io::{Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use crate::harness::{Harness, coupon};

/// Number of connections lost when they request the binlog.
const LOST: usize = 4;

/// Protocol commands: dump the binlog from an offset, or after a set of GTIDs.
const DUMPS: [u8; 2] = [0x12, 0x1e];

/// A proxy before the server that disconnects the first [`LOST`] clients that request the binlog.
struct CuttingProxy {
    address: SocketAddr,
    broken: Arc<AtomicUsize>,
}

impl CuttingProxy {
    fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let broken = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&broken);
        thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.unwrap();
                let server = TcpStream::connect(server).unwrap();
                let back = (server.try_clone().unwrap(), client.try_clone().unwrap());
                thread::spawn(move || pass(back.0, back.1, |_| true));
                let counted = Arc::clone(&counted);
                thread::spawn(move || {
                    pass(client, server, |bytes| {
                        // Three bytes of length, the packet's number, the command.
                        let asks = bytes.get(3) == Some(&0)
                            && bytes.get(4).is_some_and(|command| DUMPS.contains(command));
                        !asks || counted.fetch_add(1, Ordering::Relaxed) >= LOST
                    });
                });
            }
        });
        Self { address, broken }
    }
}

/// Forwards bytes until one side closes, or `may_pass` returns false.
fn pass(mut from: TcpStream, mut to: TcpStream, mut may_pass: impl FnMut(&[u8]) -> bool) {
    let mut bytes = [0; 4_096];
    while let Ok(count) = from.read(&mut bytes) {
        let passed = &bytes[..count];
        if count == 0 || !may_pass(passed) || to.write_all(passed).is_err() {
            break;
        }
    }
    // Errors mean that a side is closed already.
    drop((from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_start_outlasts_a_server_that_gives_nobody_its_binlog() {
    let mut test = Harness::new("stalled binlog").await;
    test.sql(&coupon(1, 1));
    let url = test.config.database_url.expose().to_owned();
    let server = url.split(['@', '/']).find_map(|part| part.parse().ok()).unwrap();
    let way = CuttingProxy::to(server);
    // The proxy must be able to read the commands.
    let url = url.replace(&server.to_string(), &way.address.to_string());
    test.config.database_url = format!("{url}?ssl-mode=DISABLED").parse().unwrap();
    let running = test.start().await;
    assert!(way.broken.load(Ordering::Relaxed) > LOST, "it was never in its way");
    test.sql(&coupon(2, 2));
    assert_eq!(test.coupon_ids_until(2).await, [1, 2]);
    running.stop().await.unwrap();
}
