//! What each worker thread counts for itself: accepting, its loop, signatures that its signer made, panics.

use std::fmt;

use prometheus_client::registry::Unit;

use super::families::Families;
use crate::metrics::snapshot::Snapshot;
use crate::metrics::thread::ThreadSnapshot;

pub(super) fn threads(to: &mut Families<'_>, snapshot: &Snapshot) -> fmt::Result {
    let threads = &snapshot.threads;
    let by_thread = |value: fn(&ThreadSnapshot) -> u64| {
        threads.iter().map(move |thread| ([("thread", thread.name.as_str())], value(thread)))
    };
    to.counter(
        "handfast_accept_errors",
        "Calls of accept that failed, by cause",
        threads.iter().flat_map(|thread| {
            thread
                .accept_errors
                .iter()
                .map(move |(cause, count)| ([("thread", thread.name.as_str()), ("cause", cause)], *count))
        }),
    )?;
    to.gauge(
        "handfast_accept_backing_off",
        "1: accepting pauses because the machine is out of something (file descriptors, memory)",
        by_thread(|thread| u64::from(thread.backing_off)),
    )?;
    to.counter("handfast_loop_turns", "Turns of the event loop", by_thread(|thread| thread.turns))?;
    to.counter(
        "handfast_loop_spurious_turns",
        "Times a connection was woken and nothing moved",
        by_thread(|thread| thread.spurious_turns),
    )?;
    to.seconds(
        "handfast_loop_lag",
        "How long an event had to wait while the thread worked on others",
        threads.iter().map(|thread| ([("thread", thread.name.as_str())], &thread.loop_lag)),
    )?;
    to.gauge("handfast_loop_tasks", "Tasks the loop holds now", by_thread(|thread| thread.tasks))?;
    to.counter(
        "handfast_handshakes_moved",
        "Handshakes whose signature another thread made, because many newcomers waited",
        by_thread(|thread| thread.signed_elsewhere),
    )?;
    to.counter(
        "handfast_panics",
        "Tasks that panicked, each of which cost one connection: a bug of Handfast",
        by_thread(|thread| thread.panics),
    )?;
    to.counter(
        ("handfast_thread_cpu", Unit::Seconds),
        "CPU time by thread name, of threads that run now",
        snapshot.process.cpu_seconds.iter().map(|(name, seconds)| ([("thread", name.as_str())], *seconds)),
    )
}
