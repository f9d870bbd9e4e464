//! Servers for the tests that stop them: one set for this binary, used by one test at a time.

use std::fs;

use devstack::{Options, Servers, project_root};
use tokio::sync::{MappedMutexGuard, Mutex, MutexGuard};

use crate::harness::World;

static SERVERS: Mutex<Option<Servers>> = Mutex::const_new(None);

/// Returns the servers, all answering, for as long as the guard lives. They end with this process.
pub(crate) async fn servers() -> MappedMutexGuard<'static, Servers> {
    let mut guard = SERVERS.lock().await;
    if guard.is_none() {
        let folder = project_root().join(".dev/test/landing-servers");
        drop(fs::remove_dir_all(&folder));
        *guard = Some(Servers::start(&folder, &Options::default()).await.unwrap());
    }
    let mut servers = MutexGuard::map(guard, |servers| servers.as_mut().unwrap());
    // A failed test may have left them paused or stopped.
    drop(servers.database.resume());
    drop(servers.gate.resume());
    servers.database.start().await.unwrap();
    servers.gate.start().await.unwrap();
    servers
}

/// A separate world on them, its gate open.
pub(crate) async fn world(servers: &Servers, name: &str, stock: i64, limit: u32) -> World {
    let endpoints = servers.endpoints().with_database(name);
    let world = World::on(endpoints, &format!("{name}:"), stock, limit).await;
    world.rebuild().await;
    world
}
