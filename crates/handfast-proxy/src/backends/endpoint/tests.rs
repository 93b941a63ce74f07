//! The choice of endpoints, by all threads together.

use crate::backends::group::Group;
use crate::backends::tunnel::host_of;
use std::net::IpAddr;
use std::time::Duration;

use handfast_net::clock::Moment;

use super::*;
use crate::backends::standing::{Availability, Standings};
use handfast_config::model::Balance;
use handfast_observe::metrics::Registry;
use handfast_observe::reason::{Side, Step};

fn refused() -> CloseReason {
    CloseReason::new(Step::Connect, Side::Backend, Cause::Socket(SocketCause::Refused))
}

const FAILURE_POLICY: FailurePolicy = FailurePolicy { failures: 3, pause: Duration::from_secs(10) };

/// Returns one group for each thread, all with the same backends.
fn groups<const THREADS: usize>(balance: Balance, names: &[&str]) -> [Group; THREADS] {
    let members: Vec<_> = names.iter().map(|name| (*name, 1, false)).collect();
    weighted(balance, Duration::ZERO, &members)
}

fn weighted<const THREADS: usize>(
    balance: Balance,
    slow_start: Duration,
    members: &[(&str, u32, bool)],
) -> [Group; THREADS] {
    let (registry, standings) = (Registry::new(), Standings::new("test"));
    let turns = Arc::default();
    std::array::from_fn(|thread| {
        let service = registry.thread(&format!("worker-{thread}")).service("test");
        let group = Group::new(balance, slow_start, thread, Arc::clone(&turns));
        let endpoint = |(name, weight, backup): &(&str, u32, bool)| {
            let address = Address::Unix("/nowhere".into());
            let endpoint = Endpoint::new(
                DialAddress::of(name.to_string(), &address, false),
                standings.of(name),
                service.backend(name, false),
            );
            (endpoint, *weight, *backup)
        };
        group.set(members.iter().map(endpoint).collect(), Vec::new());
        group
    })
}

fn group(balance: Balance, names: &[&str]) -> Group {
    let [group] = groups(balance, names);
    group
}

fn dial(group: &Group, now: Moment, tried: &[Rc<Endpoint>]) -> Attempt {
    match group.pick(now, tried, None) {
        Pick::Dial(attempt) => attempt,
        other => panic!("{other:?}"),
    }
}

/// Returns the backends of `count` connections that come one after the other and have no outcome yet.
fn picks(group: &Group, now: Moment, count: usize) -> Vec<Attempt> {
    (0..count).map(|_| dial(group, now, &[])).collect()
}

fn names(attempts: &[Attempt]) -> Vec<&str> {
    attempts.iter().map(|attempt| &*attempt.endpoint.name).collect()
}

fn fail(group: &Group, name: &str, times: usize) {
    for _ in 0..times {
        let endpoint = group.endpoints().into_iter().find(|known| *known.name == *name).expect("it is there");
        Attempt { endpoint, trial: None }.failed(&refused(), FAILURE_POLICY);
    }
}

#[test]
fn round_robin_takes_turns() {
    let group = group(Balance::RoundRobin, &["a", "b", "c"]);
    assert_eq!(names(&picks(&group, Moment::now(), 6)), ["a", "b", "c", "a", "b", "c"]);
}

#[test]
fn least_connections_fills_up_the_emptiest() {
    let group = group(Balance::LeastConnections, &["a", "b"]);
    let now = Moment::now();
    let busy = dial(&group, now, &[]).connected(Duration::ZERO, true);
    for _ in 0..3 {
        assert_ne!(dial(&group, now, &[]).endpoint.name, busy.endpoint().name);
    }
}

#[test]
fn a_backend_that_one_thread_finds_failing_is_spared_by_all() {
    let [one, other] = groups(Balance::RoundRobin, &["a", "b"]);
    fail(&one, "a", 2);
    fail(&other, "a", 1);
    for group in [&one, &other] {
        assert_eq!(names(&picks(group, Moment::now(), 4)), ["b", "b", "b", "b"]);
    }
}

#[test]
fn a_retry_is_one_connection_until_it_has_an_outcome() {
    let [one, other] = groups(Balance::RoundRobin, &["a", "b"]);
    fail(&one, "a", 3);
    let later = Moment::now() + Duration::from_secs(11);
    let trial = dial(&one, later, &[]);
    assert_eq!(&*trial.endpoint.name, "a", "the pause is over");
    // However long it takes.
    for now in [later, later + Duration::from_secs(5), later + Duration::from_secs(3_600)] {
        for group in [&one, &other] {
            assert_eq!(names(&picks(group, now, 3)), ["b", "b", "b"]);
        }
    }
    drop(trial.connected(Duration::ZERO, true));
    assert!(names(&picks(&other, later, 2)).contains(&"a"), "it is up for every connection");
}

#[test]
fn a_trial_whose_connection_vanishes_is_the_next_ones() {
    let [one, other] = groups(Balance::RoundRobin, &["a", "b"]);
    fail(&one, "a", 3);
    let later = Moment::now() + Duration::from_secs(11);
    drop(dial(&one, later, &[]));
    assert_eq!(names(&picks(&other, later, 3)), ["a", "b", "b"]);
}

#[test]
fn when_none_is_up_one_connection_tries_and_the_others_wait_for_it() {
    let [one, other] = groups(Balance::RoundRobin, &["a"]);
    fail(&one, "a", 3);
    let now = Moment::now();
    let guess = dial(&one, now, &[]);
    assert!(matches!(other.pick(now, &[], None), Pick::Wait(_)));
    let a = Rc::clone(&guess.endpoint);
    guess.failed(&refused(), FAILURE_POLICY);
    assert!(matches!(one.pick(now, &[a], None), Pick::Nothing), "not twice by the same connection");
    assert!(dial(&other, now, &[]).trial.is_some(), "the pause is no reason to refuse a client");
}

fn alone(balance: Balance, members: &[(&str, u32, bool)]) -> Group {
    let [group] = weighted(balance, Duration::ZERO, members);
    group
}

/// Returns the number of `count` picks that fall on the backend `name`, if each connection ends at once.
fn share_of(name: &str, group: &Group, now: Moment, count: usize) -> usize {
    picks(group, now, count).iter().filter(|attempt| *attempt.endpoint.name == *name).count()
}

#[test]
fn turns_are_taken_smoothly_and_exactly_by_weight() {
    let group =
        alone(Balance::RoundRobin, &[("a", 5, false), ("b", 1, false), ("c", 1, false), ("d", 0, false)]);
    let now = Moment::now();
    assert_eq!(names(&picks(&group, now, 7)), ["a", "a", "b", "a", "c", "a", "a"]);
    for (name, share) in [("a", 500), ("b", 100), ("c", 100), ("d", 0)] {
        assert_eq!(share_of(name, &group, now, 700), share, "{name}");
    }
}

/// People try a rotation with as many requests as there are backends, and these come to any thread.
#[test]
fn threads_have_one_order() {
    let groups: [Group; 4] =
        weighted(Balance::RoundRobin, Duration::ZERO, &[("a", 1, false), ("b", 1, false), ("c", 1, false)]);
    let now = Moment::now();
    for threads in [[0, 1, 2], [3, 3, 1], [2, 0, 0], [1, 2, 3]] {
        let picked = threads.map(|thread| names(&picks(&groups[thread], now, 1)).join(""));
        assert_eq!(picked.concat(), "abc", "threads {threads:?}");
    }
}

#[test]
fn threads_do_not_all_begin_at_the_same_backend() {
    let groups: [Group; 3] =
        weighted(Balance::RoundRobin, Duration::ZERO, &[("a", 2, false), ("b", 1, false)]);
    let now = Moment::now();
    let begins: Vec<_> = groups.iter().map(|group| names(&picks(group, now, 3)).join("")).collect();
    assert_eq!(begins, ["aba", "baa", "aab"]);
}

#[test]
fn connections_are_spread_by_weight_however_one_is_picked() {
    let now = Moment::now();
    for (balance, inexact) in [(Balance::LeastConnections, 0), (Balance::TwoChoices, 40)] {
        let group = alone(balance, &[("a", 3, false), ("b", 1, false), ("c", 4, false)]);
        let held: Vec<_> = (0..800).map(|_| dial(&group, now, &[]).connected(Duration::ZERO, true)).collect();
        for (name, share) in [("a", 300), ("b", 100), ("c", 400)] {
            let has = held.iter().filter(|held| *held.endpoint().name == *name).count();
            assert!(has.abs_diff(share) <= inexact, "{balance:?}: {name} has {has} of 800");
        }
    }
}

#[test]
fn lots_fall_by_weight_and_the_emptier_of_two_is_picked() {
    let now = Moment::now();
    let group = alone(Balance::TwoChoices, &[("a", 3, false), ("b", 1, false)]);
    let a = share_of("a", &group, now, 4_000);
    // Sixteen standard deviations: once in more runs than there will be.
    assert!(a.abs_diff(3_000) < 440, "{a} of 4000, while no endpoint has any connection");
    let mut drawn = picks(&group, now, 100).into_iter();
    let busy = drawn.find(|attempt| &*attempt.endpoint.name == "a").expect("three quarters of them");
    let _busy = busy.connected(Duration::ZERO, true);
    // There are two, so the emptier one is always drawn.
    assert_eq!(share_of("a", &group, now, 100), 0);
    let alone = alone(Balance::TwoChoices, &[("a", 1, false)]);
    assert_eq!(share_of("a", &alone, now, 3), 3, "of one there is no second");
}

fn client(number: u32) -> IpAddr {
    IpAddr::V4((0x0a00_0000 + number).into())
}

fn of_client(group: &Group, now: Moment, client: IpAddr) -> String {
    match group.pick(now, &[], Some(client)) {
        Pick::Dial(attempt) => attempt.endpoint.name.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_client_comes_to_the_same_backend_and_a_loss_moves_only_its_own() {
    const CLIENTS: u32 = 8_000;
    let members = [("a", 2, false), ("b", 1, false), ("c", 1, false)];
    let reversed: Vec<_> = members.iter().rev().copied().collect();
    let (one, other) = (alone(Balance::SourceHash, &members), alone(Balance::SourceHash, &reversed));
    let now = Moment::now();
    let before: Vec<_> = (0..CLIENTS).map(|number| of_client(&one, now, client(number))).collect();
    for (number, backend) in (0..).zip(&before) {
        assert_eq!(&of_client(&other, now, client(number)), backend, "{number}, in another process");
    }
    for (name, share) in [("a", 4_000), ("b", 2_000), ("c", 2_000)] {
        let has = before.iter().filter(|backend| *backend == name).count();
        assert!(has.abs_diff(share) < 400, "{name} has {has} of {CLIENTS}");
    }
    fail(&one, "b", 3);
    let mut moved_to = [0, 0];
    for (number, backend) in (0..).zip(&before) {
        let after = of_client(&one, now, client(number));
        assert_ne!(after, "b");
        match (&**backend, &*after) {
            ("b", to) => moved_to[usize::from(to == "c")] += 1,
            (from, to) => assert_eq!(from, to, "client {number} of another backend"),
        }
    }
    assert!(moved_to[0] > moved_to[1] && moved_to[1] > 400, "by weight, to both: {moved_to:?}");
    // One of its clients tries it when the pause is over, and then they come back.
    let later = now + Duration::from_secs(11);
    let stranger = (0..).zip(&before).find(|(_, backend)| *backend == "a").expect("half of them").0;
    assert_eq!(of_client(&one, later, client(stranger)), "a");
    for (number, backend) in (0..).zip(&before).filter(|(_, backend)| *backend == "b").take(3) {
        let Pick::Dial(attempt) = one.pick(later, &[], Some(client(number))) else { panic!("{number}") };
        assert_eq!(*attempt.endpoint.name, **backend);
        drop(attempt.connected(Duration::ZERO, true));
    }
    // An IPv6 client, and one that came over IPv6 with an IPv4 address.
    let mapped = IpAddr::V6(std::net::Ipv4Addr::new(10, 0, 0, 9).to_ipv6_mapped());
    assert_eq!(of_client(&other, now, mapped), before[9]);
    let six = |low: u16| IpAddr::V6(std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, low));
    let seen: std::collections::HashSet<_> = (0..50).map(|low| of_client(&other, now, six(low))).collect();
    assert_eq!(seen.len(), 3, "{seen:?}");
}

/// Another version that picked otherwise would move every client while machines are upgraded one by one.
#[test]
fn the_hash_of_clients_never_changes() {
    let names = ["10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80"].map(|name| (name, 1, false));
    let group = alone(Balance::SourceHash, &names);
    let picked: String = (0..24)
        .map(|number| {
            let name = of_client(&group, Moment::now(), client(number * 7_919));
            name.chars().nth(7).expect("a digit")
        })
        .collect();
    assert_eq!(picked, "213321213211331223113133");
}

#[test]
fn clients_without_an_address_take_turns() {
    let group = alone(Balance::SourceHash, &[("a", 1, false), ("b", 1, false)]);
    assert_eq!(names(&picks(&group, Moment::now(), 4)), ["a", "b", "a", "b"]);
}

#[test]
fn backups_are_used_while_no_other_is_up() {
    for balance in [Balance::RoundRobin, Balance::LeastConnections, Balance::TwoChoices, Balance::SourceHash]
    {
        let group =
            alone(balance, &[("a", 1, false), ("spare", 5, true), ("b", 2, false), ("never", 0, true)]);
        let now = Moment::now();
        let pick = |now| match group.pick(now, &[], Some(client(3))) {
            Pick::Dial(attempt) => attempt,
            other => panic!("{other:?}"),
        };
        assert!((0..50).all(|_| &*pick(now).endpoint.name != "spare"), "{balance:?}");
        fail(&group, "a", 3);
        assert!((0..50).all(|_| &*pick(now).endpoint.name == "b"), "{balance:?}");
        fail(&group, "b", 3);
        assert!((0..50).all(|_| &*pick(now).endpoint.name == "spare"), "{balance:?}");
        // Those that are to be used first are tried first, and it is a spare one's turn only then.
        let later = now + Duration::from_secs(11);
        let trials = [pick(later), pick(later), pick(later)];
        let mut tried = names(&trials);
        tried.sort_unstable();
        assert_eq!(tried[2], "spare", "{balance:?}: {tried:?}");
        // A connection that was refused by all that are up goes on to a backup, too.
        drop(trials.map(|trial| trial.connected(Duration::ZERO, true)));
        let used: Vec<_> =
            group.endpoints().into_iter().filter(|known| ["a", "b"].contains(&&*known.name)).collect();
        assert_eq!(&*dial(&group, later, &used).endpoint.name, "spare", "{balance:?}");
    }
}

#[test]
fn a_backend_that_came_up_gets_its_share_slowly() {
    let slow = Duration::from_secs(100);
    for balance in [Balance::RoundRobin, Balance::TwoChoices] {
        let [group] = weighted(balance, slow, &[("a", 1, false), ("b", 1, false)]);
        let now = Moment::now();
        let half = share_of("a", &group, now, 1_000);
        assert!((400..=600).contains(&half), "{half}: one that was never down has its whole share");
        fail(&group, "a", 3);
        let trial = dial(&group, now + Duration::from_secs(11), &[]);
        assert_eq!(&*trial.endpoint.name, "a");
        drop(trial.connected(Duration::ZERO, true));
        let up = Moment::now();
        for (after, range) in [(0, 0..=20), (10, 40..=140), (50, 250..=420), (100, 400..=600)] {
            let got = share_of("a", &group, up + Duration::from_secs(after), 1_000);
            assert!(range.contains(&got), "{balance:?}: {got} of 1000 after {after} s");
        }
        fail(&group, "b", 3);
        assert_eq!(share_of("a", &group, up, 10), 10, "while no other one is up it gets everything");
    }
}

#[test]
fn a_certificate_must_be_for_what_the_backend_was_found_under() {
    let ip = |text: &str| Address::Ip(text.parse().expect("an address"));
    let unix = Address::Unix("/run/x=y.sock".into());
    for (name, address, host) in [
        ("10.0.0.1:443", ip("10.0.0.1:443"), Some("10.0.0.1")),
        ("[2001:db8::1]:443", ip("[2001:db8::1]:443"), Some("2001:db8::1")),
        ("backend.example=10.0.0.1:443", ip("10.0.0.1:443"), Some("backend.example")),
        ("unix:/run/x=y.sock", unix, None),
    ] {
        assert_eq!(host_of(name, &address, None).as_deref(), host, "{name}");
        let (registry, standings) = (Registry::new(), Standings::new("test"));
        let metrics = registry.thread("worker-0").service("test").backend(name, false);
        let endpoint =
            Endpoint::new(DialAddress::of(name.to_string(), &address, false), standings.of(name), metrics);
        assert_eq!(endpoint.host().as_deref(), host);
    }
}

/// Else a machine without descriptors would mark all its backends down, and then refuse clients when it has some again.
#[test]
fn what_this_machine_lacks_is_not_held_against_a_backend() {
    let local = [
        SocketCause::OutOfFiles,
        SocketCause::OutOfPorts,
        SocketCause::OutOfMemory,
        SocketCause::ForeignAddress,
    ];
    let group = group(Balance::RoundRobin, &["a"]);
    let now = Moment::now();
    for cause in local.map(Cause::Socket).into_iter().chain([Cause::Internal]) {
        for _ in 0..5 {
            let reason = CloseReason::new(Step::Connect, Side::Local, cause);
            dial(&group, now, &[]).failed(&reason, FAILURE_POLICY);
        }
        assert_eq!(group.endpoints()[0].standing.availability(), Availability::Up, "{cause:?}");
    }
    fail(&group, "a", 3);
    assert!(matches!(group.endpoints()[0].standing.availability(), Availability::Down(_)));
}

/// In that case the reason is the failed lookup, not that no backend is configured.
#[test]
fn whether_all_are_out_of_use_is_known() {
    let out = |group: &Group, name: &str| {
        let endpoint = group.endpoints().into_iter().find(|known| *known.name == *name).expect("it is there");
        endpoint.standing.check_failed(&"it does not answer", 1);
    };
    let group = alone(Balance::RoundRobin, &[("a", 1, false), ("b", 1, true), ("never", 0, false)]);
    assert!(!group.is_all_out());
    out(&group, "a");
    assert!(!group.is_all_out(), "there is a backup");
    out(&group, "b");
    assert!(group.is_all_out());
    assert!(matches!(group.pick(Moment::now(), &[], None), Pick::Nothing), "they are not guessed at");
    assert!(!alone(Balance::RoundRobin, &[]).is_all_out(), "there is none");
    assert!(!alone(Balance::RoundRobin, &[("never", 0, false)]).is_all_out(), "none that is used");
}

/// Its TLS comes late, after a dialogue: its answer proves nothing yet.
#[test]
fn a_backend_that_answered_and_failed_later_counts_as_one_that_fails() {
    let group = group(Balance::RoundRobin, &["a"]);
    let in_use = dial(&group, Moment::now(), &[]).connected(Duration::ZERO, true);
    in_use.failed(&refused(), FailurePolicy { failures: 1, ..FAILURE_POLICY });
    assert!(matches!(in_use.endpoint().standing.availability(), Availability::Down(_)));
    assert_eq!(in_use.endpoint().standing.cause(), Some(Cause::Socket(SocketCause::Refused)));
}
