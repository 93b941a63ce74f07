//! Tasks whose sockets are memory: a runtime in which the order of events comes from a seed.
//!
//! In: tasks, and pairs of sockets between them. Out: each task is polled when it was woken, when something has happened to a
//! socket that blocked in it, or at its deadline; at no other time, so a wake that is missing shows. The network carries bytes,
//! ends and resets piece by piece. The clock goes on when nothing else can.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use handfast_net::address::Address;
use handfast_net::clock::Moment;
use handfast_net::dial::SourceAddress;
use handfast_net::engine::{TaskHandle, Woken};
use handfast_net::fault::{Cause, Fault, Operation};
use handfast_net::stream::Write;

use super::{Closed, Dice, Link, Memory, dice};
use crate::runtime::{Dialling, Runtime};
use crate::socket::Socket;

/// Maximum number of events; no run reaches it.
const EVENTS: usize = 1_000_000;
/// The clock's step at each event.
const TICK: Duration = Duration::from_nanos(100);

struct Task {
    /// Absent while it is polled.
    future: Option<Pin<Box<dyn Future<Output = ()>>>>,
    deadline: Moment,
    is_woken: bool,
}

/// Two sockets and the network between them, until both are closed.
type Cable = [Rc<RefCell<Link>>; 2];

struct World {
    dice: Dice,
    now: Moment,
    tasks: Vec<Option<Task>>,
    /// Handle of the task that is polled: its place, from 1.
    present: u64,
    cables: Vec<Cable>,
    listener: Option<Rc<Listener>>,
}

/// Takes the server's end of a connection that was dialled.
type Accept = Box<dyn Fn(&Address, Memory)>;

/// Listener that answers dials: it takes the far socket, and spawns its task.
struct Listener {
    room: usize,
    accept: Accept,
}

thread_local! {
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
}

fn world<T>(action: impl FnOnce(&mut World) -> T) -> T {
    WORLD.with_borrow_mut(|world| action(world.as_mut().expect("called by a task of memory::tasks::run()")))
}

/// The task that is polled, if there is one.
pub(super) fn present() -> Option<TaskHandle> {
    WORLD.with_borrow(|world| world.as_ref().map(|world| TaskHandle::from_bits(world.present)))
}

/// Runs tasks, from those that `start` spawns, until all have ended. **Panics** where a task does, and when none can go on.
pub fn run(seed: u64, start: impl FnOnce()) {
    let now = Moment::from_nanos(1);
    let world =
        World { dice: dice(seed), now, tasks: Vec::new(), present: 0, cables: Vec::new(), listener: None };
    WORLD.set(Some(world));
    // Also when a task panics: what the others left must not outlive the thread's other values.
    let _end = End;
    start();
    for event in 0.. {
        assert!(event < EVENTS, "the tasks never end");
        let Some(next) = self::world(World::next) else { break };
        poll(next);
    }
}

struct End;

impl Drop for End {
    fn drop(&mut self) {
        // Dropped outside of the borrow.
        let world = WORLD.take();
        drop(world);
    }
}

/// Starts a task, which is polled for the first time at some later event.
pub fn spawn(future: impl Future<Output = ()> + 'static) -> TaskHandle {
    world(|world| {
        let task = Task { future: Some(Box::pin(future)), deadline: Moment::NEVER, is_woken: true };
        world.tasks.push(Some(task));
        TaskHandle::from_bits(world.tasks.len() as u64)
    })
}

/// Two connected sockets, with room for `room` bytes on each side of both directions. They cut reads and writes short.
pub fn pair(room: usize) -> (Memory, Memory) {
    let link = || Rc::new(RefCell::new(Link { room, ..Link::default() }));
    let ends = [link(), link()];
    world(|world| {
        world.cables.push(ends.clone());
        let [one, other] = ends.map(|link| Memory::new(link, dice((world.dice)()), Rc::new(Cell::new(true))));
        (one, other)
    })
}

/// Answers every dial from now on: `accept` takes the far socket of a [`pair`] with this room. To refuse, it drops the socket.
pub fn listen(room: usize, accept: impl Fn(&Address, Memory) + 'static) {
    world(|world| world.listener = Some(Rc::new(Listener { room, accept: Box::new(accept) })));
}

/// Breaks the connection of a socket: both ends are reset, and what is on its way is lost.
pub fn cut(link: &Rc<RefCell<Link>>) {
    end_cable(link, |link| link.peer_reset = true);
}

/// Ends the connection of a socket as an attacker on the network can: each end receives a FIN, and what is on its way is lost.
pub fn end(link: &Rc<RefCell<Link>>) {
    end_cable(link, |link| (link.peer_ended, link.peer_gone) = (true, true));
}

fn end_cable(link: &Rc<RefCell<Link>>, end: impl Fn(&mut Link)) {
    world(|world| {
        let is_its = |cable: &&Cable| cable.iter().any(|end| Rc::ptr_eq(end, link));
        for link in world.cables.iter().find(is_its).cloned().into_iter().flatten() {
            let link = &mut *link.borrow_mut();
            link.to_peer.clear();
            end(link);
            world.touch(link);
        }
    });
}

/// Something that can happen next.
enum Event {
    Poll(usize),
    /// The direction that begins at this end of a cable moves.
    Carry(usize, usize),
}

impl World {
    fn present(&mut self) -> &mut Task {
        self.tasks[self.present as usize - 1].as_mut().expect("it is polled")
    }

    fn wake(&mut self, task: TaskHandle) {
        let place = (task.to_bits() as usize).wrapping_sub(1);
        if let Some(task) = self.tasks.get_mut(place).and_then(Option::as_mut) {
            task.is_woken = true;
        }
    }

    /// Something has happened to a socket.
    fn touch(&mut self, link: &mut Link) {
        link.is_due = false;
        if let Some(task) = link.waiting {
            self.wake(task);
        }
    }

    /// The next task to be polled, after whatever the network does before; `None` when all have ended.
    fn next(&mut self) -> Option<usize> {
        loop {
            self.now = self.now + TICK;
            self.cables.retain(|cable| cable.iter().any(|end| end.borrow().leg_closed.is_none()));
            let mut events = Vec::new();
            for (place, task) in self.tasks.iter().enumerate() {
                if task.as_ref().is_some_and(|task| task.is_woken || task.deadline <= self.now) {
                    events.push(Event::Poll(place));
                }
            }
            for (place, ends) in self.cables.iter().enumerate() {
                for end in 0..2 {
                    if can_carry(&ends[end].borrow(), &ends[1 - end].borrow()) {
                        events.push(Event::Carry(place, end));
                    }
                }
            }
            if events.is_empty() {
                let deadlines = self.tasks.iter().flatten().map(|task| task.deadline);
                match deadlines.min() {
                    None => return None,
                    Some(Moment::NEVER) => panic!("every task waits, and nothing will wake one"),
                    Some(deadline) => self.now = deadline,
                }
                continue;
            }
            match events[(self.dice)() as usize % events.len()] {
                Event::Poll(place) => return Some(place),
                Event::Carry(place, end) => self.carry(place, end),
            }
        }
    }

    /// Moves something in one direction of a cable.
    fn carry(&mut self, place: usize, end: usize) {
        let ends = self.cables[place].clone();
        let (from, to) = (&mut *ends[end].borrow_mut(), &mut *ends[1 - end].borrow_mut());
        if from.is_due {
            return self.touch(from);
        }
        if to.leg_closed.is_some() && !from.to_peer.is_empty() {
            // Data that arrives at a closed socket is answered by a reset.
            from.to_peer.clear();
            from.peer_reset = true;
            return self.touch(from);
        }
        let most = from.to_peer.len().min(to.room.saturating_sub(to.to_leg.len()));
        if most > 0 {
            let count = match (self.dice)() % 3 {
                0 => most,
                _ => 1 + (self.dice)() as usize % most,
            };
            to.to_leg.extend(from.to_peer.drain(..count));
            self.touch(from);
        } else if from.leg_closed == Some(Closed::Reset) {
            to.peer_reset = true;
        } else {
            (to.peer_ended, to.peer_gone) = (true, from.leg_closed.is_some());
        }
        self.touch(to);
    }
}

/// Returns true if [`World::carry`] has something to do.
fn can_carry(from: &Link, to: &Link) -> bool {
    if from.is_due {
        return true;
    }
    if !from.to_peer.is_empty() {
        return to.leg_closed.is_some() || to.to_leg.len() < to.room;
    }
    match from.leg_closed {
        Some(Closed::Reset) => !to.peer_reset && to.leg_closed.is_none(),
        Some(Closed::InOrder) => !to.peer_gone,
        None => from.leg_ended && !to.peer_ended,
    }
}

struct Waking(TaskHandle);

impl Wake for Waking {
    fn wake(self: Arc<Self>) {
        InMemory::wake(self.0);
    }
}

fn poll(place: usize) {
    let handle = TaskHandle::from_bits(place as u64 + 1);
    let future = world(|world| {
        world.present = handle.to_bits();
        let now = world.now;
        let task = world.present();
        task.is_woken = false;
        if task.deadline <= now {
            task.deadline = Moment::NEVER;
        }
        task.future.take()
    });
    let mut future = future.expect("a task that waits");
    let waker = Waker::from(Arc::new(Waking(handle)));
    let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
    // Outside of the borrow: what a task leaves may wake another one.
    match polled {
        Poll::Ready(()) => {
            drop(future);
            world(|world| world.tasks[place] = None);
        }
        Poll::Pending => world(|world| world.present().future = Some(future)),
    }
}

/// The runtime of the tasks of [`run`]. Its dials are refused, unless they [`listen`].
#[derive(Debug)]
pub struct InMemory;

impl Runtime for InMemory {
    type Socket = Memory;
    type Dialling = Dialled;

    fn now() -> Moment {
        world(|world| world.now)
    }

    fn turn() -> Moment {
        Self::now()
    }

    async fn wait(deadline: Moment) -> Woken {
        let mut waits = false;
        poll_fn(|_| {
            world(|world| {
                if world.now >= deadline {
                    return Poll::Ready(Woken::Deadline);
                }
                world.present().deadline = deadline;
                if std::mem::replace(&mut waits, true) { Poll::Ready(Woken::Event) } else { Poll::Pending }
            })
        })
        .await
    }

    async fn yield_now() {
        Self::wake(Self::task());
        Self::wait(Moment::NEVER).await;
    }

    fn spawn(task: impl Future<Output = ()> + 'static) {
        spawn(task);
    }

    fn spawn_late(task: impl Future<Output = ()> + 'static) {
        spawn(task);
    }

    fn task() -> TaskHandle {
        world(|world| TaskHandle::from_bits(world.present))
    }

    fn wake(task: TaskHandle) {
        // A waker may outlive the run.
        WORLD.with_borrow_mut(|world| {
            if let Some(world) = world {
                world.wake(task);
            }
        });
    }

    /// In any order: the dice decide.
    fn wake_late(task: TaskHandle) {
        Self::wake(task);
    }

    fn carries_bytes() {}

    fn uses_signer(rule: impl FnOnce(bool) -> bool) -> bool {
        rule(false)
    }

    fn dial(address: &Address, _: SourceAddress<'_>, _: bool) -> Result<Dialled, Fault> {
        let refused = || Fault::own(Operation::Connect, Cause::Refused);
        let listener = world(|world| world.listener.clone()).ok_or_else(refused)?;
        let (near, far) = pair(listener.room);
        // Outside of the borrow: it spawns.
        (listener.accept)(address, far);
        Ok(Dialled { socket: near, is_awaited: false })
    }
}

/// A connection that is established one event after its dial.
#[derive(Debug)]
pub struct Dialled {
    socket: Memory,
    is_awaited: bool,
}

impl Dialling for Dialled {
    type Socket = Memory;

    fn advance(&mut self, first: &[u8]) -> Result<Option<usize>, Fault> {
        if !std::mem::replace(&mut self.is_awaited, true) {
            Memory::block(&mut self.socket.link.borrow_mut(), true);
            return Ok(None);
        }
        if self.socket.link.borrow().peer_reset {
            return Err(Fault::own(Operation::Connect, Cause::Refused));
        }
        match first {
            [] => Ok(Some(0)),
            _ => match self.socket.try_write(first)? {
                Write::Bytes(written) => Ok(Some(written)),
                Write::Blocked => Ok(Some(0)),
            },
        }
    }

    fn give_up(self) -> Fault {
        Fault::own(Operation::Connect, Cause::ConnectTimeout)
    }

    fn into_socket(self) -> Memory {
        self.socket
    }
}
