//! [`Certificates`]: a private CA for one test, and a server certificate that it signed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Error, Result, paths, servers::datadir};

/// Elliptic-curve keys are generated in milliseconds.
const NEW: &[&str] = &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];

/// PEM files of a CA that no client trusts by default, and of a server at 127.0.0.1 or `localhost` that it
/// certified. Dropping the value deletes them.
#[derive(Debug)]
pub struct Certificates {
    dir: PathBuf,
}

impl Certificates {
    /// Generates the files with openssl, in a folder called `name`. No other running test may use that name.
    ///
    /// # Errors
    /// openssl is not installed, or fails; the error contains the end of its output.
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

    /// Path of the CA's certificate.
    pub fn ca(&self) -> String {
        self.file("ca.pem")
    }

    /// Path of the server's certificate.
    pub fn certificate(&self) -> String {
        self.file("server.pem")
    }

    /// Path of the server's key.
    pub fn key(&self) -> String {
        self.file("server.key")
    }

    /// Path of a file with both the server's key and certificate, as Kafka requires.
    pub fn keystore(&self) -> String {
        self.file("keystore.pem")
    }

    /// Arguments that make redis-server or a sentinel listen with TLS on an extra port, and use TLS for its own
    /// connections.
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
        // A destructor cannot report errors; the next run overwrites leftovers.
        drop(fs::remove_dir_all(&self.dir));
    }
}

/// Generates a key and its certificate: `<name>.key` and `<name>.pem`.
fn request(dir: &Path, name: &str, arguments: &[&str]) -> Result<()> {
    let key = format!("{name}.key");
    let certificate = format!("{name}.pem");
    let mut openssl = Command::new(paths::program("openssl")?);
    openssl
        .current_dir(dir)
        .args(["req", "-x509", "-days", "2", "-keyout", &key, "-out", &certificate])
        .args(NEW)
        .args(arguments);
    datadir::run("openssl req", openssl, &dir.join("openssl.log"))
}
