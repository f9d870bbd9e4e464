//! [`OwnDatabase`]: a MariaDB or MySQL for a single test.

use std::fs;
use std::path::PathBuf;

use crate::tier::full_only;
use crate::{
    Flavor, Options, Process, Result, paths,
    servers::{mariadb, mysql, url},
};

/// A database server that a test may stop, reconfigure or fill. Dropping the value removes it and its data.
#[derive(Debug)]
pub struct OwnDatabase {
    pub server: Process,
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
        let dir = paths::own_folder(name)?;
        let database_arguments = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let options = Options { flavor, database_arguments, ..Options::default() };
        let mut server = match flavor {
            Flavor::Mariadb => mariadb::prepare(&dir, &options)?,
            Flavor::Mysql => mysql::prepare(&dir, &options)?,
        };
        server.start().await?;
        Ok(Self { server, dir })
    }

    /// Its URL, with a database that exists.
    pub fn url(&self) -> String {
        url(&self.server)
    }
}

impl Drop for OwnDatabase {
    fn drop(&mut self) {
        // A destructor cannot report errors; the next run overwrites leftovers.
        drop(self.server.discard());
        drop(fs::remove_dir_all(&self.dir));
    }
}
