//! Connections of a pool that never come back to it in the middle of an answer.
//!
//! The driver (sqlx 0.9) reads an answer in pieces. If a future is dropped between two of them, as by a timeout or when
//! the client of a request goes away, the connection's next reader reads the rest of the old answer as its own: it
//! panics, or reads another statement's result. So the connections of a task whose work is dropped before its end are
//! closed when the task releases them. The server then rolls back what they had begun.

use std::{
    collections::HashMap,
    ops::{Deref, DerefMut},
    pin::Pin,
    sync::{
        Arc, LazyLock, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    thread::{self, ThreadId},
};

use sqlx::{Database, MySql, MySqlConnection, MySqlPool, SqlStr, pool::PoolConnection};
use sqlx_core::transaction::TransactionManager;
use tokio::task;

/// The driver's functions for transactions.
type Manager = <MySql as Database>::TransactionManager;

/// Whether a connection may be in the middle of an answer.
type IsBroken = Arc<AtomicBool>;

/// The connections in use, by the task that used them last.
static IN_USE: LazyLock<Mutex<HashMap<User, Vec<IsBroken>>>> = LazyLock::new(Mutex::default);

/// Who uses a connection: a task, or a thread that runs a future outside tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum User {
    Task(task::Id),
    Thread(ThreadId),
}

impl User {
    fn current() -> Self {
        task::try_id().map_or_else(|| Self::Thread(thread::current().id()), Self::Task)
    }

    fn takes(self, connection: &IsBroken) {
        in_use().entry(self).or_default().push(connection.clone());
    }

    fn lets_go_of(self, connection: &IsBroken) {
        let mut users = in_use();
        let Some(connections) = users.get_mut(&self) else { return };
        connections.retain(|other| !Arc::ptr_eq(other, connection));
        if connections.is_empty() {
            users.remove(&self);
        }
    }

    fn breaks_off(self) {
        for connection in in_use().get(&self).into_iter().flatten() {
            connection.store(true, Ordering::Relaxed);
        }
    }
}

fn in_use() -> MutexGuard<'static, HashMap<User, Vec<IsBroken>>> {
    IN_USE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Work that breaks the connections of its task if it is dropped before its end.
pub(super) struct Abandonable<F> {
    /// `None`: it has ended.
    work: Option<Pin<Box<F>>>,
}

impl<F: Future> Abandonable<F> {
    /// Boxes the work: its future takes kilobytes, and would enlarge every claim's task, which seldom runs it.
    pub(super) fn new(work: F) -> Self {
        Self { work: Some(Box::pin(work)) }
    }
}

impl<F: Future> Future for Abandonable<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let work = self.work.as_mut().expect("it is not polled after its end");
        let polled = work.as_mut().poll(context);
        if polled.is_ready() {
            self.work = None;
        }
        polled
    }
}

impl<F> Drop for Abandonable<F> {
    fn drop(&mut self) {
        if self.work.is_some() {
            User::current().breaks_off();
        }
    }
}

/// A connection of a pool. Dropped, it goes back, or is closed if its user abandoned work meanwhile.
#[derive(Debug)]
pub struct Pooled {
    connection: PoolConnection<MySql>,
    user: User,
    is_broken: IsBroken,
}

impl Pooled {
    pub(super) async fn acquire(pool: &MySqlPool) -> Result<Self, sqlx::Error> {
        let connection = pool.acquire().await?;
        let user = User::current();
        let is_broken = IsBroken::default();
        user.takes(&is_broken);
        Ok(Self { connection, user, is_broken })
    }

    fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Relaxed)
    }
}

impl Deref for Pooled {
    type Target = MySqlConnection;

    fn deref(&self) -> &MySqlConnection {
        &self.connection
    }
}

impl DerefMut for Pooled {
    fn deref_mut(&mut self) -> &mut MySqlConnection {
        let user = User::current();
        if user != self.user {
            self.user.lets_go_of(&self.is_broken);
            user.takes(&self.is_broken);
            self.user = user;
        }
        &mut self.connection
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        self.user.lets_go_of(&self.is_broken);
        if self.is_broken() {
            self.connection.close_on_drop();
        }
    }
}

/// A transaction on one of a pool's connections, rolled back when dropped. A transaction begun inside, as some
/// functions of this crate do, is part of it.
#[derive(Debug)]
pub struct Transaction {
    connection: Pooled,
    is_open: bool,
}

impl Transaction {
    /// Begins with `statements`.
    pub(super) async fn begin(
        mut connection: Pooled,
        statements: &'static str,
    ) -> Result<Self, sqlx::Error> {
        Manager::begin(&mut connection, Some(SqlStr::from_static(statements))).await?;
        Ok(Self { connection, is_open: true })
    }

    pub(super) async fn commit(mut self) -> Result<(), sqlx::Error> {
        Manager::commit(&mut self.connection).await?;
        self.is_open = false;
        Ok(())
    }
}

impl Deref for Transaction {
    type Target = MySqlConnection;

    fn deref(&self) -> &MySqlConnection {
        &self.connection
    }
}

impl DerefMut for Transaction {
    fn deref_mut(&mut self) -> &mut MySqlConnection {
        &mut self.connection
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if self.is_open && !self.connection.is_broken() {
            Manager::start_rollback(&mut self.connection);
        }
    }
}
