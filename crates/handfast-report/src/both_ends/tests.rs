//! Comparisons that are explained, and those that are refused.

use super::*;

/// Counters of a proxy with this number of connections, each with a full handshake: seconds of each step times the number.
fn status(connections: u64, backend: f64) -> Counted {
    let sum = |each: f64| Sum { count: connections, seconds: each * connections as f64 };
    let phases = [0.001, 0.002, 0.030, 0.0005].map(sum);
    let full = Handshakes { total: sum(0.0335), phases };
    let (connect, answer) = (sum(0.004), sum(backend));
    Counted { accepted: connections, kinds: [full, Handshakes::default()], connect, answer }
}

/// A hundred connections from outside: 20 ms of network, 3 ms of our own.
fn seen() -> Seen {
    Seen {
        connections: 100,
        full: 100,
        resumed: 0,
        handshake_seconds: 1.7,
        answers: 100,
        answer_seconds: 6.4,
        network_seconds: 2.0,
        own_seconds: 0.3,
        ..Seen::default()
    }
}

fn shares(both: &BothEnds) -> Vec<(&str, f64)> {
    both.parts.iter().map(|part| (part.name.as_str(), (part.ns / 1e4).round() / 100.0)).collect()
}

#[test]
fn what_was_seen_is_waited_for_until_all_of_it_is_counted() {
    let (before, after) = (status(50, 0.01), status(150, 0.01));
    assert!(after.covers(&before, &seen()));
    assert!(!status(149, 0.01).covers(&before, &seen()), "a connection is missing");
    assert!(!after.covers(&before, &Seen { resumed: 1, ..seen() }), "a handshake is not over there");
    assert!(!after.covers(&before, &Seen { full: 101, ..seen() }));
}

#[test]
fn stamps_tell_what_lies_between_kernel_and_program() {
    // 5 ms from kernel to kernel, of which the proxy counted 3.5; 4.2 ms here, of which 3 were computing.
    let seen = Seen { proxy_seconds: 0.5, client_seconds: 0.42, ..seen() };
    let both = account(&seen, &status(50, 0.01), &status(150, 0.01));
    let wakeup = shares(&both).into_iter().find(|part| part.0 == "wakeup").map(|part| part.1);
    assert_eq!(wakeup, Some(2.7), "{both:?}");
    assert_eq!(shares(&both).last().map(|part| part.0), Some("unexplained"));
    // The proxy's cryptography after its first flight is in its count, and not in what the stamps enclose.
    let less = Seen { proxy_seconds: 0.2, client_seconds: 0.3, ..seen };
    let both = account(&less, &status(50, 0.01), &status(150, 0.01));
    assert_eq!(shares(&both).into_iter().find(|part| part.0 == "wakeup").map(|part| part.1), Some(0.0));
}

#[test]
fn each_part_is_its_mean_and_the_rest_is_unexplained() {
    let both = account(&seen(), &status(50, 0.01), &status(150, (0.01 * 50.0 + 0.045 * 100.0) / 150.0));
    assert_eq!(both.refused, None);
    let parts = [
        ("network", 20.0),
        ("hello", 1.0),
        ("crypto", 2.0),
        ("queue", 0.5),
        ("connect", 4.0),
        ("backend", 45.0),
        ("client", 3.0),
        ("unexplained", 5.5),
    ];
    assert_eq!(shares(&both), parts);
    assert!((both.seen_ns - 81e6).abs() < 1.0 && (both.explained - 75.5 / 81.0).abs() < 1e-9, "{both:?}");
    assert!((both.client_wait_ns - 30e6).abs() < 1.0);
    let (head, notes) = sentences(&both);
    assert_eq!(
        head,
        "Mean of 100 connections: the handshake and the first byte of the answer took 81.0 ms, of which 93 % are explained."
    );
    assert!(notes[0].contains("waited 30.0 ms for the client"), "{notes:?}");
    assert_eq!(rows(&both)[5][..3], ["backend", "45.0 ms", "56 %"]);
}

#[test]
fn what_was_not_ours_alone_is_refused() {
    let refused = |seen: Seen, before: u64, after: u64| {
        let both = account(&seen, &status(before, 0.01), &status(after, 0.01));
        assert!(both.parts.is_empty(), "{both:?}");
        both.refused.expect("refused")
    };
    assert_eq!(
        refused(seen(), 50, 152),
        "other traffic was on the proxy: it accepted 102 connections meanwhile, and 100 of them were ours"
    );
    assert!(refused(seen(), 150, 100).contains("it was restarted"));
    let resumed = Seen { full: 0, resumed: 100, ..seen() };
    assert!(refused(resumed, 50, 150).contains("counted 0 of 100 resumed handshakes"));
    assert!(refused(Seen { full: 0, ..seen() }, 50, 150).contains("no handshake"));
    let (head, notes) = sentences(&account(&seen(), &status(50, 0.01), &status(152, 0.01)));
    assert!(head.starts_with("Not attributed: other traffic") && notes.is_empty(), "{head}");
}

#[test]
fn handshakes_alone_have_no_backend() {
    let alone = Seen { answers: 0, answer_seconds: 0.0, network_seconds: 1.0, ..seen() };
    let both = account(&alone, &status(50, 0.01), &status(150, 0.01));
    let parts = shares(&both);
    assert_eq!((parts[4], parts[5]), (("connect", 0.0), ("backend", 0.0)));
    assert!(both.notes[0].contains("last flight"), "{:?}", both.notes);
}
