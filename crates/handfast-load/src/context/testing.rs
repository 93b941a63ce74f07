//! A generator thread for unit tests: its context without a target, and an engine where tasks are needed.

use std::rc::Rc;
use std::sync::mpsc::{Receiver, sync_channel};

use handfast_net::clock::Moment;
use handfast_net::engine::{self, Priority};
use handfast_tls::client::Client;

use super::{Parts, ThreadContext};
use crate::plan::Plan;
use crate::recorder::Recorder;
use crate::sample::{Interval, Tally};
use crate::target;

/// The context of a thread whose run is from `start` to `end`, and what it measures.
pub(crate) fn thread(plan: &Plan, start: Moment, end: Moment) -> (Rc<ThreadContext>, Receiver<Interval>) {
    let (sender, seconds) = sync_channel(64);
    let recorder = Recorder::new(plan, sender);
    let settings = target::settings(plan).expect("no files");
    let client = |settings| Client::new(settings, "localhost").expect("a client");
    let parts = Parts {
        plan: plan.clone(),
        clients: settings.iter().map(client).collect(),
        requests: Vec::new(),
        target: ([127, 0, 0, 1], 1).into(),
        sources: Vec::new(),
        stream: 0,
        turn: 0,
    };
    let context = ThreadContext::new(parts, recorder);
    context.record().record();
    context.begin(start, end);
    (context, seconds)
}

/// All measurements since the last call.
pub(crate) fn measured(context: &ThreadContext, seconds: &Receiver<Interval>) -> Interval {
    context.record().hand_over();
    let mut all = Interval::default();
    seconds.try_iter().for_each(|second| all.merge_later(&second));
    all
}

/// All counts since the last call.
pub(crate) fn tally(context: &ThreadContext, seconds: &Receiver<Interval>) -> Tally {
    measured(context, seconds).tally
}

/// Stops the engine, however its task ends: a panic ends the task alone.
struct StopAtTheEnd;

impl Drop for StopAtTheEnd {
    fn drop(&mut self) {
        engine::stop();
    }
}

/// Runs one task on a separate engine, to its end.
pub(crate) fn on_engine<T: Send + 'static, F: Future<Output = T>>(
    task: impl FnOnce() -> F + Send + 'static,
) -> T {
    let (sender, outcome) = sync_channel(1);
    let run = move || {
        let first = async move {
            let _stop = StopAtTheEnd;
            sender.send(task().await).expect("the test waits");
        };
        engine::run((), || engine::spawn(Priority::Flow, first)).expect("an engine");
    };
    let thread = std::thread::Builder::new().name("engine".into()).spawn(run).expect("a thread");
    thread.join().expect("it did not panic");
    outcome.recv().expect("the task came to its end")
}
