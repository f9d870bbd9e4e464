//! A server's address for display: the part of its URL that may be shown.

/// Returns the hosts and ports of a server's URL or of a list of servers, without scheme, user, password, path and
/// options.
///
/// Everything before the last `@` is dropped, wherever it stands: a password that was not encoded must not be shown.
pub fn address(url: &str) -> String {
    let rest = url.rsplit_once('@').map_or(url, |(_, rest)| rest);
    let rest = rest.split_once("://").map_or(rest, |(_, rest)| rest);
    rest.split(['/', '?']).next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_host_and_port_and_never_a_password() {
        for (url, shown) in [
            ("mysql://api:hunter2@db:3306/coupon?ssl-mode=required", "db:3306"),
            ("mysql://api:hun/ter@2@[::1]:3306/coupon", "[::1]:3306"),
            ("redis://:hunter2@127.0.0.1:6379", "127.0.0.1:6379"),
            ("redis+sentinel://a:1,b:2/gate", "a:1,b:2"),
            ("ssl://a:1,b:2?ssl-ca=/ca.pem", "a:1,b:2"),
            ("a:9092,b:9092", "a:9092,b:9092"),
            ("", ""),
        ] {
            assert_eq!(address(url), shown, "{url}");
        }
    }
}
