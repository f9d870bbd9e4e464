//! Places for long-lasting work, limited for the process and for each owner, so that no owner takes all of them.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The places, and who has them. An owner is a merchant or a user.
#[derive(Debug, Clone)]
pub(crate) struct Places<O: Eq + Hash>(Arc<Inner<O>>);

#[derive(Debug)]
struct Inner<O> {
    /// Most at a time.
    all: usize,
    /// Most of one owner.
    of_owner: usize,
    taken: Mutex<Taken<O>>,
}

#[derive(Debug)]
struct Taken<O> {
    all: usize,
    by_owner: HashMap<O, usize>,
}

/// One place. Dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Place<O: Eq + Hash> {
    places: Places<O>,
    owner: O,
}

/// Why there is no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    /// The process has as many as allowed.
    Process,
    /// The owner has as many as allowed.
    Owner,
}

impl<O: Eq + Hash + Copy> Places<O> {
    pub(crate) fn new(all: usize, of_owner: usize) -> Self {
        let taken = Mutex::new(Taken { all: 0, by_owner: HashMap::new() });
        Self(Arc::new(Inner { all, of_owner, taken }))
    }

    /// Takes a place.
    ///
    /// # Errors
    /// The process, or the owner, has as many as allowed.
    pub(crate) fn take(&self, owner: O) -> Result<Place<O>, Full> {
        let mut taken = self.0.lock();
        if taken.all >= self.0.all {
            return Err(Full::Process);
        }
        let own = taken.by_owner.entry(owner).or_default();
        if *own >= self.0.of_owner {
            return Err(Full::Owner);
        }
        *own += 1;
        taken.all += 1;
        Ok(Place { places: self.clone(), owner })
    }

    /// Returns how many places are taken.
    pub(crate) fn taken(&self) -> usize {
        self.0.lock().all
    }
}

impl<O> Inner<O> {
    fn lock(&self) -> MutexGuard<'_, Taken<O>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<O: Eq + Hash> Drop for Place<O> {
    fn drop(&mut self) {
        let mut taken = self.places.0.lock();
        taken.all -= 1;
        if let Some(own) = taken.by_owner.get_mut(&self.owner) {
            *own -= 1;
            if *own == 0 {
                taken.by_owner.remove(&self.owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use coupon::MerchantId;

    use super::*;

    #[test]
    fn a_merchant_has_its_places_and_the_process_has_no_more() {
        let places = Places::new(8, 2);
        let held: Vec<_> = (0..2).map(|_| places.take(MerchantId(1)).unwrap()).collect();
        assert_eq!(places.take(MerchantId(1)).unwrap_err(), Full::Owner);
        let others: Vec<_> =
            (0..6).map(|other| places.take(MerchantId(2 + other)).unwrap()).collect();
        assert_eq!(places.take(MerchantId(99)).unwrap_err(), Full::Process);
        assert_eq!(places.taken(), 8);
        drop(held);
        assert!(places.take(MerchantId(1)).is_ok());
        drop(others);
        assert_eq!(places.taken(), 0);
        assert!(places.0.lock().by_owner.is_empty(), "nothing is left behind");
    }
}
