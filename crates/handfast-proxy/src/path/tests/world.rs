//! The world of a simulated connection: a clock that moves only when a test moves it, and dials that do what was planned.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use handfast_leg::memory::{Link, Memory};
use handfast_net::clock::Moment;
use handfast_net::dial::SourceAddress;
use handfast_net::engine::{TaskHandle, Woken};
use handfast_net::fault::{Cause, Fault, Operation};
use handfast_stats::random::Random;

use super::backend::Dial;
use handfast_config::model::Address;
use handfast_leg::runtime::{Dialling, Runtime};

/// State behind the functions of [`Simulated`]; set up again for each schedule.
pub(super) struct World {
    pub(super) now: Moment,
    /// Time by which the clock advances at each reading.
    pub(super) tick: Duration,
    /// Until when the connection waits at most.
    pub(super) deadline: Moment,
    /// Outcomes of the next attempts to dial …
    pub(super) dials: VecDeque<Dial>,
    /// … and of all that follow.
    pub(super) dial: Dial,
    /// Addresses that were dialled, and if bytes were going to be sent to them at once.
    pub(super) dialled: Vec<(String, bool)>,
    pub(super) backend: Rc<RefCell<Link>>,
    pub(super) capricious: Rc<Cell<bool>>,
    /// The connection has given way to others, and wants to go on.
    pub(super) yields: bool,
    /// For the backend's socket.
    pub(super) seed: u64,
    /// The backend has been dialled and the connection is open.
    pub(super) is_connected: bool,
    /// The connection carries bytes: it goes before handshakes.
    pub(super) carries_bytes: bool,
    /// Other newcomers wait.
    pub(super) is_crowded: bool,
    /// Waits in a row that were over before they began.
    overdue: u32,
}

impl World {
    /// Returns a world without any event yet.
    pub(super) fn new(
        now: Moment,
        dial: Dial,
        backend: Rc<RefCell<Link>>,
        capricious: &Rc<Cell<bool>>,
        seed: u64,
    ) -> Self {
        let capricious = Rc::clone(capricious);
        let (dials, dialled) = Default::default();
        let (deadline, yields, is_connected, carries_bytes, overdue) = (now, false, false, false, 0);
        let is_crowded = Random::stream(seed, 5).next().is_multiple_of(2);
        Self {
            now,
            tick: Duration::ZERO,
            deadline,
            dials,
            dial,
            dialled,
            backend,
            capricious,
            yields,
            seed,
            is_connected,
            carries_bytes,
            is_crowded,
            overdue,
        }
    }
}

/// Waits in a row for a moment that has passed: more of them are spinning.
const MAX_OVERDUE_WAITS: u32 = 1_000;

thread_local! {
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
}

/// Looks at the world of this thread, or changes it.
pub(super) fn world<T>(action: impl FnOnce(&mut World) -> T) -> T {
    WORLD.with_borrow_mut(|world| action(world.as_mut().expect("a schedule is being played")))
}

/// Begins a new one.
pub(super) fn begin(world: World) {
    WORLD.set(Some(world));
}

/// A socket whose whims come from a stream of a seed.
pub(super) fn socket(
    link: &Rc<RefCell<Link>>,
    capricious: &Rc<Cell<bool>>,
    seed: u64,
    stream: u64,
) -> Memory {
    let mut random = Random::stream(seed, stream);
    Memory::new(Rc::clone(link), Box::new(move || random.next()), Rc::clone(capricious))
}

/// The runtime of simulated connections.
#[derive(Debug)]
pub(super) struct Simulated;

impl Runtime for Simulated {
    type Socket = Memory;
    type Dialling = Dialled;

    fn now() -> Moment {
        world(|world| {
            world.now = world.now + world.tick;
            world.now
        })
    }

    fn turn() -> Moment {
        world(|world| world.now)
    }

    fn wait(deadline: Moment) -> impl Future<Output = Woken> {
        // No wait without a deadline: invariant 4.
        assert_ne!(deadline, Moment::NEVER, "it waits without a deadline");
        Wait { deadline, waiting: false }
    }

    async fn yield_now() {
        world(|world| world.yields = true);
        Wait { deadline: Self::now() + Duration::from_secs(1), waiting: false }.await;
    }

    fn spawn(_: impl Future<Output = ()> + 'static) {
        unreachable!("there is one task");
    }

    fn spawn_late(_: impl Future<Output = ()> + 'static) {
        unreachable!("there is one task");
    }

    /// There is one task.
    fn task() -> TaskHandle {
        TaskHandle::NONE
    }

    fn wake(_: TaskHandle) {
        world(|world| world.yields = true);
    }

    fn wake_late(task: TaskHandle) {
        Self::wake(task);
    }

    fn carries_bytes() {
        world(|world| world.carries_bytes = true);
    }

    fn uses_signer(_: impl FnOnce(bool) -> bool) -> bool {
        world(|world| world.is_crowded)
    }

    fn dial(address: &Address, _: SourceAddress<'_>, speaks: bool) -> Result<Dialled, Fault> {
        world(|world| {
            world.dialled.push((address.to_string(), speaks));
            match world.dials.pop_front().unwrap_or(world.dial) {
                Dial::RefusedAtOnce => Err(Fault::own(Operation::Connect, Cause::NetworkUnreachable)),
                dial => Ok(Dialled { dial, begun: world.now }),
            }
        })
    }
}

/// Waits as the engine does: woken at any time, and past the deadline for certain.
struct Wait {
    deadline: Moment,
    waiting: bool,
}

impl Future for Wait {
    type Output = Woken;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Woken> {
        world(|world| {
            world.deadline = self.deadline;
            if world.now >= self.deadline {
                world.overdue += 1;
                assert!(
                    world.overdue < MAX_OVERDUE_WAITS,
                    "it spins: it waits again and again for a moment that has passed"
                );
                return Poll::Ready(Woken::Deadline);
            }
            world.overdue = 0;
            if std::mem::replace(&mut self.waiting, true) { Poll::Ready(Woken::Event) } else { Poll::Pending }
        })
    }
}

/// An attempt to dial.
#[derive(Debug)]
pub(super) struct Dialled {
    dial: Dial,
    begun: Moment,
}

impl Dialling for Dialled {
    type Socket = Memory;

    fn advance(&mut self, first: &[u8]) -> Result<Option<usize>, Fault> {
        world(|world| {
            let passed = world.now.since(self.begun);
            match self.dial {
                Dial::Connects { after } if passed >= after => {
                    world.is_connected = true;
                    // The kernel takes some of it.
                    let mut link = world.backend.borrow_mut();
                    let taken = (first.len() * usize::from(world.seed.is_multiple_of(3)) / 2).min(link.room);
                    link.to_peer.extend(&first[..taken]);
                    Ok(Some(taken))
                }
                Dial::Refused { after } if passed >= after => {
                    Err(Fault::own(Operation::Connect, Cause::Refused))
                }
                _ => Ok(None),
            }
        })
    }

    fn give_up(self) -> Fault {
        Fault::own(Operation::Connect, Cause::ConnectTimeout)
    }

    fn into_socket(self) -> Memory {
        world(|world| socket(&world.backend, &world.capricious, world.seed, 3))
    }
}
