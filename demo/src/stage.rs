//! Private servers and a platform on them, in a folder that is fresh at the start and gone at the end.

use std::{fs, path::PathBuf, time::Duration};

use anyhow::{Context as _, Result};
use devstack::{Options, Platform, PlatformOptions, Servers, project_root};
use runtime::Clock;
use shopper::Api;
use tokio::time::{Instant, sleep};
use topic::{TopicError, TopicLayout, TopicNames, ensure_topics, topic_offsets};
use verifier::{Settings, Sources};

/// Partitions of the keyed topics: enough for every process to have several, few enough for one broker
/// on a small machine to create at once.
const PARTITIONS: i32 = 8;

/// How long a new topic may stay without a leader.
const LED_MAX: Duration = Duration::from_secs(15);

/// Pause between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Where data and logs of the demo lie.
pub(crate) fn folder() -> PathBuf {
    project_root().join(".dev/demo")
}

/// Everything that the demo plays on.
pub(crate) struct Stage {
    pub(crate) api: Api,
    pub(crate) sources: Sources,
    pub(crate) clock: Clock,
    platform: Platform,
    servers: Servers,
}

impl Stage {
    pub(crate) async fn start() -> Result<Self> {
        wipe()?;
        let servers = Servers::start(&folder(), &Options::default()).await?;
        let endpoints = servers.endpoints();
        let options = PlatformOptions::new(folder());
        create_topics(&endpoints.kafka_brokers, &options.topic_prefix).await?;
        let platform = Platform::start(endpoints.clone(), options).await?;
        let settings = Settings {
            database_url: endpoints.database_url.parse()?,
            gate_redis_url: endpoints.gate_redis_url.parse()?,
            view_redis_url: endpoints.view_redis_url.parse()?,
            kafka_brokers: endpoints.kafka_brokers,
            key_prefix: platform.options.key_prefix.clone(),
            topic_prefix: platform.options.topic_prefix.clone(),
        };
        let clock = Clock::system();
        let options = &platform.options;
        let api = Api::new(
            platform.api_url(),
            &options.jwt_secret,
            &options.operator_key,
            clock.clone(),
        )?;
        let sources = Sources::connect(&settings).await?;
        Ok(Self { api, sources, clock, platform, servers })
    }

    /// Ends the processes before the servers; data and logs go too, unless they have something to tell.
    pub(crate) async fn end(&mut self, wiped: bool) -> Result<()> {
        self.platform.stop().await?;
        self.servers.stop().await?;
        if wiped { wipe() } else { Ok(()) }
    }
}

/// Creates the topics and waits until the broker leads those that processes ask for at their start.
async fn create_topics(brokers: &str, prefix: &str) -> Result<(), TopicError> {
    let topics = TopicNames::new(prefix);
    let layout = TopicLayout { partitions: PARTITIONS, ..TopicLayout::default() };
    ensure_topics(brokers, &topics, &layout).await?;
    let deadline = Instant::now() + LED_MAX;
    for topic in [topics.user_coupon(), topics.expiry()] {
        while let Err(error) = topic_offsets(brokers, &topic).await {
            if Instant::now() >= deadline {
                return Err(error);
            }
            sleep(LOOK_EVERY).await;
        }
    }
    Ok(())
}

fn wipe() -> Result<()> {
    let folder = folder();
    if folder.exists() {
        fs::remove_dir_all(&folder)
            .with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    Ok(())
}
