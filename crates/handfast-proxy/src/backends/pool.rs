//! Connections to backends that wait for the next request, of one thread.
//!
//! In: connections on which a request and its response have ended cleanly. Out: the newest of them for the next request to the same
//! endpoint with the same TLS; the others are closed when they have waited too long, or their backend does anything but wait.
//!
//! **Bounds**: for each endpoint a number, for each connection a time and a number of requests. **Cost**: no system call to keep one or
//! to take one.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use handfast_net::clock::Moment;
use handfast_net::engine::{self, TaskHandle};
use handfast_net::limits::is_scarce;
use handfast_tls::buffer::Scratch;

use crate::backends::endpoint::Endpoint;
use crate::backends::tls::BackendTlsClient;

/// Requests that a connection can serve: those to the same endpoint with the same TLS settings, certificate and name.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) endpoint: Rc<Endpoint>,
    /// `None`: plain text.
    pub(crate) tls: Option<Rc<BackendTlsClient>>,
}

/// Values live as long as the identities that name them, so a place in memory is no other value's.
type Key = (*const Endpoint, Option<*const BackendTlsClient>);

impl Identity {
    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        self.key() == other.key()
    }

    fn key(&self) -> Key {
        (Rc::as_ptr(&self.endpoint), self.tls.as_ref().map(Rc::as_ptr))
    }
}

/// A connection that can be kept. The pool does not know what it consists of.
pub(crate) trait Connection: fmt::Debug + 'static {
    /// Wakes no task from now on.
    fn release(&self);

    /// Returns true if its backend still waits for a request. **Cost**: a read, if its socket had an event.
    fn is_idle(&mut self, scratch: &mut Scratch) -> bool;

    /// Ends it cleanly.
    fn close(self: Box<Self>, scratch: &mut Scratch);

    /// Itself, to be taken by its type.
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

/// A connection that serves several requests at once. A separate task serves and ends it.
pub(crate) trait SharedConnection: fmt::Debug + Any {
    /// It takes no further request, and ends with the last one that it has.
    fn retire(&self);
}

/// Limits on kept connections: their number, and their idle time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Connections for each identity.
    pub(crate) connections: usize,
    pub(crate) idle: Duration,
}

#[derive(Debug)]
struct IdleConnection {
    connection: Box<dyn Connection>,
    /// Time at which it is closed.
    until: Moment,
}

/// Values for each identity, which keeps its place in memory. They are few, so that comparing keys is less work than hashing one.
type ByIdentity<T> = BTreeMap<Key, (Identity, Vec<T>)>;

/// The connections of one thread.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    kept: RefCell<ByIdentity<IdleConnection>>,
    shared: RefCell<ByIdentity<Rc<dyn SharedConnection>>>,
    /// The task of [`Pool::wait_until_used`], while it waits.
    waiting_task: Cell<Option<TaskHandle>>,
    is_closed: Cell<bool>,
}

impl Pool {
    /// Keeps a connection, if there is room and no other needs its descriptor; else it is closed.
    pub(crate) fn keep(
        &self,
        identity: &Identity,
        connection: Box<dyn Connection>,
        bounds: Bounds,
        now: Moment,
        scratch: &mut Scratch,
    ) {
        let mut kept = self.kept.borrow_mut();
        let (_, list) = kept.entry(identity.key()).or_insert_with(|| (identity.clone(), Vec::new()));
        if self.is_closed.get() || list.len() >= bounds.connections || is_scarce(now) {
            return connection.close(scratch);
        }
        connection.release();
        list.push(IdleConnection { connection, until: now + bounds.idle });
        if let Some(task) = self.waiting_task.take() {
            task.wake();
        }
    }

    /// The newest connection that can serve: the oldest ones reach their time if there are more than are needed. It belongs to no task.
    pub(crate) fn take<T: 'static>(
        &self,
        identity: &Identity,
        now: Moment,
        scratch: &mut Scratch,
    ) -> Option<Box<T>> {
        let mut kept = self.kept.borrow_mut();
        let (_, list) = kept.get_mut(&identity.key())?;
        while let Some(IdleConnection { mut connection, until }) = list.pop() {
            if until > now && connection.is_idle(scratch) {
                return connection.into_any().downcast().ok();
            }
            connection.close(scratch);
        }
        None
    }

    /// Adds a connection that several requests share.
    pub(crate) fn share(&self, identity: &Identity, connection: Rc<dyn SharedConnection>) {
        let mut shared = self.shared.borrow_mut();
        let (_, list) = shared.entry(identity.key()).or_insert_with(|| (identity.clone(), Vec::new()));
        list.push(connection);
    }

    /// The first shared connection that `has_room`; those that are over are forgotten.
    pub(crate) fn find_shared<T: SharedConnection>(
        &self,
        identity: &Identity,
        is_over: impl Fn(&T) -> bool,
        has_room: impl Fn(&T) -> bool,
    ) -> Option<Rc<T>> {
        let mut shared = self.shared.borrow_mut();
        let (_, list) = shared.get_mut(&identity.key())?;
        let typed = |one: &Rc<dyn SharedConnection>| Rc::downcast::<T>(Rc::clone(one) as Rc<dyn Any>).ok();
        list.retain(|one| typed(one).is_some_and(|one| !is_over(&one)));
        let found = list.iter().filter_map(typed).find(|one| has_room(one));
        if list.is_empty() {
            shared.remove(&identity.key());
        }
        found
    }

    /// Closes those that no request of the present configuration can use.
    pub(crate) fn keep_only(&self, is_used: impl Fn(&Identity) -> bool, scratch: &mut Scratch) {
        self.retain(scratch, |identity, _, _| is_used(identity));
        self.shared.borrow_mut().retain(|_, (identity, list)| {
            let stays = is_used(identity);
            if !stays {
                list.iter().for_each(|connection| connection.retire());
            }
            stays
        });
    }

    /// Closes all, and keeps none from now on: the program stops.
    pub(crate) fn close(&self, scratch: &mut Scratch) {
        self.is_closed.set(true);
        self.retain(scratch, |_, _, _| false);
    }

    /// Waits until there are connections; the present task is the one that [`Pool::sweep`]s.
    pub(crate) async fn wait_until_used(&self) {
        while self.kept.borrow().is_empty() {
            self.waiting_task.set(Some(engine::current()));
            engine::wait(Moment::NEVER).await;
        }
    }

    /// Closes all where descriptors are scarce; else those whose time has come or whose backend does not wait any more.
    pub(crate) fn sweep(&self, scratch: &mut Scratch) {
        let now = engine::now();
        let is_scarce = is_scarce(now);
        self.retain(scratch, |_, kept, scratch| {
            !is_scarce && kept.until > now && kept.connection.is_idle(scratch)
        });
    }

    fn retain(
        &self,
        scratch: &mut Scratch,
        mut is_kept: impl FnMut(&Identity, &mut IdleConnection, &mut Scratch) -> bool,
    ) {
        let mut all = self.kept.borrow_mut();
        for (identity, list) in all.values_mut() {
            for mut kept in std::mem::take(list) {
                if is_kept(identity, &mut kept, scratch) {
                    list.push(kept);
                } else {
                    kept.connection.close(scratch);
                }
            }
        }
        all.retain(|_, (_, list)| !list.is_empty());
    }
}

#[cfg(test)]
mod tests;
