//! Many clients at once. In: what each does. Out: how often it was done, and the first thing that went wrong.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use crate::deadline::thread;

/// Threads that repeat something until they are stopped.
pub struct Crowd {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    wrong: Arc<Mutex<Option<String>>>,
    members: Vec<JoinHandle<()>>,
}

impl Crowd {
    /// `size` threads that each repeat `act`; the first error of each ends it.
    pub fn start(size: usize, act: impl Fn(usize) -> Result<(), String> + Send + Sync + 'static) -> Self {
        let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (wrong, act) = (Arc::new(Mutex::new(None)), Arc::new(act));
        let member = |number| {
            let (stop, done) = (Arc::clone(&stop), Arc::clone(&done));
            let (wrong, act) = (Arc::clone(&wrong), Arc::clone(&act));
            thread("one of a crowd", move || {
                while !stop.load(Ordering::Acquire) {
                    if let Err(what) = act(number) {
                        wrong.lock().expect("no thread panics while holding it").get_or_insert(what);
                        return;
                    }
                    done.fetch_add(1, Ordering::AcqRel);
                }
            })
        };
        let members = (0..size).map(member).collect();
        Self { stop, done, wrong, members }
    }

    /// Number of times that it was done so far.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Acquire)
    }

    /// Stops them all; returns the number of times that it was done.
    ///
    /// # Panics
    /// Panics if anything went wrong for any member.
    pub fn finish(self) -> u64 {
        self.stop.store(true, Ordering::Release);
        for member in self.members {
            member.join().expect("one of the crowd panicked; its message is above");
        }
        if let Some(what) = self.wrong.lock().expect("no thread panics while holding it").take() {
            panic!("after {} times: {what}", self.done.load(Ordering::Acquire));
        }
        self.done.load(Ordering::Acquire)
    }
}

/// Does `act` for each number below `count`, on so many threads at once; panics when one of them does.
pub fn for_each(count: usize, threads: usize, act: impl Fn(usize) + Sync) {
    let next = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::AcqRel);
                    if number >= count {
                        return;
                    }
                    act(number);
                }
            });
        }
    });
}
