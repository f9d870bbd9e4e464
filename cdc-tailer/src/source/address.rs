//! Parses `DATABASE_URL` for the replication connection, which does not use the driver.

use std::{fmt, path::PathBuf};

use mysql_store::{
    StoreError,
    connect::{self, SslMode},
};
use runtime::Secret;

/// Address of the server, and the credentials.
#[derive(Clone)]
pub(crate) struct Address {
    /// Host name or IP address, without the brackets of a URL.
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) user: String,
    /// May be empty.
    pub(crate) password: Secret,
    pub(crate) tls: Tls,
}

/// TLS settings. Each name is that of an option of the URL.
#[derive(Debug, Clone)]
pub(crate) struct Tls {
    pub(crate) mode: SslMode,
    /// `ssl-ca`: trusted in addition to the system's CAs.
    pub(crate) ca: Option<PathBuf>,
    pub(crate) certificate: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
}

impl Address {
    /// Parses a URL like the driver does. The driver exposes everything but the password and the files, which are
    /// parsed here.
    ///
    /// # Errors
    /// Returns the driver's error, without the password.
    pub(crate) fn parse(url: &str) -> Result<Self, StoreError> {
        let options = connect::options(url)?;
        let (rest, _fragment) = url.split_once('#').unwrap_or((url, ""));
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let option = |names: [&str; 2]| {
            let all = form_urlencoded::parse(query.as_bytes());
            let last = all.filter(|(name, _)| names.contains(&name.as_ref())).last();
            last.map(|(_, value)| PathBuf::from(value.into_owned()))
        };
        let tls = Tls {
            mode: options.get_ssl_mode(),
            ca: option(["ssl-ca", "sslca"]),
            certificate: option(["ssl-cert", "sslcert"]),
            key: option(["ssl-key", "sslkey"]),
        };
        let Ok(password) = decoded(password(rest)).parse();
        Ok(Self {
            host: options.get_host().to_owned(),
            port: options.get_port(),
            user: options.get_username().to_owned(),
            password,
            tls,
        })
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, user, .. } = self;
        if host.contains(':') {
            return write!(f, "{user}@[{host}]:{port}");
        }
        write!(f, "{user}@{host}:{port}")
    }
}

/// Returns the text between the first colon and the last `@` before the path.
fn password(url: &str) -> &str {
    let (_, rest) = url.split_once("://").unwrap_or_default();
    let authority = rest.split('/').next().unwrap_or_default();
    let (login, _) = authority.rsplit_once('@').unwrap_or_default();
    let (_, password) = login.split_once(':').unwrap_or_default();
    password
}

/// Decodes `%41`; anything that is not an escape is kept.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        let digit = |at: usize| char::from(*behind.get(at)?).to_digit(16);
        let escaped = digit(0).zip(digit(1)).filter(|_| byte == b'%');
        let escaped = escaped.and_then(|(high, low)| u8::try_from(high << 4 | low).ok());
        bytes.push(escaped.unwrap_or(byte));
        rest = if escaped.is_some() { &behind[2..] } else { behind };
    }
    // The driver has rejected anything that is not UTF-8.
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_gives_its_parts_with_escapes_resolved() {
        let address =
            Address::parse("mysql://u%40x:p%2Fw%@db.example:3307/coupon?charset=utf8mb4").unwrap();
        assert_eq!((address.host.as_str(), address.port), ("db.example", 3307));
        assert_eq!((address.user.as_str(), address.password.expose()), ("u@x", "p/w%"));
        assert_eq!(format!("{address:?}"), "u@x@db.example:3307");
        let address = Address::parse("mysql://u:p@w:d@db/coupon").unwrap();
        assert_eq!((address.user.as_str(), address.password.expose()), ("u", "p@w:d"));
        assert_eq!((address.host.as_str(), address.port), ("db", 3306));
        assert_eq!(Address::parse("mysql://u@db/coupon").unwrap().password.expose(), "");
    }

    #[test]
    fn an_ip_address_of_version_six_loses_its_brackets() {
        for (url, port) in [("mysql://u:p@[::1]/d", 3306), ("mysql://u:p@[::1]:3307/d", 3307)] {
            let address = Address::parse(url).unwrap();
            assert_eq!((address.host.as_str(), address.port), ("::1", port));
            assert_eq!(format!("{address:?}"), format!("u@[::1]:{port}"));
        }
    }

    #[test]
    fn tls_is_read_as_the_driver_reads_it_and_off_by_default() {
        let tls = |options: &str| Address::parse(&format!("mysql://u:p@h/d{options}")).unwrap().tls;
        assert!(matches!(tls("").mode, SslMode::Disabled));
        assert!(matches!(tls("?ssl-mode=preferred").mode, SslMode::Preferred));
        assert!(matches!(tls("?sslmode=REQUIRED").mode, SslMode::Required));
        let all = tls("?ssl-mode=VERIFY_CA&ssl-ca=%2Fa+b&sslcert=/c&ssl-key=/k");
        assert!(matches!(all.mode, SslMode::VerifyCa), "{all:?}");
        let paths = [all.ca, all.certificate, all.key].map(|path| path.unwrap());
        assert_eq!(paths, ["/a b", "/c", "/k"].map(PathBuf::from));
    }

    #[test]
    fn an_address_that_cannot_work_is_refused_with_the_reason_and_without_the_password() {
        for url in ["postgres://u:pass@h/d", "mysql://u:pass@h:port/d", "mysql://u:pass@[]:3306/d"]
        {
            let error = format!("{:?}", Address::parse(url).unwrap_err());
            assert!(error.contains("DATABASE_URL") && !error.contains("pass"), "{error}");
        }
        for (options, sentence) in [
            ("ssl-mode=SURE", "unknown value"),
            ("SSL-MODE=REQUIRED", "SSL-MODE"),
            ("ssl_mode=REQUIRED", "ssl_mode"),
            ("ssl-ca=/ca.pem", "add ssl-mode=VERIFY_IDENTITY"),
        ] {
            let error = Address::parse(&format!("mysql://u:p@h/d?{options}")).unwrap_err();
            assert!(format!("{error:?}").contains(sentence), "{error:?}");
        }
    }
}
