//! Files of `NAME=value` lines that a shell can read. A stack publishes its addresses in one.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::{Endpoints, Error, Result};

/// Variables in order, and the path of their file.
#[derive(Clone, Debug)]
pub struct EnvFile {
    path: PathBuf,
    variables: Vec<(String, String)>,
}

impl EnvFile {
    /// Returns an empty file, to be filled and written to `path`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), variables: Vec::new() }
    }

    /// Reads a file; lines that start with `#` or have no `=` are skipped.
    ///
    /// # Errors
    /// The file could not be read.
    pub fn read(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        let text = fs::read_to_string(&path).map_err(Error::file("read", &path))?;
        let variables = text
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| line.split_once('='))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        Ok(Self { path, variables })
    }

    pub fn set(&mut self, name: &str, value: &str) {
        self.variables.push((name.to_owned(), value.to_owned()));
    }

    /// Adds the four server addresses.
    pub fn set_endpoints(&mut self, endpoints: &Endpoints) {
        for (name, value) in endpoints.variables() {
            self.set(name, value);
        }
    }

    /// Returns a variable's value.
    ///
    /// # Errors
    /// The file does not contain it.
    pub fn get(&self, variable: &str) -> Result<&str> {
        self.variables
            .iter()
            .find_map(|(name, value)| (name == variable).then_some(value.as_str()))
            .ok_or_else(|| Error::Variable {
                path: self.path.clone(),
                variable: variable.to_owned(),
            })
    }

    /// Returns the four server addresses.
    ///
    /// # Errors
    /// The file lacks one of them.
    pub fn endpoints(&self) -> Result<Endpoints> {
        let get = |variable| self.get(variable).map(str::to_owned);
        Ok(Endpoints {
            database_url: get("DATABASE_URL")?,
            gate_redis_url: get("GATE_REDIS_URL")?,
            view_redis_url: get("VIEW_REDIS_URL")?,
            kafka_brokers: get("KAFKA_BROKERS")?,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the file atomically, readable by its owner only because it holds keys.
    ///
    /// # Errors
    /// The file could not be written.
    pub fn write(&self) -> Result<()> {
        let fresh = self.path.with_extension("new");
        let mut file = File::options()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&fresh)
            .map_err(Error::file("write", &fresh))?;
        for (name, value) in &self.variables {
            writeln!(file, "{name}={value}").map_err(Error::file("write", &fresh))?;
        }
        fs::rename(&fresh, &self.path).map_err(Error::file("write", &self.path))
    }
}
