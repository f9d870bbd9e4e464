//! [`OwnDatabase`]: a MariaDB or MySQL of one test alone.

use std::fs;
use std::path::PathBuf;

use crate::datadir::{DATABASE, PASSWORD, USER};
use crate::{Flavor, Options, Process, Result, mariadb, mysql, paths};

/// A database server that a test may stop, set otherwise, or fill. Dropped, it is gone with its data.
#[derive(Debug)]
pub struct OwnDatabase {
    /// The server.
    pub server: Process,
    dir: PathBuf,
}

impl OwnDatabase {
    /// Starts one without data; its folder bears `name`, which no other running test may use. `settings`
    /// are arguments of the server that win over ours.
    ///
    /// # Errors
    /// As [`Process::start`]; [`Error::NotInstalled`](crate::Error::NotInstalled) where MySQL was not brought.
    pub async fn start(name: &str, flavor: Flavor, settings: &[&str]) -> Result<Self> {
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

    /// Where it is, with a database that exists.
    pub fn url(&self) -> String {
        format!("mysql://{USER}:{PASSWORD}@{}/{DATABASE}", self.server.address())
    }
}

impl Drop for OwnDatabase {
    fn drop(&mut self) {
        // Nobody is left to tell; what stays is overwritten by the next run.
        drop(self.server.kill());
        drop(fs::remove_dir_all(&self.dir));
    }
}
