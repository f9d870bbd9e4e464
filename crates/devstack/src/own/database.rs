//! [`OwnDatabase`]: a MariaDB or MySQL for a single test.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::tier::full_only;
use crate::{
    Error, Flavor, Options, Process, Result, paths,
    servers::{Survives, mariadb, mysql, replication::Follower, url},
};

/// A database server that a test may stop, reconfigure or fill. Dropping the value removes it and its data.
#[derive(Debug)]
pub struct OwnDatabase {
    pub server: Process,
    flavor: Flavor,
    dir: PathBuf,
}

impl OwnDatabase {
    /// Starts a server without data, in a folder called `name`. No other running test may use that name.
    /// `settings` are arguments of the server and override ours.
    ///
    /// # Errors
    /// As [`Process::start`]; [`Error::NotInstalled`](crate::Error::NotInstalled) if MySQL is not installed.
    pub async fn start(name: &str, flavor: Flavor, settings: &[&str]) -> Result<Self> {
        full_only("starts a database server of its own");
        Self::start_in(paths::own_folder(name)?, flavor, settings).await
    }

    /// Like [`OwnDatabase::start`], with data that a server had; the folder of the data moves. A MySQL gets an identity of
    /// its own, a MariaDB the one that `settings` say.
    ///
    /// # Errors
    /// As [`OwnDatabase::start`]; the data cannot be moved.
    pub async fn start_with(
        name: &str,
        flavor: Flavor,
        settings: &[&str],
        data: &Path,
    ) -> Result<Self> {
        full_only("starts a database server of its own");
        let dir = paths::own_folder(name)?;
        let home = dir.join(flavor.name());
        fs::create_dir_all(&home).map_err(Error::file("create", &home))?;
        // The UUID of the server that had the data. A MariaDB has no such file.
        drop(fs::remove_file(data.join("auto.cnf")));
        fs::rename(data, home.join("data")).map_err(Error::file("move", data))?;
        Self::start_in(dir, flavor, settings).await
    }

    async fn start_in(dir: PathBuf, flavor: Flavor, settings: &[&str]) -> Result<Self> {
        let database_arguments = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let survives = Survives::Kill;
        let options = Options { flavor, survives, database_arguments, ..Options::default() };
        let mut server = match flavor {
            Flavor::Mariadb => mariadb::prepare(&dir, &options)?,
            Flavor::Mysql => mysql::prepare(&dir, &options)?,
        };
        server.start().await?;
        Ok(Self { server, flavor, dir })
    }

    /// Its URL, with a database that exists.
    pub fn url(&self) -> String {
        url(&self.server)
    }

    /// Makes it, while it has no data, a replica of the server at this address, with all of that one's data.
    ///
    /// # Errors
    /// It does not answer, or refuses.
    pub fn follow(&self, primary: SocketAddr) -> Result<()> {
        self.as_follower().follow(primary)
    }

    /// Waits until it has all that the primary has.
    ///
    /// # Errors
    /// One of the two does not answer; it is behind after a minute.
    pub fn until_has_all_of(&self, primary: SocketAddr) -> Result<()> {
        self.as_follower().until_has_all_of(primary)
    }

    /// Makes it independent, once it has applied what it has received; the primary need not answer.
    ///
    /// # Errors
    /// It does not answer, or is behind after a minute.
    pub fn promote(&self) -> Result<()> {
        self.as_follower().apply_received()?;
        self.as_follower().become_independent()
    }

    fn as_follower(&self) -> Follower {
        Follower { flavor: self.flavor, address: self.server.address() }
    }
}

impl Drop for OwnDatabase {
    fn drop(&mut self) {
        // A destructor cannot report errors; the next run overwrites leftovers.
        drop(self.server.discard());
        drop(fs::remove_dir_all(&self.dir));
    }
}
