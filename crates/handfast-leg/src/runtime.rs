//! Environment of the code that serves connections: sockets, dialling, waiting, and the clock.
//!
//! That code is generic over [`Runtime`]: in production it runs on the [`Engine`], in tests over memory on a clock that the
//! test controls. The choice is made at compile time and costs nothing.

use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::Arc;
use std::task::{Wake, Waker};

use handfast_net::address::Address;
use handfast_net::clock::Moment;
use handfast_net::dial::{self, SourceAddress};
use handfast_net::engine::{self, Priority, TaskHandle, Woken};
use handfast_net::fault::Fault;
use handfast_net::stream::Stream;

use crate::socket::Socket;

/// An environment that connections are served in.
pub trait Runtime: 'static {
    /// The socket of a leg.
    type Socket: Socket + Debug;
    /// An attempt to connect one.
    type Dialling: Dialling<Socket = Self::Socket>;

    /// The time.
    fn now() -> Moment;

    /// The time when the present iteration of the event loop began: the event that woke a task happened before.
    fn turn() -> Moment;

    /// Waits until a socket of the present task may be ready, or the task is woken otherwise, or `deadline` is reached.
    fn wait(deadline: Moment) -> impl Future<Output = Woken>;

    /// Lets the other tasks of the thread run.
    fn yield_now() -> impl Future<Output = ()>;

    /// Starts another task of the thread, with the priority of what relays bytes.
    fn spawn(task: impl Future<Output = ()> + 'static);

    /// The same, polled for the first time in the present turn of the event loop, behind all tasks that are ready.
    fn spawn_late(task: impl Future<Output = ()> + 'static);

    /// The present task, for [`Runtime::wake`].
    fn task() -> TaskHandle;

    /// Ends the present or next [`Runtime::wait`] of `task`, from any thread; a task that has ended is not woken.
    fn wake(task: TaskHandle);

    /// Returns a waker of the present task, for libraries that wake by one; it wakes no other task when this one has ended. **Cost**: an
    /// allocation, unless the runtime has its own wakers.
    fn waker() -> Waker
    where
        Self: Sized,
    {
        Waker::from(Arc::new(WakesTask::<Self> { task: Self::task(), runtime: PhantomData }))
    }

    /// The same for a task of this thread, in the present turn of the event loop and behind all tasks that are ready.
    fn wake_late(task: TaskHandle);

    /// The present task relays bytes from now on, which has priority over handshakes.
    fn carries_bytes();

    /// Returns true if the thread's signer answers a ClientHello. `rule` decides, given whether handshakes of other tasks wait for this
    /// thread; a test's schedule decides instead.
    fn uses_signer(rule: impl FnOnce(bool) -> bool) -> bool;

    /// Begins to dial from `source`. `sends_first`: the caller sends first, as soon as the connection is established.
    ///
    /// **Errors**: the fault, where it is known at once.
    fn dial(address: &Address, source: SourceAddress<'_>, sends_first: bool)
    -> Result<Self::Dialling, Fault>;
}

/// Wakes a task of a runtime.
struct WakesTask<R> {
    task: TaskHandle,
    /// Without a runtime's own value: a waker is shared between threads.
    runtime: PhantomData<fn() -> R>,
}

impl<R: Runtime> Wake for WakesTask<R> {
    fn wake(self: Arc<Self>) {
        R::wake(self.task);
    }
}

/// An attempt to connect; see [`dial::Dialling`].
pub trait Dialling: Debug {
    /// The socket that it becomes.
    type Socket;

    /// Checks whether the connection is established, and if so sends the beginning of `first`. `Some`: the bytes that were sent.
    ///
    /// **Errors**: why it failed.
    fn advance(&mut self, first: &[u8]) -> Result<Option<usize>, Fault>;

    /// The fault to report when the caller waits no longer.
    fn give_up(self) -> Fault;

    /// The socket, once it is connected.
    fn into_socket(self) -> Self::Socket;
}

/// The engine of a worker thread.
#[derive(Debug)]
pub struct Engine;

impl Runtime for Engine {
    type Socket = Stream;
    type Dialling = dial::Dialling;

    fn now() -> Moment {
        Moment::now()
    }

    fn turn() -> Moment {
        engine::now()
    }

    fn wait(deadline: Moment) -> impl Future<Output = Woken> {
        engine::wait(deadline)
    }

    fn yield_now() -> impl Future<Output = ()> {
        engine::yield_now()
    }

    fn spawn(task: impl Future<Output = ()> + 'static) {
        engine::spawn(Priority::Flow, task);
    }

    fn spawn_late(task: impl Future<Output = ()> + 'static) {
        engine::spawn_late(task);
    }

    fn waker() -> Waker {
        engine::current().waker()
    }

    fn task() -> TaskHandle {
        engine::current()
    }

    fn wake(task: TaskHandle) {
        task.wake();
    }

    fn wake_late(task: TaskHandle) {
        task.wake_late();
    }

    fn carries_bytes() {
        engine::set_priority(Priority::Flow);
    }

    fn uses_signer(rule: impl FnOnce(bool) -> bool) -> bool {
        rule(engine::handshakes_wait())
    }

    fn dial(
        address: &Address,
        source: SourceAddress<'_>,
        sends_first: bool,
    ) -> Result<Self::Dialling, Fault> {
        dial::Dialling::begin(address, source, sends_first)
    }
}

impl Dialling for dial::Dialling {
    type Socket = Stream;

    fn advance(&mut self, first: &[u8]) -> Result<Option<usize>, Fault> {
        Self::advance(self, first)
    }

    fn give_up(self) -> Fault {
        Self::give_up(self)
    }

    fn into_socket(self) -> Stream {
        self.into_stream()
    }
}
