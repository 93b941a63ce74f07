//! Sockets that move from one task to another, while the kernel reports edges at any moment in between.

use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use super::*;
use crate::stream::{Read, Stream, Write};

/// A stream of ours, which has been waited for once, and the peer's end of it.
fn pair() -> (Stream, UnixStream) {
    let (ours, peer) = UnixStream::pair().expect("a pair of sockets");
    for socket in [&ours, &peer] {
        socket.set_nonblocking(true).expect("a socket");
    }
    let mut stream = Stream::new(OwnedFd::from(ours), false);
    assert_eq!(stream.try_read(&mut [0; 10]), Ok(Read::Blocked));
    (stream, peer)
}

/// A stream that tasks hand to each other, and what became of it.
struct Stage {
    stream: RefCell<Stream>,
    /// Whose turn it is, and whether that is news.
    owner: Cell<usize>,
    given: Cell<bool>,
    read: Cell<usize>,
    ended: Cell<bool>,
    /// Number of polls of each task.
    polls: RefCell<Vec<u32>>,
    tasks: RefCell<Vec<TaskHandle>>,
}

impl Stage {
    fn new(tasks: usize) -> (Rc<Self>, UnixStream) {
        let (stream, peer) = pair();
        stream.release();
        let stage = Rc::new(Self {
            stream: RefCell::new(stream),
            owner: Cell::new(usize::MAX),
            given: Cell::new(false),
            read: Cell::new(0),
            ended: Cell::new(false),
            polls: RefCell::new(vec![0; tasks]),
            tasks: RefCell::new(vec![TaskHandle::NONE; tasks]),
        });
        for number in 0..tasks {
            let stage = Rc::clone(&stage);
            // Half of them wait before they try, as one does that knows nothing to be there.
            spawn(Priority::Flow, async move { stage.task(number, number % 2 == 0).await });
        }
        (stage, peer)
    }

    async fn task(&self, number: usize, tries_first: bool) {
        self.tasks.borrow_mut()[number] = current();
        loop {
            if self.owner.get() == number {
                let given = self.given.replace(false);
                if given {
                    self.stream.borrow().adopt();
                }
                if tries_first || !given {
                    self.take();
                }
            }
            wait(Moment::NEVER).await;
            self.polls.borrow_mut()[number] += 1;
        }
    }

    fn take(&self) {
        let stream = &mut *self.stream.borrow_mut();
        loop {
            match stream.try_read(&mut [0; 7]).expect("no test breaks it") {
                Read::Bytes(count) => self.read.set(self.read.get() + count),
                Read::End => return self.ended.set(true),
                Read::Blocked => return,
            }
        }
    }

    /// Gives it to a task, which is notified.
    fn give(&self, number: usize) {
        self.owner.set(number);
        self.given.set(true);
        self.tasks.borrow()[number].wake();
    }

    /// Takes it from its owner.
    fn park(&self) {
        self.owner.set(usize::MAX);
        self.stream.borrow().release();
    }

    fn polls(&self) -> Vec<u32> {
        self.polls.borrow().clone()
    }
}

async fn turns(count: u32) {
    for _ in 0..count {
        yield_now().await;
    }
}

#[test]
fn the_next_task_is_woken_and_the_one_before_is_not() {
    on_engine(|| async {
        let (stage, mut peer) = Stage::new(2);
        turns(2).await;
        stage.give(0);
        turns(3).await;
        peer.write_all(b"one").expect("there is room");
        turns(3).await;
        assert_eq!(stage.read.get(), 3);
        stage.give(1);
        turns(3).await;
        let before = stage.polls();
        for count in 1..=5 {
            peer.write_all(b"more").expect("there is room");
            turns(3).await;
            assert_eq!(stage.read.get(), 3 + 4 * count);
            let now = stage.polls();
            assert_eq!((now[0], now[1]), (before[0], before[1] + count as u32));
        }
    });
}

#[test]
fn what_comes_while_nobody_has_it_wakes_nobody_and_is_kept_for_the_next() {
    on_engine(|| async {
        // The one that tries first, and the one that waits first.
        for next in [0, 1] {
            let (stage, mut peer) = Stage::new(3);
            turns(2).await;
            stage.give(2);
            turns(3).await;
            stage.park();
            let before = stage.polls();
            peer.write_all(b"while it is parked").expect("there is room");
            drop(peer);
            turns(4).await;
            assert_eq!(
                (stage.polls(), stage.read.get()),
                (before, 0),
                "the edge was reported, and no task woken"
            );
            stage.give(next);
            turns(4).await;
            assert_eq!((stage.read.get(), stage.ended.get()), (18, true));
        }
    });
}

/// The edge wakes the task that has it, which is in the queue already when the stream is taken away.
#[test]
fn an_edge_that_the_previous_task_received_is_not_lost() {
    on_engine(|| async {
        for next in [0, 1] {
            let (stage, mut peer) = Stage::new(3);
            turns(2).await;
            stage.give(2);
            turns(3).await;
            peer.write_all(b"early").expect("there is room");
            // As between two polls of the same turn: the events are there, the task before has not looked.
            engine(|engine| {
                let mut events = Vec::with_capacity(4);
                let into = rustix::buffer::spare_capacity(&mut events);
                epoll::wait(&engine.epoll, into, Some(&Timespec { tv_sec: 1, tv_nsec: 0 }))
                    .expect("an event");
                engine.deliver(&events);
            });
            stage.give(next);
            turns(4).await;
            assert_eq!(stage.read.get(), 5);
        }
    });
}

#[test]
fn room_to_write_is_reported_to_the_task_that_waits_for_it_now() {
    on_engine(|| async {
        give_up_after(Duration::from_secs(20));
        let (mut stream, peer) = pair();
        let mut written = 0;
        while let Write::Bytes(count) = stream.try_write(&[0; 4096]).expect("it is connected") {
            written += count;
        }
        stream.release();
        let polls = current();
        let done = Rc::new(Cell::new(false));
        let writer = {
            let done = Rc::clone(&done);
            async move {
                stream.adopt();
                while stream.try_write(b"x") == Ok(Write::Blocked) {
                    wait(Moment::NEVER).await;
                }
                done.set(true);
                polls.wake();
            }
        };
        spawn(Priority::Flow, writer);
        turns(3).await;
        assert!(!done.get());
        let mut drain = vec![0; written];
        std::io::Read::read_exact(&mut &peer, &mut drain).expect("it was written");
        while !done.get() {
            wait(Moment::NEVER).await;
        }
    });
}

/// Everything at every moment: bytes, moves, parking, turns of the loop, from a seed that the failure names. Nothing is lost
/// whatever the order, and no task waits for an edge that another has received.
#[test]
fn no_order_of_bytes_and_moves_loses_anything() {
    for seed in 1..=400_u64 {
        on_engine(move || async move {
            let mut numbers = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mut next = move |below: u64| {
                numbers ^= numbers << 13;
                numbers ^= numbers >> 7;
                numbers ^= numbers << 17;
                numbers % below
            };
            let (stage, mut peer) = Stage::new(4);
            turns(2).await;
            let mut sent = 0;
            for _ in 0..60 {
                match next(6) {
                    0 | 1 => {
                        let count = 1 + next(20) as usize;
                        peer.write_all(&vec![0; count]).expect("there is room");
                        sent += count;
                    }
                    2 => stage.give(next(4) as usize),
                    3 => stage.park(),
                    _ => turns(1 + next(2) as u32).await,
                }
            }
            stage.give(next(4) as usize);
            turns(4).await;
            assert_eq!(stage.read.get(), sent, "seed {seed}");
        });
    }
}
