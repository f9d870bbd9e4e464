//! What turns a server's history into another one, or stops who follows it: a reset of its binlog, a restore from a
//! backup, a session in statement format.

use std::{fmt, fs, path::PathBuf, process::Command, time::Duration};

use devstack::{Flavor, Process, at_last};

use crate::{
    tail::{Tail, sql, try_sql, until_leading},
    until,
};

/// How long tailers may take to end by themselves: the one that stands by leads first.
const ENDS_WITHIN: Duration = Duration::from_secs(60);

/// What sessions in statement format do.
const STATEMENTS: [&str; 3] = [
    "insert into diary values (9)",
    "update user_coupon set version = version + 1 where id % 50 = 7",
    "delete from user_coupon where id % 50 = 9",
];

/// One of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The server forgets its binlog and counts anew.
    Reset,
    /// A statement stands in the binlog in place of rows: tailers end, and one is started with `--resnapshot`.
    Statement(&'static str),
    /// The server is what it was before the last changes.
    Restore,
}

/// An upheaval, and how it finds everybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Upheaval {
    /// What happens.
    pub kind: Kind,
    /// In the middle of a load; else behind its end, when all of it is told.
    pub is_under_load: bool,
    /// No tailer runs then, nor before the server's new history has gone on.
    pub is_unseen: bool,
}

impl Upheaval {
    /// Another one each time: twelve numbers in a row are of all kinds.
    pub fn of_number(number: u64) -> Self {
        let turn = number / 3;
        let statement = STATEMENTS[usize::try_from(turn % 3).unwrap()];
        let kind = [Kind::Reset, Kind::Statement(statement), Kind::Restore];
        let kind = kind[usize::try_from(number % 3).unwrap()];
        // Who is to end at a statement must be there.
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

/// Has a server forget its binlog, and begin to count anew.
pub async fn reset(tail: &Tail, flavor: Flavor) {
    let statement = match flavor {
        Flavor::Mariadb => "reset master",
        Flavor::Mysql => "reset binary logs and gtids",
    };
    // MySQL refuses it while a transaction is about to get a GTID.
    at_last(async || try_sql(&tail.scope.endpoints.database_url, statement)).await;
}

/// Writes a statement in place of rows, sees both tailers end, and walks the way out.
pub async fn stop_by_a_statement(tail: &mut Tail, second: &mut Process, statement: &str) {
    let url = &tail.scope.endpoints.database_url;
    let statement = format!("set session binlog_format = 'STATEMENT'; {statement}");
    // Others may be in its way.
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

/// A copy of a server's data folder, binlog and identity with it.
#[derive(Debug)]
pub struct Backup {
    data: PathBuf,
    copy: PathBuf,
}

impl Backup {
    /// Copies a server's data; it is stopped for that.
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

    /// Puts the copy in the data's place.
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
