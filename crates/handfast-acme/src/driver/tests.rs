//! Tests for the driver in a world in memory: over months, with an issuer that fails, and killed at every step.

use std::path::Path;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use super::*;
use crate::schedule::ORDER_LIMITS;
use crate::status::RequestError;
use crate::testing::{InMemory, NOW, settings};

const DAY: i64 = 86_400;
const WEB: &str = "web.example.org";

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        Store::new(folder.path()).prepare().expect("the folder is ours");
        Self(folder)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn stored(&self, now: i64) -> Option<Stored> {
        Store::new(self.path()).certificate(&Name::parse(WEB).expect("a name"), now)
    }
}

/// Of operators and machines that ask for nothing.
fn no_requests() -> Receiver<Request> {
    tokio::sync::mpsc::channel(1).1
}

/// One look of a process that has just been started.
fn check_names_once(place: &Place, world: &InMemory) -> i64 {
    let mut driver = Driver::new(settings(place.path(), &[WEB]), world);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let wait = runtime.block_on(driver.check_names(&mut no_requests()));
    i64::try_from(wait.as_secs()).expect("minutes")
}

/// Looks as often as the driver would, until then.
fn until(place: &Place, world: &InMemory, end: i64) {
    while world.clock.get() < end {
        let wait = check_names_once(place, world);
        world.clock.set(world.clock.get() + wait);
    }
}

#[test]
fn what_another_machine_orders_is_taken_and_not_ordered() {
    let (there, here) = ((Place::new(), InMemory::new()), (Place::new(), InMemory::new()));
    check_names_once(&there.0, &there.1);
    here.1.others_order.set(true);
    assert_eq!(check_names_once(&here.0, &here.1), 10, "it is looked at again");
    assert_eq!(here.1.issuer.made.borrow().len(), 0);
    let driver = Driver::new(settings(there.0.path(), &[WEB]), &there.1);
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(driver.answer(Request::Share));
    let pem = there.1.shared.borrow()[0].clone();
    let driver = Driver::new(settings(here.0.path(), &[WEB]), &here.1);
    runtime.block_on(async {
        for (name, pem) in [(WEB, "no certificate".to_owned()), ("other.example", pem.clone()), (WEB, pem)] {
            driver.answer(Request::Take { name: name.to_owned(), pem }).await;
        }
    });
    let (theirs, ours) =
        (there.0.stored(NOW).expect("it is ordered"), here.0.stored(NOW).expect("it is taken"));
    assert_eq!(theirs.leaf, ours.leaf);
    here.1.others_order.set(false);
    check_names_once(&here.0, &here.1);
    assert_eq!(here.1.issuer.made.borrow().len(), 0, "nothing is due");
}

#[test]
fn other_machines_receive_the_result_of_an_order() {
    let (place, world) = (Place::new(), InMemory::new());
    world.issuer.refused.borrow_mut().push(WEB.to_owned());
    check_names_once(&place, &world);
    world.issuer.refused.borrow_mut().clear();
    until(&place, &world, NOW + 3_600);
    let ended = world.ended.borrow();
    assert!(ended[0].starts_with("web.example.org Failed("), "{ended:?}");
    assert!(
        ended.last().is_some_and(|last| last.starts_with("web.example.org Made(\"-----BEGIN")),
        "{ended:?}"
    );
}

fn within_limits(world: &InMemory) {
    let made = world.issuer.made.borrow();
    for (directory, from) in made.iter() {
        for (seconds, most) in ORDER_LIMITS {
            let count = made
                .iter()
                .filter(|(other, at)| other == directory && (*from..from + seconds).contains(at))
                .count();
            assert!(count <= most, "{count} orders in {seconds} s at {directory}");
        }
    }
}

#[test]
fn a_certificate_is_ordered_once_and_renewed_in_time() {
    let (place, world) = (Place::new(), InMemory::new());
    check_names_once(&place, &world);
    let first = place.stored(NOW).expect("it is stored");
    assert_eq!(check_names_once(&place, &world), 600);
    assert_eq!(world.issuer.made.borrow().len(), 1, "nothing is due");
    world.clock.set(NOW + 59 * DAY);
    check_names_once(&place, &world);
    let second = place.stored(NOW + 59 * DAY).expect("it is stored");
    assert_ne!(first, second, "two thirds of its life are over, but for the spread");
    assert!(world.answers.borrow().is_empty(), "the answers are taken back");
    let reported = &world.reported.borrow()[0];
    assert_eq!((reported.not_after, reported.failures), (Some(second.life.not_after), 0));
}

#[test]
fn the_window_of_the_issuer_is_requested_and_kept() {
    let (place, world) = (Place::new(), InMemory::new());
    check_names_once(&place, &world);
    world.issuer.window.set(Some((2 * DAY, 4 * DAY)));
    // The first answer was "nothing", and the next question is an hour later.
    until(&place, &world, NOW + 2 * DAY);
    assert_eq!(world.issuer.made.borrow().len(), 1);
    world.issuer.window.set(Some((-2 * DAY, -DAY)));
    until(&place, &world, NOW + 2 * DAY + 8 * 3_600);
    assert_eq!(
        world.issuer.made.borrow().len(),
        2,
        "the window is over: as soon as the issuer is asked again"
    );
    until(&place, &world, NOW + 5 * DAY);
    assert!(world.issuer.made.borrow().len() <= 6, "it says so of each new one");
}

#[test]
fn an_issuer_that_is_down_for_days_costs_no_order_and_no_certificate() {
    let (place, world) = (Place::new(), InMemory::new());
    check_names_once(&place, &world);
    let down = ["first", "first-staging", "second"].map(str::to_owned);
    *world.issuer.down.borrow_mut() = down.to_vec();
    until(&place, &world, NOW + 75 * DAY);
    let kept = place.stored(NOW + 75 * DAY).expect("the old one is there");
    assert_eq!(world.issuer.made.borrow().len(), 1);
    assert!(
        world.reported.borrow()[0].last_error.as_ref().is_some_and(|error| error.contains("does not answer"))
    );
    world.issuer.down.borrow_mut().clear();
    until(&place, &world, NOW + 76 * DAY);
    assert_ne!(place.stored(NOW + 76 * DAY), Some(kept), "six hours later at the latest it is renewed");
}

#[test]
fn a_name_that_cannot_be_proven_stays_within_the_limits_and_keeps_its_certificate() {
    let (place, world) = (Place::new(), InMemory::new());
    check_names_once(&place, &world);
    let kept = place.stored(NOW).expect("it is stored");
    world.issuer.refused.borrow_mut().push(WEB.to_owned());
    until(&place, &world, NOW + 85 * DAY);
    assert_eq!(place.stored(NOW + 85 * DAY), Some(kept));
    within_limits(&world);
    let real = world.issuer.made.borrow().iter().filter(|(directory, _)| directory == "first").count();
    assert!(
        real <= 2,
        "after a failure the first issuer is tried at its staging directory: {real} real orders"
    );
}

#[test]
fn a_second_issuer_helps_out() {
    let (place, world) = (Place::new(), InMemory::new());
    *world.issuer.down.borrow_mut() = ["first", "first-staging"].map(str::to_owned).to_vec();
    until(&place, &world, NOW + 600);
    assert!(place.stored(NOW + 600).is_some());
    assert_eq!(world.issuer.made.borrow().iter().map(|(at, _)| &at[..]).collect::<Vec<_>>(), ["second"]);
}

/// The first issuer's response makes the library panic, at each of its requests: the attempt fails, and the second issuer issues.
#[test]
fn a_panic_at_any_request_is_a_failure_and_the_second_issuer_helps_out() {
    let mut requests = 0;
    loop {
        let (place, world) = (Place::new(), InMemory::new());
        world.issuer.panics_from.set(Some(requests));
        let mut settings = settings(place.path(), &[WEB]);
        settings.challenges = vec![ChallengeKind::Dns01];
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let mut driver = Driver::new(settings, &world);
        runtime.block_on(driver.check_names(&mut no_requests()));
        let failed = driver.record(&Name::parse(WEB).expect("a name"));
        if failed.failures == 0 {
            break;
        }
        assert!(
            failed.last_error.is_some_and(|error| error.contains("could not handle")),
            "request {requests}"
        );
        assert!(failed.next_try > NOW, "request {requests}: after a pause");
        let records = world.records.borrow().clone();
        let (set, removed): (Vec<_>, Vec<_>) = records.iter().partition(|(sets, _)| *sets);
        assert_eq!(set.len(), removed.len(), "request {requests}: what was published is withdrawn");
        drop(driver);
        until(&place, &world, NOW + 900);
        assert!(place.stored(NOW + 900).is_some(), "request {requests}: the second issuer is used");
        requests += 1;
    }
    assert!(requests >= 6, "only {requests} requests were tried");
}

#[test]
fn a_panic_at_a_question_about_renewal_or_a_revocation_ends_nothing() {
    let (place, world) = (Place::new(), InMemory::new());
    check_names_once(&place, &world);
    world.issuer.panics_from.set(Some(0));
    check_names_once(&place, &world);
    assert!(place.stored(NOW).is_some());
    let driver = Driver::new(settings(place.path(), &[WEB]), &world);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let (reply, answer) = tokio::sync::oneshot::channel();
    runtime.block_on(driver.answer(Request::Revoke { name: WEB.to_owned(), reply }));
    let answer = answer.blocking_recv().expect("it answers");
    assert!(answer.is_ok(), "the second issuer issues: {answer:?}");
}

/// The process is killed at each of its waits in turn, and started again. The order that was under way is finished by the next.
#[test]
fn a_kill_at_any_step_costs_no_further_order_and_no_certificate() {
    let mut steps = 0;
    loop {
        let (place, world) = (Place::new(), InMemory::new());
        check_names_once(&place, &world);
        let old = place.stored(NOW).expect("it is stored");
        let later = NOW + 61 * DAY;
        world.clock.set(later);
        let is_done = check_names_and_abort(&place, &world.again(), steps);
        assert!(place.stored(later).is_some(), "step {steps}: a certificate is always there");
        let next = world.again();
        check_names_once(&place, &next);
        assert_ne!(place.stored(later), Some(old), "step {steps}: the next process finishes it");
        let made = world.issuer.made.borrow().len();
        // Between sending an order and storing its URL a second one cannot be avoided.
        assert!(made <= 3, "step {steps}: {made} orders");
        assert!(world.issuer.issued.get() <= 2, "step {steps}: {} certificates", world.issuer.issued.get());
        assert!(Store::new(place.path()).pending(&Name::parse(WEB).expect("a name")).is_none());
        if is_done {
            break;
        }
        steps += 1;
    }
    assert!(steps > 10, "only {steps} steps were tried");
}

/// Polls a look this number of times and then drops it; returns true if it was done before.
fn check_names_and_abort(place: &Place, world: &InMemory, polls: usize) -> bool {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let _entered = runtime.enter();
    let mut driver = Driver::new(settings(place.path(), &[WEB]), world);
    let mut nobody = no_requests();
    let mut look = pin!(driver.check_names(&mut nobody));
    let mut context = Context::from_waker(Waker::noop());
    (0..polls).any(|_| matches!(look.as_mut().poll(&mut context), Poll::Ready(_)))
}

/// A process that is killed repeatedly at the same step makes no more orders than the limits allow.
#[test]
fn a_crash_loop_stays_within_the_limits() {
    for polls in 1..14 {
        let (place, world) = (Place::new(), InMemory::new());
        for _ in 0..200 {
            check_names_and_abort(&place, &world.again(), polls);
            world.clock.set(world.clock.get() + 30);
        }
        within_limits(&world);
    }
}

#[test]
fn a_read_only_store_orders_nothing_and_serves_on() {
    let (place, world) = (Place::new(), InMemory::new());
    check_names_once(&place, &world);
    let kept = place.stored(NOW);
    // As root no mode keeps a file from being written; a folder in the place of the file that is written aside does.
    for file in ["records/.web.example.org.json.new", "certificates/.web.example.org.pem.new"] {
        std::fs::create_dir_all(place.path().join(file)).expect("the folder is ours");
    }
    until(&place, &world, NOW + 70 * DAY);
    assert_eq!(world.issuer.made.borrow().len(), 1, "an order that cannot be remembered is not made");
    assert_eq!(place.stored(NOW + 70 * DAY), kept);
    let reported = world.reported.borrow()[0].last_error.clone().expect("it is reported");
    assert!(reported.contains(".json") || reported.contains(".pem"), "{reported}");
}

#[test]
fn an_operator_can_renew_and_revoke() {
    let (place, world) = (Place::new(), InMemory::new());
    check_names_once(&place, &world);
    let driver = Driver::new(settings(place.path(), &[WEB]), &world);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let ask = |make: fn(String, tokio::sync::oneshot::Sender<Result<String, RequestError>>) -> Request,
               name: &str| {
        let (reply, answer) = tokio::sync::oneshot::channel();
        runtime.block_on(driver.answer(make(name.to_owned(), reply)));
        answer.blocking_recv().expect("it answers")
    };
    driver.read_records();
    let unknown = ask(|name, reply| Request::Renew { name, reply }, "other.example.org");
    assert!(unknown.expect_err("it is not ours").to_string().contains(WEB));
    let renewed = ask(|name, reply| Request::Renew { name, reply }, WEB);
    assert!(renewed.expect("it is ours").contains("ordered now"));
    check_names_once(&place, &world);
    assert_eq!(world.issuer.made.borrow().len(), 2);
    ask(|name, reply| Request::Revoke { name, reply }, WEB).expect("it is ours");
    assert_eq!(world.issuer.revoked.get(), 1);
    check_names_once(&place, &world);
    assert_eq!(world.issuer.made.borrow().len(), 3, "a revoked certificate is replaced");
}

#[test]
fn a_record_that_was_set_is_removed_whatever_becomes_of_the_order() {
    for refused in [false, true] {
        let (place, world) = (Place::new(), InMemory::new());
        if refused {
            world.issuer.refused.borrow_mut().push("*.example.org".to_owned());
        }
        let mut settings = settings(place.path(), &["*.example.org"]);
        settings.challenges = vec![ChallengeKind::Dns01];
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        runtime.block_on(Driver::new(settings, &world).check_names(&mut no_requests()));
        let host = "_acme-challenge.example.org".to_owned();
        assert_eq!(*world.records.borrow(), [(true, host.clone()), (false, host)], "refused: {refused}");
    }
}

#[test]
fn a_link_in_the_place_of_a_file_orders_nothing() {
    let (place, world) = (Place::new(), InMemory::new());
    check_names_once(&place, &world);
    let kept = place.stored(NOW);
    world.clock.set(NOW + 70 * DAY);
    for file in ["records/.web.example.org.json.new", "certificates/.web.example.org.pem.new"] {
        std::os::unix::fs::symlink("/dev/full", place.path().join(file)).expect("the folder is ours");
    }
    let mut driver = Driver::new(settings(place.path(), &[WEB]), &world);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(driver.check_names(&mut no_requests()));
    assert_eq!(world.issuer.made.borrow().len(), 1);
    assert_eq!(place.stored(NOW + 70 * DAY), kept);
    let reported = world.reported.borrow()[0].last_error.clone().expect("it is reported");
    assert!(reported.contains("is a link, expected a file"), "{reported}");
}

#[test]
fn two_processes_over_one_store_order_once() {
    let (place, world) = (Place::new(), InMemory::new());
    let other = world.again();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async {
        let (_one, mut first) = tokio::sync::mpsc::channel(1);
        let (_two, mut second) = tokio::sync::mpsc::channel(1);
        let run = |world, requests| Driver::new(settings(place.path(), &[WEB]), world).run(requests);
        tokio::select! {
            () = run(&world, &mut first) => {}
            () = run(&other, &mut second) => {}
            () = async { while other.reported.borrow().is_empty() || place.stored(NOW).is_none() { tokio::task::yield_now().await } } => {}
        }
    });
    assert_eq!(world.issuer.made.borrow().len(), 1);
    assert!(
        other.answers.borrow().is_empty() && other.reported.borrow().len() == 1,
        "the other one reports what is stored"
    );
}

/// With a disk that was remounted read-only, failures are remembered, so that tries become rarer, and none orders anything.
#[test]
fn while_nothing_can_be_written_tries_become_rarer_and_nothing_is_ordered() {
    let (place, world) = (Place::new(), InMemory::new());
    let blocked = place.path().join("records").join(format!(".{WEB}.json.new"));
    std::fs::create_dir(&blocked).expect("the folder is ours");
    let mut driver = Driver::new(settings(place.path(), &[WEB]), &world);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    for failures in 1..=4 {
        let wait = runtime.block_on(driver.check_names(&mut no_requests()));
        let reported = world.reported.borrow()[0].clone();
        assert_eq!(reported.failures, failures, "{reported:?}");
        world.clock.set(reported.next_try.max(world.clock.get() + 1));
        assert!(wait >= std::time::Duration::from_secs(30), "{wait:?}");
    }
    assert!(world.issuer.made.borrow().is_empty());
    assert!(world.clock.get() > NOW + 7 * 60, "1, 2, 4 and 8 minutes");
    std::fs::remove_dir(&blocked).expect("the folder is ours");
    runtime.block_on(driver.check_names(&mut no_requests()));
    assert!(place.stored(world.clock.get()).is_some());
    assert_eq!(world.issuer.made.borrow().len(), 1 + 1, "the trial at staging, and the order");
}
