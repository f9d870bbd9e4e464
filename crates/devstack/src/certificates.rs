//! [`Certificates`]: a CA of one test alone, and a server's certificate by it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Error, Result, datadir, paths};

/// Elliptic keys: made in milliseconds.
const NEW: &[&str] = &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];

/// Files in PEM: of a CA that nobody trusts, and of a server at 127.0.0.1 or `localhost` that is certified by
/// it. Dropped, they are gone.
#[derive(Debug)]
pub struct Certificates {
    dir: PathBuf,
}

impl Certificates {
    /// Makes them by openssl; their folder bears `name`, which no other running test may use.
    ///
    /// # Errors
    /// openssl is not installed, or fails: with the end of its output.
    pub fn make(name: &str) -> Result<Self> {
        let dir = paths::own_folder(name)?;
        request(&dir, "ca", &["-subj", "/CN=a CA of a test"])?;
        let server = [
            ["-CA", "ca.pem"],
            ["-CAkey", "ca.key"],
            ["-subj", "/CN=localhost"],
            ["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"],
            ["-addext", "basicConstraints=critical,CA:FALSE"],
        ];
        request(&dir, "server", server.as_flattened())?;
        let certificates = Self { dir };
        let both = ["server.key", "server.pem"]
            .map(|name| fs::read_to_string(certificates.dir.join(name)).unwrap_or_default());
        let keystore = certificates.dir.join("keystore.pem");
        fs::write(&keystore, both.concat()).map_err(Error::file("write", keystore))?;
        Ok(certificates)
    }

    /// The CA's certificate.
    pub fn ca(&self) -> String {
        self.file("ca.pem")
    }

    /// The server's certificate.
    pub fn certificate(&self) -> String {
        self.file("server.pem")
    }

    /// The server's key.
    pub fn key(&self) -> String {
        self.file("server.key")
    }

    /// The server's key and certificate in one file, as Kafka wants them.
    pub fn keystore(&self) -> String {
        self.file("keystore.pem")
    }

    /// Arguments by which redis-server, or a sentinel, listens with TLS on a port beside its own, and speaks
    /// TLS to others.
    pub fn redis_settings(&self, port: u16) -> Vec<String> {
        let port = port.to_string();
        let settings = [
            ["--tls-port", &port],
            ["--tls-cert-file", &self.certificate()],
            ["--tls-key-file", &self.key()],
            ["--tls-ca-cert-file", &self.ca()],
            ["--tls-auth-clients", "optional"],
            ["--tls-replication", "yes"],
        ];
        settings.as_flattened().iter().map(|&setting| setting.to_owned()).collect()
    }

    fn file(&self, name: &str) -> String {
        self.dir.join(name).display().to_string()
    }
}

impl Drop for Certificates {
    fn drop(&mut self) {
        // Nobody is left to tell; what stays is overwritten by the next run.
        drop(fs::remove_dir_all(&self.dir));
    }
}

/// A key and its certificate: `<name>.key` and `<name>.pem`.
fn request(dir: &Path, name: &str, arguments: &[&str]) -> Result<()> {
    let (key, certificate) = (format!("{name}.key"), format!("{name}.pem"));
    let mut openssl = Command::new(paths::program("openssl")?);
    openssl
        .current_dir(dir)
        .args(["req", "-x509", "-days", "2", "-keyout", &key, "-out", &certificate])
        .args(NEW)
        .args(arguments);
    datadir::run("openssl req", openssl, &dir.join("openssl.log"))
}
