//! What the path needs of the world: sockets, dialling, waiting, and the clock.
//!
//! The path is written against [`Runtime`], so that it runs on the engine where it serves, and in memory, on a clock that
//! a test holds, where it is tested (`path_tests/`). The choice is made at compile time and costs nothing.

use std::fmt::Debug;

use handfast_leg::Socket;
use handfast_net::clock::Moment;
use handfast_net::dial::{self, SourceAddress};
use handfast_net::engine::{self, Priority, Woken};
use handfast_net::fault::Fault;
use handfast_net::stream::Stream;

use crate::config::model::Address;
use crate::key_process;
use crate::signer::Signer;
use crate::thread::Thread;

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

    /// The thread's signer, where it is to answer a hello. That costs a fifth of the handshakes that a processor can make; so only while
    /// newcomers wait and would delay somebody who is here already, and only what `is_dear`, which is asked last.
    fn signer(thread: &Thread, is_dear: impl FnOnce() -> bool) -> Option<&Signer>;

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

    fn signer(thread: &Thread, is_dear: impl FnOnce() -> bool) -> Option<&Signer> {
        if key_process::hesitates() {
            return thread.signer();
        }
        let newcomers_wait = |signer: &Signer| signer.is_busy() || engine::handshakes_wait();
        let signer = thread.signer().filter(|_| thread.has_carried(engine::now()));
        signer.filter(|signer| newcomers_wait(signer) && is_dear())
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
