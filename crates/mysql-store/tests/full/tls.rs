//! TLS is used exactly as the address demands.

use devstack::{Certificates, Flavor, OwnDatabase};
use mysql_store::{MySqlConnection, StoreError, connect};
use sqlx::Row;

/// Returns the server's name for the connection's cipher; empty without encryption.
async fn cipher(connection: &mut MySqlConnection) -> String {
    let row = sqlx::raw_sql("show session status like 'Ssl_cipher'").fetch_one(connection).await;
    row.unwrap().try_get_unchecked(1).unwrap()
}

/// Formats an error with its source.
fn said(error: &StoreError) -> String {
    let source = std::error::Error::source(error).map(ToString::to_string);
    format!("{error}: {}", source.unwrap_or_default())
}

#[tokio::test]
async fn every_connection_is_encrypted_to_a_server_of_the_named_ca_and_to_no_other() {
    let certificates = Certificates::make("mysql-tls-ca").unwrap();
    let other = Certificates::make("mysql-tls-other-ca").unwrap();
    let certificate = certificates.certificate();
    let key = certificates.key();
    let settings = [format!("--ssl-cert={certificate}"), format!("--ssl-key={key}")];
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let server = OwnDatabase::start("mysql-tls", Flavor::Mariadb, &settings).await.unwrap();
    let with = |mode: &str, by: &Certificates| {
        format!("{}?ssl-mode={mode}&ssl-ca={}", server.url(), by.ca())
    };
    for mode in ["VERIFY_CA", "VERIFY_IDENTITY"] {
        let url = with(mode, &certificates);
        let pool = connect::pool(&url, 1).await.unwrap();
        let mut pooled = connect::acquire(&pool).await.unwrap();
        let mut lander = connect::lander(&url).await.unwrap();
        let mut single = connect::single(&url).await.unwrap();
        for connection in [&mut *pooled, &mut lander, &mut single] {
            assert!(!cipher(connection).await.is_empty(), "{mode}");
        }
        let error = connect::single(&with(mode, &other)).await.unwrap_err();
        assert!(said(&error).contains("certificate verify failed"), "{}", said(&error));
    }
    // Another name than in the certificate.
    let elsewhere = with("VERIFY_IDENTITY", &certificates).replacen("127.0.0.1", "127.0.0.2", 1);
    assert!(connect::single(&elsewhere).await.is_err());
    // Without TLS in the address there is no encryption.
    let mut plain = connect::single(&server.url()).await.unwrap();
    assert_eq!(cipher(&mut plain).await, "");
}

#[tokio::test]
async fn an_address_that_demands_tls_is_never_served_without() {
    let server =
        OwnDatabase::start("mysql-no-tls", Flavor::Mariadb, &["--skip-ssl"]).await.unwrap();
    let url = server.url();
    let error = connect::single(&format!("{url}?ssl-mode=REQUIRED")).await.unwrap_err();
    assert!(said(&error).contains("server does not support TLS"), "{}", said(&error));
    let error = connect::single(&format!("{url}?ssl-ca=/etc/ca.pem")).await.unwrap_err();
    assert!(error.to_string().contains("add ssl-mode=VERIFY_IDENTITY"), "{error}");
    let error = connect::single(&format!("{url}?ssl%2Dmode=REQUIRED")).await.unwrap_err();
    assert!(error.to_string().contains("ssl%2Dmode: spell it out"), "{error}");
    for misspelt in ["SSL-MODE", "ssl_mode", "sslMode", "tls"] {
        let error = connect::single(&format!("{url}?{misspelt}=REQUIRED")).await.unwrap_err();
        assert!(error.to_string().contains("which is none: ssl-mode"), "{error}");
    }
}
