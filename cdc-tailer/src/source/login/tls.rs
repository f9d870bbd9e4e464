//! TLS on a connected socket, with the driver's library and the driver's meaning of each `ssl-mode`.

use std::{fmt::Display, fs, io, path::Path};

use mysql_store::connect::SslMode;
use openssl::{
    pkey::PKey,
    ssl::{HandshakeError, SslConnector, SslMethod, SslStream, SslVerifyMode, SslVersion},
    x509::{X509, X509VerifyResult},
};

use super::socket::{Ahead, Socket};
use crate::{
    error::TailError,
    source::address::{Address, Tls},
};

/// OpenSSL's error numbers for a valid certificate of another server: by name, by IP address.
const OTHER_NAME: [i32; 2] = [62, 64];

/// Upgrades `socket` to TLS.
pub(super) fn upgrade(
    socket: Socket,
    address: &Address,
) -> Result<Box<SslStream<Ahead>>, TailError> {
    let connector = connector(&address.tls)?;
    let (is_checked, is_named) = match address.tls.mode {
        SslMode::VerifyIdentity => (true, true),
        SslMode::VerifyCa => (true, false),
        SslMode::Required | SslMode::Preferred | SslMode::Disabled => (false, false),
    };
    let mut configured = connector.configure().map_err(unusable)?.verify_hostname(is_named);
    if !is_checked {
        configured.set_verify(SslVerifyMode::NONE);
    }
    let connected = configured.connect(&address.host, Ahead::new(socket));
    connected.map(Box::new).map_err(|error| refused(&error, &address.host, is_checked))
}

fn connector(tls: &Tls) -> Result<SslConnector, TailError> {
    let mut builder = SslConnector::builder(SslMethod::tls()).map_err(unusable)?;
    builder.set_min_proto_version(Some(SslVersion::TLS1_2)).map_err(unusable)?;
    if let Some(path) = &tls.ca {
        let ca =
            X509::from_pem(&file("ssl-ca", path)?).map_err(|error| wrong("ssl-ca", path, error))?;
        builder.cert_store_mut().add_cert(ca).map_err(|error| wrong("ssl-ca", path, error))?;
    }
    if let (Some(certificate), Some(key)) = (&tls.certificate, &tls.key) {
        let wrong_certificate = |error| wrong("ssl-cert", certificate, error);
        let chain =
            X509::stack_from_pem(&file("ssl-cert", certificate)?).map_err(wrong_certificate)?;
        let mut chain = chain.into_iter();
        let own = chain.next().ok_or_else(|| wrong("ssl-cert", certificate, "it holds none"))?;
        builder.set_certificate(&own).map_err(wrong_certificate)?;
        let wrong_key = |error| wrong("ssl-key", key, error);
        let own = PKey::private_key_from_pem_passphrase(&file("ssl-key", key)?, b"")
            .map_err(wrong_key)?;
        builder.set_private_key(&own).map_err(wrong_key)?;
        for next in chain {
            builder.add_extra_chain_cert(next).map_err(wrong_certificate)?;
        }
    }
    Ok(builder.build())
}

/// Maps a failed handshake: an invalid certificate requires an operator, other errors are transient.
fn refused(error: &HandshakeError<Ahead>, host: &str, is_checked: bool) -> TailError {
    let failed = match error {
        HandshakeError::SetupFailure(error) => return unusable(error),
        HandshakeError::WouldBlock(_) => return super::late(),
        HandshakeError::Failure(failed) => failed,
    };
    let reason = match failed.ssl().verify_result() {
        verified if verified == X509VerifyResult::OK || !is_checked => {
            let is_late = |error: &io::Error| error.kind() == io::ErrorKind::TimedOut;
            if failed.error().io_error().is_some_and(is_late) {
                return super::late();
            }
            return TailError::Connect {
                reason: format!("the TLS handshake failed: {}", failed.error()),
            };
        }
        verified if OTHER_NAME.contains(&verified.as_raw()) => format!(
            "the server's certificate is not for {host} ({verified}): call the server by a name that its \
             certificate has"
        ),
        verified => format!(
            "the server's certificate is not trusted ({verified}): ssl-ca must be the CA of the server's \
             certificate"
        ),
    };
    TailError::Login { reason }
}

fn file(option: &str, path: &Path) -> Result<Vec<u8>, TailError> {
    fs::read(path).map_err(|error| wrong(option, path, error))
}

fn wrong(option: &str, path: &Path, error: impl Display) -> TailError {
    let reason = format!("{option} of DATABASE_URL, {}, is of no use: {error}", path.display());
    TailError::Login { reason }
}

fn unusable(error: impl Display) -> TailError {
    TailError::Login { reason: format!("OpenSSL is of no use: {error}") }
}
