//! Places for work that keeps a connection to MySQL busy for long: so many in the process, and so many of one merchant, so
//! that no merchant takes all of them.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use coupon::MerchantId;

/// The places, and who has them.
#[derive(Debug, Clone)]
pub(crate) struct Places(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Most at a time.
    all: usize,
    /// Most of one merchant.
    of_merchant: usize,
    taken: Mutex<HashMap<MerchantId, usize>>,
}

/// One place. Dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Place {
    places: Places,
    merchant: MerchantId,
}

impl Places {
    pub(crate) fn new(all: usize, of_merchant: usize) -> Self {
        Self(Arc::new(Inner { all, of_merchant, taken: Mutex::default() }))
    }

    /// Takes a place, or returns `None` if the merchant or the process has enough.
    pub(crate) fn take(&self, merchant: MerchantId) -> Option<Place> {
        let mut taken = self.0.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = taken.values().sum();
        let own = taken.get(&merchant).copied().unwrap_or(0);
        if all >= self.0.all || own >= self.0.of_merchant {
            return None;
        }
        taken.insert(merchant, own + 1);
        Some(Place { places: self.clone(), merchant })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.0.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = taken.get_mut(&self.merchant) {
            *own -= 1;
            if *own == 0 {
                taken.remove(&self.merchant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_merchant_has_its_places_and_the_process_has_no_more() {
        let places = Places::new(8, 2);
        let held: Vec<Place> = (0..2).map(|_| places.take(MerchantId(1)).unwrap()).collect();
        assert!(places.take(MerchantId(1)).is_none());
        let others: Vec<Place> =
            (0..6).map(|other| places.take(MerchantId(2 + other)).unwrap()).collect();
        assert!(places.take(MerchantId(99)).is_none(), "the process has enough");
        drop(held);
        assert!(places.take(MerchantId(1)).is_some());
        drop(others);
        assert!(places.0.taken.lock().unwrap().is_empty(), "nothing is left behind");
    }
}
