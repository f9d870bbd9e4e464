//! What is known of XA transactions that were prepared before a position and end behind it. Their end alone does not say
//! which rows it commits.

use std::collections::BTreeSet;

use crate::binlog::{
    gtid::{Gtid, GtidSet},
    xid::Xid,
};

/// Belongs to a position.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Pending {
    /// Those without rows of followed tables. A position before one with such rows is kept instead.
    pub(crate) foreign: BTreeSet<Xid>,
    /// What was committed before the tables were read, as long as the position is not behind it: whatever ends there, the
    /// tables held its rows. Except for those in `unread`.
    pub(crate) covered: Option<GtidSet>,
    /// Those that were prepared before the position and had not ended when the tables were read. The commit of one leads
    /// to another snapshot.
    pub(crate) unread: BTreeSet<Xid>,
}

/// A transaction that is one phase of an XA transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It prepares one without rows of followed tables.
    PreparesForeign(Xid),
    /// It commits one or rolls it back.
    Ends(Xid),
}

impl Pending {
    /// Advances past a transaction.
    pub(crate) fn pass(&mut self, gtid: &Gtid, phase: Option<&Phase>) {
        self.begin(gtid);
        match phase {
            None => {}
            Some(Phase::PreparesForeign(xid)) => drop(self.foreign.insert(xid.clone())),
            Some(Phase::Ends(xid)) => {
                self.foreign.remove(xid);
                self.unread.remove(xid);
            }
        }
    }

    /// Returns whether the tables held the rows of a transaction that ends now and was not seen to be prepared.
    pub(crate) fn covers(&self, xid: &Xid) -> bool {
        self.covered.is_some() && !self.unread.contains(xid)
    }

    /// Forgets what was covered with the first transaction behind it: the binlog's order is that of the commits.
    pub(crate) fn begin(&mut self, gtid: &Gtid) {
        if self.covered.as_ref().is_some_and(|covered| !covered.contains(gtid)) {
            self.covered = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binlog::gtid::Flavor;

    #[test]
    fn foreign_transactions_are_known_until_they_end_and_covered_ones_until_the_first_that_is_not()
    {
        let gtid = |number: u64| Gtid::parse(Flavor::MariaDb, &format!("0-1-{number}")).unwrap();
        let xid = |name: &str| Xid::from_statement(name.as_bytes()).unwrap();
        let (one, two) = (xid("X'61',X'',1"), xid("X'62',X'',1"));
        let covered = Some(GtidSet::parse(Flavor::MariaDb, "0-1-5").unwrap());
        let unread = [one.clone(), two.clone()].into();
        let mut pending = Pending { covered: covered.clone(), unread, ..Pending::default() };
        assert!(pending.covers(&xid("X'63',X'',1")) && !pending.covers(&one));
        pending.pass(&gtid(4), Some(&Phase::PreparesForeign(one.clone())));
        pending.pass(&gtid(5), Some(&Phase::PreparesForeign(two.clone())));
        assert_eq!(pending.covered, covered);
        pending.pass(&gtid(6), Some(&Phase::Ends(one.clone())));
        pending.pass(&gtid(7), Some(&Phase::Ends(one)));
        let (foreign, unread) = ([two.clone()].into(), [two].into());
        assert_eq!(pending, Pending { foreign, covered: None, unread });
    }
}
