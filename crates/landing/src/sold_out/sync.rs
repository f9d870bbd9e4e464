//! The synchronization primitives of the memory that requests share. In this crate's unit tests they are loom's, which
//! tries every order.

#[cfg(not(test))]
pub(super) use std::sync::{
    Arc, RwLock, RwLockReadGuard, RwLockWriteGuard,
    atomic::{AtomicU64, Ordering},
};

#[cfg(test)]
pub(super) use loom::sync::{
    Arc, RwLock, RwLockReadGuard, RwLockWriteGuard,
    atomic::{AtomicU64, Ordering},
};
