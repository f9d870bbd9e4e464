//! What turns a server's history into another one, or stops who follows it: a reset of its binlog, a restore from a
//! backup, a session in statement format.

use std::{fs, path::PathBuf, process::Command, time::Duration};

use devstack::{Flavor, Process};

use crate::{
    tail::{Tail, sql, until_leading},
    until,
};

/// How long tailers may take to end by themselves: the one that stands by leads first.
const ENDS_WITHIN: Duration = Duration::from_secs(60);

/// One of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Upheaval {
    /// The server forgets its binlog and counts anew.
    Reset,
    /// A statement stands in the binlog in place of rows: tailers end, and one is started with `--resnapshot`.
    Statement,
    /// The server is what it was before the last changes.
    Restore,
}

impl Upheaval {
    /// Another one each time.
    pub fn of_number(number: u64) -> Self {
        [Self::Reset, Self::Statement, Self::Restore][usize::try_from(number % 3).unwrap()]
    }
}

/// Has a server forget its binlog, and begin to count anew.
pub fn reset(tail: &Tail, flavor: Flavor) {
    tail.sql(match flavor {
        Flavor::Mariadb => "reset master",
        Flavor::Mysql => "reset binary logs and gtids",
    });
}

/// Writes a statement in place of rows, sees both tailers end, and walks the way out.
pub async fn stop_by_a_statement(tail: &mut Tail, second: &mut Process) {
    tail.sql("set session binlog_format = 'STATEMENT'; insert into diary values (9)");
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
