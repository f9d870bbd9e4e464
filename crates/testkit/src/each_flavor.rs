//! `on_each_flavor!`: one function as a test of MariaDB and a test of MySQL.

/// Two tests of one function, which takes a `devstack::Flavor`; the caller's crate depends on devstack and tokio. With
/// `multi_thread`, each runs on several threads. Attributes of the second test stand before its name.
///
/// ```text
/// testkit::on_each_flavor! {
///     restarted:
///     a_server_that_is_killed_costs_nothing,
///     #[ignore = "its statements run on MySQL in mysql-store; ./dev soak mysql"]
///     a_mysql_that_is_killed_costs_nothing,
/// }
/// ```
#[macro_export]
macro_rules! on_each_flavor {
    (multi_thread $run:ident: $on_mariadb:ident, $(#[$of_mysql:meta])* $on_mysql:ident $(,)?) => {
        #[tokio::test(flavor = "multi_thread")]
        async fn $on_mariadb() {
            $run(devstack::Flavor::Mariadb).await;
        }

        #[tokio::test(flavor = "multi_thread")]
        $(#[$of_mysql])*
        async fn $on_mysql() {
            $run(devstack::Flavor::Mysql).await;
        }
    };
    ($run:ident: $on_mariadb:ident, $(#[$of_mysql:meta])* $on_mysql:ident $(,)?) => {
        #[tokio::test]
        async fn $on_mariadb() {
            $run(devstack::Flavor::Mariadb).await;
        }

        #[tokio::test]
        $(#[$of_mysql])*
        async fn $on_mysql() {
            $run(devstack::Flavor::Mysql).await;
        }
    };
}
