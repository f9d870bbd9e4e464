//! Reports in `/readyz` whether the servers that the tailer needs answer. The part `binlog` reports its progress.

use mysql_store::{MySqlConnection, StoreError, connect, settings};
use runtime::{Clock, Context};
use tokio::sync::Mutex;
use topic::{BrokerProbe, TopicNames};

use crate::{config::Config, leader::topics_check::written, metrics};

/// Adds the servers to `/readyz`. Returns a task that asks each of them every few seconds until the process stops. A
/// dry run has no brokers.
pub fn watch(
    config: &Config,
    context: &Context,
) -> impl Future<Output = anyhow::Result<()>> + Send + use<> {
    let url = config.database_url.clone();
    let stop = context.stop_token();
    let clock = context.clock.clone();
    let mysql = context.health.server("mysql", &runtime::address(url.expose()));
    let kafka = (!config.dry_run).then(|| {
        let brokers = config.brokers();
        let names = TopicNames::new(&config.topic_prefix);
        let part = context.health.server("kafka", &runtime::address(brokers));
        (part, BrokerProbe::new(brokers, written(&names)))
    });
    async move {
        let open = Mutex::new(None);
        let ask_mysql = || connect::within(asked(&open, url.expose(), &clock));
        let watch_mysql = runtime::watch(mysql, stop.clone(), ask_mysql);
        let watch_kafka = async {
            let Some((part, probe)) = kafka else { return };
            let ask = || async {
                let asked = probe.check().await;
                metrics::brokers_answer(asked.is_ok());
                asked
            };
            runtime::watch(part, stop.clone(), ask).await;
        };
        tokio::join!(watch_mysql, watch_kafka);
        Ok(())
    }
}

/// Asks MySQL on a connection of its own, which is opened again after a failure.
async fn asked(
    open: &Mutex<Option<MySqlConnection>>,
    url: &str,
    clock: &Clock,
) -> Result<(), StoreError> {
    let mut open = open.lock().await;
    let mut connection = match open.take() {
        Some(connection) => connection,
        None => connect::single(url).await?,
    };
    settings::skew(&mut connection, || clock.now()).await?;
    *open = Some(connection);
    Ok(())
}
