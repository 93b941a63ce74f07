//! A clock that wakes one task to the microsecond, for what must begin at its moment: the wheel of deadlines ticks every
//! few milliseconds, and epoll_wait(2) sleeps whole ones.
//!
//! In: a moment. Out: an event of [`super::wait`] soon after it, and never before.

use std::io;
use std::os::fd::OwnedFd;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use super::{EventSource, Ready};
use crate::clock::Moment;

/// Wakes the task that made it.
///
/// **Cost**: a descriptor; each setting is one system call, and each waking one event.
#[derive(Debug)]
pub struct Alarm {
    // Dropped before the descriptor it is for.
    source: EventSource,
    timer: OwnedFd,
}

impl Alarm {
    /// An alarm of the present task, not set.
    ///
    /// **Errors**: out of file descriptors, or registering with the engine.
    pub fn new() -> io::Result<Self> {
        let timer =
            timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        let source = EventSource::register(&timer, Ready::NONE)?;
        Ok(Self { source, timer })
    }

    /// Wakes the task at `moment` instead of when it was set to before; at once if that has passed, and not at all if
    /// it is [`Moment::NEVER`].
    ///
    /// Once: it is to be set again after it has woken the task. As with sockets, being woken is a hint: the task looks at
    /// the clock.
    pub fn set(&self, moment: Moment) {
        // Earlier rings are over: the kernel forgets them with the new setting, and so does the engine, which would
        // otherwise take the next ring for the same one.
        self.source.used_up(Ready::READ);
        let value = match moment {
            // All zero means that it is not set.
            Moment::NEVER => Timespec { tv_sec: 0, tv_nsec: 0 },
            moment => {
                let nanos = moment.nanos().max(1);
                // Both fit: 2^64 ns are 2^35 seconds.
                Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 }
            }
        };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        // It fails only for a time that is none (EINVAL), which these are not.
        let set = timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &once);
        debug_assert!(set.is_ok(), "{set:?}");
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::engine::tests::on_engine;
    use crate::engine::{Woken, wait};

    /// Far more than it takes, far less than what the test waits for if it does not ring.
    const LATE: Duration = Duration::from_millis(50);

    async fn rings(alarm: &Alarm, moment: Moment) {
        alarm.set(moment);
        let give_up = Moment::now() + Duration::from_secs(10);
        assert_eq!(wait(give_up).await, Woken::Event);
        let late = Moment::now().since(moment);
        assert!(Moment::now() >= moment && late < LATE, "{late:?} late");
    }

    #[test]
    fn it_rings_at_its_moment_again_and_again_and_never_early() {
        on_engine(|| async {
            let alarm = Alarm::new().expect("a timer");
            for microseconds in [700, 1, 20_000, 350] {
                rings(&alarm, Moment::now() + Duration::from_micros(microseconds)).await;
            }
            // Without waiting in between it rings again for each moment that has passed already.
            for _ in 0..2 {
                rings(&alarm, Moment::now()).await;
            }
            rings(&alarm, Moment::from_nanos(Moment::now().nanos() - 1_000_000)).await;
        });
    }

    #[test]
    fn a_hundred_short_waits_take_less_than_ticks_would() {
        on_engine(|| async {
            let alarm = Alarm::new().expect("a timer");
            let begin = Moment::now();
            let mut moment = begin;
            for _ in 0..100 {
                moment = moment + Duration::from_micros(200);
                alarm.set(moment);
                while Moment::now() < moment {
                    assert_eq!(wait(begin + Duration::from_secs(10)).await, Woken::Event);
                }
            }
            let took = Moment::now().since(begin);
            // Ticks of 4 ms would make it 400.
            assert!(took < Duration::from_millis(200), "{took:?}");
        });
    }

    #[test]
    fn it_is_silent_when_it_is_not_set_and_when_it_was_put_off() {
        on_engine(|| async {
            let alarm = Alarm::new().expect("a timer");
            let soon = || Moment::now() + Duration::from_millis(30);
            assert_eq!(wait(soon()).await, Woken::Deadline);
            alarm.set(Moment::now() + Duration::from_millis(5));
            alarm.set(Moment::NEVER);
            assert_eq!(wait(soon()).await, Woken::Deadline);
            alarm.set(Moment::now() + Duration::from_millis(5));
            alarm.set(Moment::now() + Duration::from_secs(3600));
            assert_eq!(wait(soon()).await, Woken::Deadline);
        });
    }
}
