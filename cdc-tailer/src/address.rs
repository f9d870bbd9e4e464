//! The parts of a `mysql://` URL that the binlog connection needs.

use std::fmt;

use runtime::Secret;
use thiserror::Error;

/// The port of a URL that names none.
const DEFAULT_PORT: u16 = 3306;

/// Where the server is and who we are there.
#[derive(Clone)]
pub(crate) struct Address {
    /// A name or an IP address, without the brackets of a URL.
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) user: String,
    pub(crate) password: Secret,
}

/// A URL cannot be used; the URL itself is not shown, it holds the password.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum AddressError {
    /// Not of the expected form.
    #[error("DATABASE_URL is not of the form mysql://user:password@host:port/database")]
    Malformed,
    /// The binlog connection cannot log in without one.
    #[error("DATABASE_URL has no password; the binlog connection needs a user with one")]
    NoPassword,
    /// The binlog connection cannot be encrypted.
    #[error(
        "DATABASE_URL asks for TLS, which the binlog connection does not have: name the near end of a \
         tunnel to the server in BINLOG_ADDRESS (stunnel, ssh -L), or the server itself if nobody is \
         on the way to it"
    )]
    Tls,
    /// Not a host and a port.
    #[error("BINLOG_ADDRESS is not of the form host:port")]
    Place,
}

impl Address {
    /// Where the binlog is read: at `place`, `host:port`, if that is given.
    pub(crate) fn of_binlog(url: &str, place: Option<&str>) -> Result<Self, AddressError> {
        let Some(place) = place else { return Self::parse(url) };
        let (url, _) = url.split_once('?').unwrap_or((url, ""));
        let (host, port) = place.rsplit_once(':').ok_or(AddressError::Place)?;
        let port = port.parse().map_err(|_| AddressError::Place)?;
        let host = bare(host).ok_or(AddressError::Place)?;
        Ok(Self { host: host.to_owned(), port, ..Self::parse(url)? })
    }

    pub(crate) fn parse(url: &str) -> Result<Self, AddressError> {
        let rest = url.strip_prefix("mysql://").or_else(|| url.strip_prefix("mariadb://"));
        let rest = rest.ok_or(AddressError::Malformed)?;
        let (rest, parameters) = rest.split_once('?').unwrap_or((rest, ""));
        if parameters.split('&').any(demands_tls) {
            return Err(AddressError::Tls);
        }
        let authority = rest.split('/').next().unwrap_or_default();
        let (login, place) = authority.rsplit_once('@').ok_or(AddressError::Malformed)?;
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        let (user, password) = (decoded(user)?, decoded(password)?);
        if password.is_empty() {
            return Err(AddressError::NoPassword);
        }
        let (host, port) = match place.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => {
                (host, port.parse().map_err(|_| AddressError::Malformed)?)
            }
            _ => (place, DEFAULT_PORT),
        };
        let host = bare(host).ok_or(AddressError::Malformed)?;
        if user.is_empty() {
            return Err(AddressError::Malformed);
        }
        let Ok(password) = password.parse();
        Ok(Self { host: host.to_owned(), port, user, password })
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

/// A host without brackets. An IPv6 address has them in a URL: else nobody knew where it ends.
fn bare(host: &str) -> Option<&str> {
    let bare = match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']')?,
        None if host.contains(':') => return None,
        None => host,
    };
    (!bare.is_empty() && !bare.contains(['[', ']'])).then_some(bare)
}

fn demands_tls(parameter: &str) -> bool {
    let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
    let value = value.to_ascii_lowercase();
    // The driver of the queries takes both names.
    let is_mode = ["ssl-mode", "sslmode"].iter().any(|mode| name.eq_ignore_ascii_case(mode));
    is_mode && !matches!(value.as_str(), "disabled" | "preferred")
}

/// Resolves `%41`.
fn decoded(text: &str) -> Result<String, AddressError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || {
            let digit = char::from(rest.next()?).to_digit(16)?;
            u8::try_from(digit).ok()
        };
        let (high, low) = (digit(), digit());
        bytes
            .push(high.zip(low).map(|(high, low)| high << 4 | low).ok_or(AddressError::Malformed)?);
    }
    String::from_utf8(bytes).map_err(|_| AddressError::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_gives_its_parts_with_escapes_resolved() {
        let address =
            Address::parse("mysql://u%40x:p%2Fw@db.example:3307/coupon?charset=x").unwrap();
        assert_eq!((address.host.as_str(), address.port), ("db.example", 3307));
        assert_eq!((address.user.as_str(), address.password.expose()), ("u@x", "p/w"));
        assert_eq!(format!("{address:?}"), "u@x@db.example:3307");
    }

    #[test]
    fn an_ip_address_of_version_six_loses_its_brackets() {
        for (url, port) in [("mysql://u:p@[::1]/d", 3306), ("mysql://u:p@[::1]:3307/d", 3307)] {
            let address = Address::parse(url).unwrap();
            assert_eq!((address.host.as_str(), address.port), ("::1", port));
            assert_eq!(format!("{address:?}"), format!("u@[::1]:{port}"));
        }
        let address = Address::of_binlog("mysql://u:p@h/d", Some("[fe80::7]:3308")).unwrap();
        assert_eq!((address.host.as_str(), address.port), ("fe80::7", 3308));
    }

    #[test]
    fn what_cannot_work_is_refused_with_the_reason() {
        let error = |url| Address::parse(url).unwrap_err();
        assert_eq!(error("postgres://u:p@h/d"), AddressError::Malformed);
        assert_eq!(error("mysql://u@h/d"), AddressError::NoPassword);
        assert_eq!(error("mysql://u:p@h:port/d"), AddressError::Malformed);
        assert_eq!(error("mysql://u:p@::1/d"), AddressError::Malformed);
        assert_eq!(error("mysql://u:p@[]:3306/d"), AddressError::Malformed);
        assert_eq!(error("mysql://u:p@[[a]]:3306/d"), AddressError::Malformed);
        assert_eq!(error("mysql://u:p@h/d?ssl-mode=REQUIRED"), AddressError::Tls);
        assert_eq!(error("mysql://u:p@h/d?sslmode=verify_ca"), AddressError::Tls);
    }

    #[test]
    fn the_binlog_may_be_read_elsewhere_without_the_tls_of_the_queries() {
        let url = "mysql://u:p@db.example:3306/coupon?ssl-mode=VERIFY_IDENTITY";
        let address = Address::of_binlog(url, Some("127.0.0.1:3307")).unwrap();
        assert_eq!(format!("{address:?}"), "u@127.0.0.1:3307");
        assert_eq!(Address::of_binlog(url, None).unwrap_err(), AddressError::Tls);
        for place in ["127.0.0.1", ":3306", "h:port", "", "::1", "::1:3306", "[::1]", "[::1:3306"] {
            assert_eq!(Address::of_binlog(url, Some(place)).unwrap_err(), AddressError::Place);
        }
    }
}
