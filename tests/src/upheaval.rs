//! Upheavals, which replace a server's history or stop the tailers: a reset of the binlog, a restore from a
//! backup, a session in statement format.

use std::{fmt, fs, path::PathBuf, process::Command, time::Duration};

use devstack::{Flavor, Process, at_last};

use crate::{
    tail::{Tail, sql, try_sql, until_leading},
    until,
};

/// Longest wait for tailers to end by themselves: the standby takes the lead first.
const ENDS_WITHIN: Duration = Duration::from_secs(60);

/// Statements of sessions in statement format.
const STATEMENTS: [&str; 3] = [
    "insert into diary values (9)",
    "update user_coupon set version = version + 1 where id % 50 = 7",
    "delete from user_coupon where id % 50 = 9",
];

/// Kind of upheaval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The server deletes its binlog and restarts its numbering.
    Reset,
    /// The binlog contains a statement in place of rows: the tailers end, and one is started with `--resnapshot`.
    Statement(&'static str),
    /// The server is restored to its state before the last changes.
    Restore,
}

/// An upheaval and its circumstances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Upheaval {
    pub kind: Kind,
    /// Whether it comes in the middle of a load, or after all of the load is published.
    pub is_under_load: bool,
    /// Whether no tailer runs until the server's new history has progressed.
    pub is_unseen: bool,
}

impl Upheaval {
    /// Returns the upheaval of this number. Any twelve consecutive numbers cover all kinds.
    pub fn of_number(number: u64) -> Self {
        let turn = number / 3;
        let statement = STATEMENTS[usize::try_from(turn % 3).unwrap()];
        let kind = [Kind::Reset, Kind::Statement(statement), Kind::Restore];
        let kind = kind[usize::try_from(number % 3).unwrap()];
        // Tailers must run to be stopped by a statement.
        let is_unseen = turn / 2 % 2 == 1 && !matches!(kind, Kind::Statement(_));
        Self { kind, is_under_load: turn % 2 == 1, is_unseen }
    }
}

impl fmt::Display for Upheaval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            Kind::Reset => "binlog reset",
            Kind::Statement(_) => "statement in place of rows",
            Kind::Restore => "backup restored",
        })?;
        f.write_str(if self.is_under_load { " under load" } else { "" })?;
        f.write_str(if self.is_unseen { " while no tailer runs" } else { "" })
    }
}

/// Makes a server delete its binlog and restart its numbering.
pub async fn reset(tail: &Tail, flavor: Flavor) {
    let statement = match flavor {
        Flavor::Mariadb => "reset master",
        Flavor::Mysql => "reset binary logs and gtids",
    };
    // MySQL refuses it while a transaction is about to get a GTID.
    at_last(async || try_sql(&tail.scope.endpoints.database_url, statement)).await;
}

/// Logs a statement in place of rows, waits until both tailers end, and recovers with `--resnapshot`.
pub async fn stop_by_a_statement(tail: &mut Tail, second: &mut Process, statement: &str) {
    let url = &tail.scope.endpoints.database_url;
    let statement = format!("set session binlog_format = 'STATEMENT'; {statement}");
    // Other sessions may conflict with it.
    at_last(async || try_sql(url, &statement)).await;
    for tailer in [tail.tailer(), second] {
        let status = tailer.wait_exit(ENDS_WITHIN).await.unwrap();
        assert_eq!(status.code(), Some(1), "it does not end with an error");
    }
    tail.tailer().set_arguments(["--resnapshot"]);
    tail.lead().await;
    let left = async || tail.platform.cdc_tailer.metric("cdc_tailer_snapshot_tables_left").await;
    until(left, |left| *left == Some(0.0)).await;
    tail.tailer().stop().await.unwrap();
    tail.tailer().set_arguments([]);
    tail.tailer().start().await.unwrap();
    until_leading(tail.tailer()).await;
    second.start().await.unwrap();
}

/// A copy of a server's data folder, including binlog and server identity.
#[derive(Debug)]
pub struct Backup {
    data: PathBuf,
    copy: PathBuf,
}

impl Backup {
    /// Stops a server, copies its data and starts it again.
    pub async fn of(server: &mut Process, url: &str) -> Self {
        let data = PathBuf::from(sql(url, "select @@datadir").trim());
        let copy = data.with_file_name("backup");
        server.stop().await.unwrap();
        drop(fs::remove_dir_all(&copy));
        let copied = Command::new("cp").arg("-a").args([&data, &copy]).status().unwrap();
        assert!(copied.success());
        server.start().await.unwrap();
        Self { data, copy }
    }

    /// Replaces the data with the copy.
    pub async fn restore(self, server: &mut Process) {
        server.stop().await.unwrap();
        fs::remove_dir_all(&self.data).unwrap();
        fs::rename(&self.copy, &self.data).unwrap();
        server.start().await.unwrap();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn twelve_upheavals_in_a_row_are_of_all_kinds() {
        for first in [0, 5, 1 << 40] {
            let kinds = (first..first + 12).map(|number| Upheaval::of_number(number).to_string());
            assert_eq!(kinds.collect::<BTreeSet<_>>().len(), 10);
        }
    }
}
