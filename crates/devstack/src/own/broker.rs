//! [`OwnBroker`]: a Kafka node for a single test.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use crate::process::{ports, probe::Probe};
use crate::servers::{datadir::copy_folder, kafka};
use crate::tier::full_only;
use crate::{Certificates, Error, Options, Process, Result, paths};

/// Its data folder, and a copy of it from before the first start.
const DATA: &str = "kafka/data";
const FORMATTED: &str = "kafka/formatted";

/// A partition's first file of messages.
const FIRST_SEGMENT: &str = "00000000000000000000.log";

/// Bytes of a batch before its records, which may be compressed.
const BATCH_HEADER: usize = 61;

/// A broker that a test may stop, pause or empty. Dropping the value removes it and its data.
#[derive(Debug)]
pub struct OwnBroker {
    pub server: Process,
    dir: PathBuf,
}

impl OwnBroker {
    /// Starts a broker without data, in a folder called `name`. No other running test may use that name.
    ///
    /// # Errors
    /// As [`Process::start`].
    pub async fn start(name: &str) -> Result<Self> {
        Self::begin(paths::own_folder(name)?, |_| Ok(())).await
    }

    /// Like [`OwnBroker::start`]; the broker also listens with TLS, on the returned port, and answers there.
    ///
    /// # Errors
    /// As [`Process::start`].
    pub async fn with_tls(name: &str, certificates: &Certificates) -> Result<(Self, u16)> {
        let port = ports::free()?;
        let broker = Self::begin(paths::own_folder(name)?, |dir| {
            let home = dir.join("kafka");
            let read = |name: &str| {
                let file = home.join(name);
                fs::read_to_string(&file).map_err(Error::file("read", file))
            };
            let plain = read("port")?;
            let controller = read("controller-port")?;
            // The later of two lines for one setting wins.
            let properties = format!(
                "{}\n\
                 listeners=PLAINTEXT://127.0.0.1:{plain},CONTROLLER://127.0.0.1:{controller},\
                 SSL://127.0.0.1:{port}\n\
                 advertised.listeners=PLAINTEXT://127.0.0.1:{plain},SSL://127.0.0.1:{port}\n\
                 listener.security.protocol.map=\
                 PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL\n\
                 ssl.keystore.type=PEM\n\
                 ssl.keystore.location={}\n",
                read("server.properties")?,
                certificates.keystore()
            );
            let file = home.join("server.properties");
            fs::write(&file, properties).map_err(Error::file("write", file))
        });
        let mut broker = broker.await?;
        let by_tls = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        broker.server.answers(Probe::Tls, by_tls).await?;
        Ok((broker, port))
    }

    /// Like [`OwnBroker::start`]; the broker advertises `port`, where a test's proxy forwards to it.
    ///
    /// # Errors
    /// As [`Process::start`].
    pub async fn advertised(name: &str, port: u16) -> Result<Self> {
        Self::begin(paths::own_folder(name)?, |dir| {
            let file = dir.join("kafka/server.properties");
            let ours = fs::read_to_string(&file).map_err(Error::file("read", &file))?;
            let line = format!("advertised.listeners=PLAINTEXT://127.0.0.1:{port}");
            fs::write(&file, format!("{ours}\n{line}\n")).map_err(Error::file("write", &file))
        })
        .await
    }

    async fn begin(dir: PathBuf, set: impl FnOnce(&Path) -> Result<()>) -> Result<Self> {
        full_only("starts a broker of its own");
        let mut server = kafka::prepare(&dir, &Options::default())?;
        set(&dir)?;
        copy_folder(&dir.join(DATA), &dir.join(FORMATTED))?;
        server.start().await?;
        Ok(Self { server, dir })
    }

    /// Kills the broker and starts it without any data: no topics, no groups.
    ///
    /// # Errors
    /// As [`Process::start`].
    pub async fn empty(&mut self) -> Result<()> {
        self.server.kill()?;
        copy_folder(&self.dir.join(FORMATTED), &self.dir.join(DATA))?;
        self.server.start().await
    }

    /// Kills the broker and starts it without a topic's messages: the topic exists and is empty.
    ///
    /// # Errors
    /// As [`Process::start`].
    pub async fn lose(&mut self, topic: &str) -> Result<()> {
        self.server.kill()?;
        let data = self.dir.join(DATA);
        for entry in fs::read_dir(&data).map_err(Error::file("read", &data))? {
            let path = entry.map_err(Error::file("read", &data))?.path();
            // Each partition has a folder `<topic>-<number>`.
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.rsplit_once('-').is_some_and(|(of, _)| of == topic) {
                fs::remove_dir_all(&path).map_err(Error::file("remove", &path))?;
            }
        }
        self.server.start().await
    }

    /// Inverts the records of the batch that begins at `offset`, as a failing disk may, while the broker runs. A second
    /// call repairs them.
    ///
    /// # Errors
    /// The file cannot be read or written.
    ///
    /// # Panics
    /// No batch begins there.
    pub fn spoil(&self, topic: &str, partition: i32, offset: i64) -> Result<()> {
        let file = self.dir.join(DATA).join(format!("{topic}-{partition}")).join(FIRST_SEGMENT);
        let mut log = fs::read(&file).map_err(Error::file("read", &file))?;
        let mut begin = 0;
        while let Some(batch) = log.get_mut(begin..).filter(|rest| rest.len() > BATCH_HEADER) {
            let first = i64::from_be_bytes(std::array::from_fn(|at| batch[at]));
            let length = u32::from_be_bytes(std::array::from_fn(|at| batch[8 + at])) as usize + 12;
            if first == offset {
                batch[BATCH_HEADER..length].iter_mut().for_each(|byte| *byte = !*byte);
                return fs::write(&file, log).map_err(Error::file("write", &file));
            }
            begin += length;
        }
        panic!("no batch of {topic} begins at {offset} in partition {partition}");
    }

    /// The broker's address, as `KAFKA_BROKERS` takes it.
    pub fn brokers(&self) -> String {
        self.server.address().to_string()
    }
}

impl Drop for OwnBroker {
    fn drop(&mut self) {
        // A destructor cannot report errors; the next run removes leftovers.
        drop(self.server.discard());
        drop(fs::remove_dir_all(&self.dir));
    }
}
