//! The parts of a `mysql://` URL that the binlog connection needs.

use std::fmt;

use runtime::Secret;
use thiserror::Error;

/// The port of a URL that names none.
const DEFAULT_PORT: u16 = 3306;

/// Where the server is and who we are there.
#[derive(Clone)]
pub(crate) struct Address {
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
        if host.is_empty() {
            return Err(AddressError::Place);
        }
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
        if host.is_empty() || user.is_empty() {
            return Err(AddressError::Malformed);
        }
        let Ok(password) = password.parse();
        Ok(Self { host: host.to_owned(), port, user, password })
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}:{}", self.user, self.host, self.port)
    }
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
        assert_eq!(Address::parse("mysql://u:p@[::1]/d").unwrap().port, 3306);
        assert_eq!(format!("{address:?}"), "u@x@db.example:3307");
    }

    #[test]
    fn what_cannot_work_is_refused_with_the_reason() {
        let error = |url| Address::parse(url).unwrap_err();
        assert_eq!(error("postgres://u:p@h/d"), AddressError::Malformed);
        assert_eq!(error("mysql://u@h/d"), AddressError::NoPassword);
        assert_eq!(error("mysql://u:p@h:port/d"), AddressError::Malformed);
        assert_eq!(error("mysql://u:p@h/d?ssl-mode=REQUIRED"), AddressError::Tls);
        assert_eq!(error("mysql://u:p@h/d?sslmode=verify_ca"), AddressError::Tls);
    }

    #[test]
    fn the_binlog_may_be_read_elsewhere_without_the_tls_of_the_queries() {
        let url = "mysql://u:p@db.example:3306/coupon?ssl-mode=VERIFY_IDENTITY";
        let address = Address::of_binlog(url, Some("127.0.0.1:3307")).unwrap();
        assert_eq!(format!("{address:?}"), "u@127.0.0.1:3307");
        assert_eq!(Address::of_binlog(url, None).unwrap_err(), AddressError::Tls);
        for place in ["127.0.0.1", ":3306", "h:port", ""] {
            assert_eq!(Address::of_binlog(url, Some(place)).unwrap_err(), AddressError::Place);
        }
    }
}
