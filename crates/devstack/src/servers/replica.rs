//! The replica of a stack's database, and how it takes the primary's place: its data move into the primary's folder,
//! and a server on them listens on the primary's port. So addresses, settings and the next `up` stay as they were.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::process::{Process, ports, records};
use crate::servers::replication::{Follower, Replication, Role};
use crate::servers::{Flavor, Options, datadir, in_background, mariadb, mysql};
use crate::{Error, Result, Tie, paths};

/// File in a server's home with its port.
const PORT: &str = "port";
/// File in a replica's home with its kind of replication: the next `up` starts it again as the same.
const REPLICATION: &str = "replication";
/// File in the home of a replica that is promoted. It lets the next `up` end a promotion that was cut short, instead of
/// starting the dead primary again.
const PROMOTED: &str = "promoted";

/// The replica of a detached stack, found by its folder.
#[derive(Debug)]
pub struct StackReplica {
    dir: PathBuf,
    flavor: Flavor,
}

impl StackReplica {
    /// Returns the replica of the stack in `dir`, if it has one.
    ///
    /// # Errors
    /// The folder's path cannot be resolved.
    pub fn of(dir: &Path) -> Result<Option<Self>> {
        let dir = paths::absolute(dir)?;
        let is_there = |flavor: &Flavor| dir.join(Role::Replica.name(*flavor)).exists();
        let flavor = [Flavor::Mariadb, Flavor::Mysql].into_iter().find(is_there);
        Ok(flavor.map(|flavor| Self { dir, flavor }))
    }

    /// Returns how it replicates.
    pub fn replication(&self) -> Replication {
        let written = fs::read_to_string(self.home().join(REPLICATION)).ok();
        written.and_then(|name| Replication::named(name.trim())).unwrap_or_default()
    }

    /// Whether it was promoted, by a failover that was then cut short.
    pub fn is_promoted(&self) -> bool {
        self.home().join(PROMOTED).exists()
    }

    /// Whether its server runs and has a primary.
    ///
    /// # Errors
    /// The folder cannot be read, or the server does not answer.
    pub fn is_following(&self) -> Result<bool> {
        let name = Role::Replica.name(self.flavor);
        let runs = records::running(&self.dir)?.iter().any(|running| running == name);
        Ok(runs && self.follower()?.has_primary()?)
    }

    /// Kills the primary without warning. Returns whether it ran.
    ///
    /// # Errors
    /// It could not be signalled.
    pub fn kill_primary(&self) -> Result<bool> {
        records::kill(&self.dir, Role::Primary.name(self.flavor))
    }

    /// Waits until it has applied all that it received, and makes it independent. From here on it is the primary.
    ///
    /// # Errors
    /// It does not answer, or is behind after a minute: then it is a replica as before.
    pub fn promote(&self) -> Result<()> {
        let follower = self.follower()?;
        follower.apply_received()?;
        let file = self.home().join(PROMOTED);
        fs::write(&file, "").map_err(Error::file("write", &file))?;
        follower.become_independent()
    }

    /// Restarts the promoted server at the primary's address, which this returns, with a primary's settings.
    ///
    /// # Errors
    /// The data cannot be moved, the port is taken, or as [`Process::start`].
    pub async fn take_over(&self) -> Result<SocketAddr> {
        records::end_one(&self.dir, Role::Replica.name(self.flavor)).await?;
        self.move_data()?;
        let port = ports::stored(&self.dir.join(Role::Primary.name(self.flavor)).join(PORT));
        let options = Options { tie: Tie::Detached, flavor: self.flavor, ..Options::default() };
        let mut server = start_primary(&self.dir, &options).await?;
        match port {
            // It chose another one, where nobody looks for it.
            Some(port) if port != server.address().port() => Err(Error::PortTaken { port }),
            _ => {
                server.let_go();
                Ok(server.address())
            }
        }
    }

    /// Moves the promoted data into the primary's folder, and the dead primary's data aside. Both servers must
    /// have ended.
    ///
    /// # Errors
    /// A file or folder cannot be moved.
    pub fn move_data(&self) -> Result<()> {
        let primary = self.dir.join(Role::Primary.name(self.flavor));
        let replica = self.home();
        // A first try may have moved it already.
        if primary.exists() {
            let port = primary.join(PORT);
            fs::copy(&port, replica.join(PORT)).map_err(Error::file("copy", &port))?;
            let replaced = self.replaced();
            if replaced.exists() {
                fs::remove_dir_all(&replaced).map_err(Error::file("remove", &replaced))?;
            }
            fs::rename(&primary, &replaced).map_err(Error::file("move", &primary))?;
        }
        fs::rename(&replica, &primary).map_err(Error::file("move", &replica))
    }

    /// Where a failover leaves the dead primary's data, until the next one.
    pub fn replaced(&self) -> PathBuf {
        self.dir.join(format!("{}-replaced", Role::Primary.name(self.flavor)))
    }

    fn home(&self) -> PathBuf {
        self.dir.join(Role::Replica.name(self.flavor))
    }

    fn follower(&self) -> Result<Follower> {
        let name = Role::Replica.name(self.flavor);
        let port = ports::stored(&self.home().join(PORT));
        let port = port.ok_or_else(|| Error::NotRunning { name: name.to_owned() })?;
        Ok(Follower { flavor: self.flavor, address: ([127, 0, 0, 1], port).into() })
    }
}

/// Starts a stack's primary. If a promotion was cut short, its data may still say that it is a replica.
pub(crate) async fn start_primary(dir: &Path, options: &Options) -> Result<Process> {
    let prepare = match options.flavor {
        Flavor::Mariadb => mariadb::prepare,
        Flavor::Mysql => mysql::prepare,
    };
    let server = in_background(dir, options, prepare).await?;
    let promoted = dir.join(Role::Primary.name(options.flavor)).join(PROMOTED);
    if promoted.exists() {
        let follower = Follower { flavor: options.flavor, address: server.address() };
        on_a_thread(move || follower.become_independent()).await?;
        fs::remove_file(&promoted).map_err(Error::file("remove", &promoted))?;
    }
    Ok(server)
}

/// Starts a stack's replica of the server at `primary`, and waits until it has everything.
pub(crate) async fn start(
    dir: &Path,
    options: &Options,
    replication: Replication,
    primary: SocketAddr,
) -> Result<Process> {
    let home = dir.join(Role::Replica.name(options.flavor));
    fs::create_dir_all(&home).map_err(Error::file("create", &home))?;
    // An id that no predecessor of the primary had.
    let of_primary = datadir::server_id(&dir.join(Role::Primary.name(options.flavor)));
    if datadir::server_id(&home) <= of_primary {
        datadir::set_server_id(&home, of_primary + 1)?;
    }
    let kind = home.join(REPLICATION);
    fs::write(&kind, replication.name()).map_err(Error::file("write", &kind))?;
    let server = in_background(dir, options, prepare).await?;
    let follower = Follower { flavor: options.flavor, address: server.address() };
    on_a_thread(move || follower.go_on(primary)).await?;
    Ok(server)
}

fn prepare(dir: &Path, options: &Options) -> Result<Process> {
    match options.flavor {
        Flavor::Mariadb => mariadb::prepare_as(Role::Replica, dir, options),
        Flavor::Mysql => mysql::prepare_as(Role::Replica, dir, options),
    }
}

/// Runs statements on a thread that may block.
async fn on_a_thread(run: impl FnOnce() -> Result<()> + Send + 'static) -> Result<()> {
    tokio::task::spawn_blocking(run).await.expect("statements do not panic")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with the homes of a dead primary and of its promoted replica.
    fn promoted(name: &str) -> StackReplica {
        let dir = paths::project_root().join(format!("target/tmp/{name}-{}", std::process::id()));
        for role in ["mariadb", "mariadb-replica"] {
            let data = dir.join(role).join("data");
            fs::create_dir_all(&data).unwrap();
            fs::write(data.join("of"), role).unwrap();
        }
        fs::write(dir.join("mariadb/port"), "20001").unwrap();
        fs::write(dir.join("mariadb-replica/port"), "20002").unwrap();
        fs::write(dir.join("mariadb-replica/replication"), "async").unwrap();
        datadir::set_server_id(&dir.join("mariadb-replica"), 2).unwrap();
        StackReplica::of(&dir).unwrap().unwrap()
    }

    fn assert_moved(replica: &StackReplica) {
        let data = |home: &str| fs::read_to_string(replica.dir.join(home).join("data/of")).unwrap();
        assert_eq!(data("mariadb"), "mariadb-replica");
        assert_eq!(data("mariadb-replaced"), "mariadb");
        assert_eq!(ports::stored(&replica.dir.join("mariadb/port")), Some(20001));
        assert_eq!(datadir::server_id(&replica.dir.join("mariadb")), 2);
        assert!(StackReplica::of(&replica.dir).unwrap().is_none());
        fs::remove_dir_all(&replica.dir).unwrap();
    }

    #[test]
    fn promoted_data_take_the_primarys_folder_and_port_and_keep_their_servers_id() {
        let replica = promoted("moved");
        assert_eq!(replica.replication(), Replication::Asynchronous);
        assert!(!replica.is_promoted());
        // What an earlier failover has left.
        fs::create_dir_all(replica.replaced().join("data")).unwrap();
        replica.move_data().unwrap();
        assert_moved(&replica);
    }

    #[test]
    fn a_move_that_was_cut_short_is_ended_by_the_next_one() {
        let replica = promoted("half-moved");
        fs::copy(replica.dir.join("mariadb/port"), replica.home().join(PORT)).unwrap();
        fs::rename(replica.dir.join("mariadb"), replica.replaced()).unwrap();
        replica.move_data().unwrap();
        assert_moved(&replica);
    }
}
