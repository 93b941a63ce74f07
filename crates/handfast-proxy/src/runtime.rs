//! What the path needs of the world: sockets, dialling, waiting, and the clock.
//!
//! The path is written against [`Runtime`], so that it runs on the engine where it serves, and in memory, on a clock that
//! a test holds, where it is tested (`path_tests/`). The choice is made at compile time and costs nothing.

use std::fmt::Debug;

use handfast_leg::Socket;
use handfast_net::address::Address;
use handfast_net::clock::Moment;
use handfast_net::dial::{self, SourceAddress};
use handfast_net::engine::{self, Priority, Woken};
use handfast_net::fault::Fault;
use handfast_net::stream::Stream;

/// A world to serve connections in.
pub(crate) trait Runtime: 'static {
    /// What a leg stands on.
    type Socket: Socket + Debug;
    /// An attempt to get one.
    type Dialling: Dialling<Socket = Self::Socket>;

    /// The time.
    fn now() -> Moment;

    /// The time when the thread's present turn began: what a task is woken by had happened then.
    fn turn() -> Moment;

    /// Waits until one of the present task's sockets may be ready, or it is woken otherwise, or `deadline` comes.
    fn wait(deadline: Moment) -> impl Future<Output = Woken>;

    /// Lets the thread's other tasks have their turn.
    fn yield_now() -> impl Future<Output = ()>;

    /// The present task carries bytes from now on, which comes before handshakes.
    fn carries_bytes();

    /// Whether a hello is answered by the thread's signer. `rule` decides, given whether handshakes of other tasks wait for this thread; a test's
    /// schedule decides instead.
    fn uses_signer(rule: impl FnOnce(bool) -> bool) -> bool;

    /// Begins to dial, from where `source` says. `speaks`: the caller has something to say as soon as it stands.
    ///
    /// **Errors**: what is known at once.
    fn dial(address: &Address, source: SourceAddress<'_>, speaks: bool) -> Result<Self::Dialling, Fault>;
}

/// An attempt to connect; see [`dial::Dialling`].
pub(crate) trait Dialling: Debug {
    /// What it becomes.
    type Socket;

    /// Looks whether it stands, and sends the beginning of `first` if so; `Some` is how much was taken.
    ///
    /// **Errors**: why it failed.
    fn advance(&mut self, first: &[u8]) -> Result<Option<usize>, Fault>;

    /// Why it has not come about, when the caller's patience has ended.
    fn give_up(self) -> Fault;

    /// The socket, once it stands.
    fn into_socket(self) -> Self::Socket;
}

/// The engine of a worker thread.
#[derive(Debug)]
pub(crate) struct Engine;

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

    fn carries_bytes() {
        engine::set_priority(Priority::Flow);
    }

    fn uses_signer(rule: impl FnOnce(bool) -> bool) -> bool {
        rule(engine::handshakes_wait())
    }

    fn dial(address: &Address, source: SourceAddress<'_>, speaks: bool) -> Result<Self::Dialling, Fault> {
        dial::Dialling::begin(address, source, speaks)
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
