//! [`OwnBroker`]: a Kafka node of one test alone.

use std::fs;
use std::path::{Path, PathBuf};

use crate::datadir::copy_folder;
use crate::{Certificates, Error, Options, Process, Result, kafka, paths, ports};

/// Its data, and the same as they were before its first start.
const DATA: &str = "kafka/data";
const FORMATTED: &str = "kafka/formatted";

/// A broker that a test may stop, pause or empty. Dropped, it is gone with its data.
#[derive(Debug)]
pub struct OwnBroker {
    /// The server.
    pub server: Process,
    dir: PathBuf,
}

impl OwnBroker {
    /// Starts one without data; its folder bears `name`, which no other running test may use.
    ///
    /// # Errors
    /// As [`Process::start`].
    pub async fn start(name: &str) -> Result<Self> {
        Self::begin(paths::own_folder(name)?, |_| Ok(())).await
    }

    /// The same, and it listens with TLS too, on the second port given back.
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
            let (plain, controller) = (read("port")?, read("controller-port")?);
            // Of two lines for one setting the later one holds.
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
        Ok((broker.await?, port))
    }

    /// The same without TLS, and it tells its clients to come to `port`, where somebody leads them to it.
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
        let mut server = kafka::prepare(&dir, &Options::default())?;
        set(&dir)?;
        copy_folder(&dir.join(DATA), &dir.join(FORMATTED))?;
        server.start().await?;
        Ok(Self { server, dir })
    }

    /// Ends it and starts it without any data: no topics, no groups.
    ///
    /// # Errors
    /// As [`Process::start`].
    pub async fn empty(&mut self) -> Result<()> {
        self.server.kill()?;
        copy_folder(&self.dir.join(FORMATTED), &self.dir.join(DATA))?;
        self.server.start().await
    }

    /// Ends it and starts it without a topic's messages: the topic is there, and empty.
    ///
    /// # Errors
    /// As [`Process::start`].
    pub async fn lose(&mut self, topic: &str) -> Result<()> {
        self.server.kill()?;
        let data = self.dir.join(DATA);
        for entry in fs::read_dir(&data).map_err(Error::file("read", &data))? {
            let path = entry.map_err(Error::file("read", &data))?.path();
            // A folder for each partition: `<topic>-<number>`.
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.rsplit_once('-').is_some_and(|(of, _)| of == topic) {
                fs::remove_dir_all(&path).map_err(Error::file("remove", &path))?;
            }
        }
        self.server.start().await
    }

    /// Where it is.
    pub fn brokers(&self) -> String {
        self.server.address().to_string()
    }
}

impl Drop for OwnBroker {
    fn drop(&mut self) {
        // Nobody is left to tell; what stays is removed by the next run.
        drop(self.server.kill());
        drop(fs::remove_dir_all(&self.dir));
    }
}
