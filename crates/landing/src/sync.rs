//! Synchronization primitives for state that threads share in memory. In this crate's unit tests they are loom's, which
//! tries every order.

#[cfg(not(test))]
pub(crate) use std::sync::{
    Arc, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
    atomic::{AtomicU64, Ordering},
};

#[cfg(test)]
pub(crate) use loom::sync::{
    Arc, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
    atomic::{AtomicU64, Ordering},
};
