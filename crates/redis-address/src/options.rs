//! The options of an address: the part after the question mark.

use std::fs;

use redis::{ClientTlsConfig, TlsCertificates};

use crate::AddressError;

/// The options of every kind of address.
#[derive(Default)]
pub(crate) struct Options {
    ca: Option<String>,
    certificate: Option<String>,
    key: Option<String>,
    pub(crate) sentinel_user: Option<String>,
    pub(crate) sentinel_password: Option<String>,
}

impl Options {
    /// Parses the options, and refuses those that need TLS or sentinels if the address has none.
    pub(crate) fn parse(query: &str, tls: bool, sentinels: bool) -> Result<Self, AddressError> {
        let mut options = Self::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let option = match &*name {
                "ssl-ca" if tls => &mut options.ca,
                "ssl-cert" if tls => &mut options.certificate,
                "ssl-key" if tls => &mut options.key,
                "sentinel-user" if sentinels => &mut options.sentinel_user,
                "sentinel-password" if sentinels => &mut options.sentinel_password,
                _ => return Err(AddressError::Option { name: name.into_owned() }),
            };
            *option = Some(value.into_owned());
        }
        Ok(options)
    }

    /// Reads the files of the certificates.
    pub(crate) fn certificates(&self) -> Result<TlsCertificates, AddressError> {
        let client_tls = match (&self.certificate, &self.key) {
            (None, None) => None,
            (Some(certificate), Some(key)) => {
                Some(ClientTlsConfig { client_cert: read(certificate)?, client_key: read(key)? })
            }
            _ => return Err(AddressError::Incomplete),
        };
        let root_cert = self.ca.as_deref().map(read).transpose()?;
        Ok(TlsCertificates { client_tls, root_cert })
    }
}

fn read(path: &str) -> Result<Vec<u8>, AddressError> {
    let failed = |error: std::io::Error| AddressError::File {
        path: path.to_owned(),
        reason: error.to_string(),
    };
    fs::read(path).map_err(failed)
}
