//! XA transactions that were prepared before a position and end after it. The end of such a transaction alone does not
//! show which rows it commits.

use std::collections::BTreeSet;

use crate::binlog::{
    gtid::{Gtid, GtidSet},
    xid::Xid,
};

/// The XA transactions that a position leaves open.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Pending {
    /// Transactions without rows of followed tables. If one with such rows is open, an earlier position is saved
    /// instead.
    pub(crate) foreign: BTreeSet<Xid>,
    /// The transactions that were committed before the tables were read. If an XA transaction ends among them, the
    /// tables held its rows, unless it is in `unread`. `None` once the position has passed all of them.
    pub(crate) covered: Option<GtidSet>,
    /// Transactions that were prepared before the position and had not ended when the tables were read. If one of them
    /// commits, another snapshot is taken.
    pub(crate) unread: BTreeSet<Xid>,
}

/// A transaction that is one phase of an XA transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It prepares an XA transaction without rows of followed tables.
    PreparesForeign(Xid),
    /// It commits an XA transaction or rolls it back.
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

    /// Returns whether the tables held the rows of a transaction that ends now and whose XA PREPARE was not read.
    pub(crate) fn covers(&self, xid: &Xid) -> bool {
        self.covered.is_some() && !self.unread.contains(xid)
    }

    /// Clears `covered` at the first transaction after it, since the binlog is in the order of the commits.
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
        let one = xid("X'61',X'',1");
        let two = xid("X'62',X'',1");
        let covered = Some(GtidSet::parse(Flavor::MariaDb, "0-1-5").unwrap());
        let unread = [one.clone(), two.clone()].into();
        let mut pending = Pending { covered: covered.clone(), unread, ..Pending::default() };
        assert!(pending.covers(&xid("X'63',X'',1")) && !pending.covers(&one));
        pending.pass(&gtid(4), Some(&Phase::PreparesForeign(one.clone())));
        pending.pass(&gtid(5), Some(&Phase::PreparesForeign(two.clone())));
        assert_eq!(pending.covered, covered);
        pending.pass(&gtid(6), Some(&Phase::Ends(one.clone())));
        pending.pass(&gtid(7), Some(&Phase::Ends(one)));
        let foreign = [two.clone()].into();
        let unread = [two].into();
        assert_eq!(pending, Pending { foreign, covered: None, unread });
    }
}
