//! Logs in to real servers: with every `ssl-mode`, every authentication method, and in vain.

use std::sync::Arc;

use super::{
    servers::{Database, certificates, foreign_certificates},
    tap::Tap,
};
use crate::{
    binlog::gtid::Flavor,
    error::{Directive, TailError},
    source::{Origin, Server, address::Address, connection::Connection},
};

const MEGABYTE: usize = 1 << 20;

/// Longer than a challenge, and not ASCII.
const PASSWORD: &str = "ein langes Passwort für Ünterwegs";

fn server(url: &str) -> Server {
    let address = Address::parse(url).unwrap();
    Server { address, flavor: Flavor::MariaDb, server_id: 1, packet_bytes_max: MEGABYTE }
}

/// Logs in; returns the cipher that the server reports, empty if not encrypted.
fn cipher(url: &str) -> Result<String, TailError> {
    let mut connection = Connection::beside(&server(url))?;
    let rows = connection.rows("show session status like 'Ssl_cipher'")?;
    Ok(rows[0][1].clone().unwrap())
}

fn refused(url: &str) -> TailError {
    Connection::beside(&server(url)).map(drop).unwrap_err()
}

/// Returns the URL for another user, with the password percent-encoded.
fn as_user(url: &str, user: &str, password: &str) -> String {
    let password: String = password.bytes().map(|byte| format!("%{byte:02x}")).collect();
    url.replacen("coupon:coupon@", &format!("{user}:{password}@"), 1)
}

#[test]
fn each_mode_is_read_as_the_driver_of_the_queries_reads_it() {
    for database in Database::with_tls() {
        let ca = certificates().ca();
        for (options, is_encrypted) in [
            (String::new(), false),
            ("?ssl-mode=DISABLED".to_owned(), false),
            ("?ssl-mode=PREFERRED".to_owned(), true),
            ("?sslmode=required".to_owned(), true),
            (format!("?ssl-mode=VERIFY_CA&ssl-ca={ca}"), true),
            (format!("?ssl-mode=VERIFY_IDENTITY&sslca={ca}"), true),
        ] {
            let cipher = cipher(&format!("{}{options}", database.url)).unwrap();
            assert_eq!(!cipher.is_empty(), is_encrypted, "{options}: {cipher:?}");
        }
    }
    // A server without TLS. MySQL creates a certificate for itself.
    let plain = Database::compressing_mariadb();
    assert_eq!(cipher(&format!("{}?ssl-mode=PREFERRED", plain.url)).unwrap(), "");
    let error = refused(&format!("{}?ssl-mode=REQUIRED", plain.url));
    assert!(error.to_string().contains("the server does not support TLS"), "{error}");
}

#[test]
fn a_server_that_is_not_trusted_gets_no_password_and_the_error_says_why() {
    for database in Database::with_tls() {
        let own = certificates().ca();
        let other = foreign_certificates().ca();
        let elsewhere = database.url.replacen("127.0.0.1", "127.0.0.2", 1);
        let identity = |ca: &str| format!("?ssl-mode=VERIFY_IDENTITY&ssl-ca={ca}");
        for (url, sentence) in [
            (format!("{}{}", database.url, identity(&other)), "certificate is not trusted"),
            (
                format!("{}?ssl-mode=VERIFY_CA&ssl-ca={other}", database.url),
                "ssl-ca must be the CA",
            ),
            (format!("{elsewhere}{}", identity(&own)), "certificate is not for 127.0.0.2"),
            (format!("{}{}", database.url, identity("/nowhere.pem")), "/nowhere.pem, is of no use"),
            (
                format!("{}{}", database.url, identity(&certificates().key())),
                "ssl-ca of DATABASE_URL",
            ),
        ] {
            let error = refused(&url);
            assert!(error.to_string().contains(sentence), "{url}: {error}");
            assert_eq!(error.directive(), Directive::Stop, "{error}");
        }
        // `VERIFY_CA` ignores the host name.
        assert!(
            !cipher(&format!("{elsewhere}?ssl-mode=VERIFY_CA&ssl-ca={own}")).unwrap().is_empty()
        );
    }
}

#[test]
fn a_server_that_asks_for_our_certificate_gets_it() {
    for database in Database::with_tls() {
        database.sql(
            "create user certified@'%' identified by 'secret' require x509;
             create user encrypted@'%' identified by 'secret' require ssl",
        );
        let ca = certificates().ca();
        let certificates = certificates();
        let by_tls = format!("{}?ssl-mode=VERIFY_IDENTITY&ssl-ca={ca}", database.url);
        let own =
            format!("&ssl-cert={}&ssl-key={}", certificates.certificate(), certificates.key());
        let denied = |url: &str| {
            let error = refused(url);
            assert!(matches!(error, TailError::Denied { .. }), "{url}: {error}");
        };
        denied(&as_user(&database.url, "encrypted", "secret"));
        assert!(!cipher(&as_user(&by_tls, "encrypted", "secret")).unwrap().is_empty());
        denied(&as_user(&by_tls, "certified", "secret"));
        assert!(
            !cipher(&as_user(&format!("{by_tls}{own}"), "certified", "secret")).unwrap().is_empty()
        );
    }
}

mod full {
    use super::*;

    #[test]
    fn a_password_is_proven_in_each_way_that_a_server_asks_for_with_tls_and_without() {
        for database in Database::with_tls() {
            let plugins: &[&str] = match database.is_mariadb {
                true => &["mysql_native_password"],
                false => &["caching_sha2_password", "sha256_password"],
            };
            for plugin in plugins {
                let is_there = format!(
                    "select count(*) from information_schema.plugins \
                     where plugin_name = '{plugin}' and plugin_status = 'ACTIVE'"
                );
                if database.sql(&is_there).trim() != "1" {
                    // The older of MySQL's two methods may be removed in any version.
                    assert_eq!(*plugin, "sha256_password");
                    continue;
                }
                let of = match database.is_mariadb {
                    true => format!("identified via {plugin} using password('{PASSWORD}')"),
                    false => format!("identified with {plugin} by '{PASSWORD}'"),
                };
                let user = format!("by_{plugin}");
                for options in ["", "?ssl-mode=REQUIRED"] {
                    database.sql(&format!("create user {user}@'%' {of}"));
                    let url = as_user(&format!("{}{options}", database.url), &user, PASSWORD);
                    // After the first login MySQL caches a password's digest until the privileges are reloaded, and
                    // requires only a proof.
                    for _ in 0..2 {
                        for _ in 0..2 {
                            assert_eq!(cipher(&url).unwrap().is_empty(), options.is_empty());
                        }
                        let wrong = as_user(&format!("{}{options}", database.url), &user, "wrong");
                        assert!(matches!(refused(&wrong), TailError::Denied { .. }));
                        database.sql("flush privileges");
                    }
                    database.sql(&format!("drop user {user}@'%'"));
                }
            }
            database.sql("create user open_to_all@'%' identified by ''");
            for options in ["", "?ssl-mode=REQUIRED"] {
                let url = as_user(&format!("{}{options}", database.url), "open_to_all", "");
                assert_eq!(cipher(&url).unwrap().is_empty(), options.is_empty());
            }
        }
    }

    #[test]
    fn bytes_read_over_tls_are_those_written_however_long_or_short() {
        const SMALL: usize = 500;
        for database in Database::with_tls() {
            let mut tap = Tap::with_limit(&database, 64 * MEGABYTE);
            let ca = certificates().ca();
            let url = format!("{}?ssl-mode=VERIFY_IDENTITY&ssl-ca={ca}", database.url);
            let plain = &tap.origin.server;
            let by_tls = Server {
                address: Address::parse(&url).unwrap(),
                flavor: plain.flavor,
                server_id: plain.server_id,
                packet_bytes_max: plain.packet_bytes_max,
            };
            tap.origin = Origin { server: Arc::new(by_tls), after: tap.origin.after.clone() };
            tap.sql("create table t (id int primary key, a longblob)");
            for (id, length) in [(-1, 15 * MEGABYTE), (-2, 16 * 1024), (-3, 65_536)] {
                tap.sql(&format!("insert into t values ({id}, repeat(x'fe', {length}))"));
                let rows = tap.rows();
                assert_eq!(rows[0].after("id"), id.to_string());
                assert_eq!(rows[0].after("a").len(), 2 * length);
            }
            let inserts: String =
                (0..SMALL).map(|id| format!("insert into t values ({id}, 'x');")).collect();
            tap.sql(&inserts);
            let ids: Vec<String> =
                tap.rows().iter().map(|row| row.after("id").to_owned()).collect();
            assert_eq!(ids, (0..SMALL).map(|id| id.to_string()).collect::<Vec<_>>());
        }
    }
}
