//! [`OwnDatabase`]: a MariaDB or MySQL for a single test.

use std::fs;
use std::path::{Path, PathBuf};

use crate::tier::full_only;
use crate::{
    Error, Flavor, Options, Process, Result, paths,
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
