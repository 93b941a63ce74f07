//! Command lines understood, and refused.

use super::*;
use crate::words::{Verb, Words};

fn typed(line: &str) -> LoadWords {
    let words = Words::read(["handfast", "load"].into_iter().chain(line.split_whitespace()).map(Into::into));
    match words.unwrap_or_else(|error| panic!("{line}: {error}")).verb {
        Verb::Load(words) => *words,
        other => panic!("{other:?}"),
    }
}

fn good(line: &str) -> Wanted {
    let mut mistakes = Mistakes::default();
    let wanted = wanted(&typed(line), 7, &mut mistakes);
    assert!(mistakes.is_empty(), "{line}: {}", mistakes.refusal());
    wanted
}

fn planned(line: &str) -> Plan {
    good(line).job.plan
}

fn wrong(line: &str) -> Vec<String> {
    let mut mistakes = Mistakes::default();
    wanted(&typed(line), 7, &mut mistakes);
    mistakes.0
}

#[test]
fn a_target_alone_is_the_standard_transaction() {
    let Wanted { job, crew, on_lost } = good("localhost:8443");
    let mut standard = Plan { seed: 7, ..Plan::default() };
    standard.tls.server_name = Some("localhost".into());
    assert_eq!(job, Job::of(standard));
    assert!(matches!(crew, Crew::Local));
    assert_eq!(on_lost, OnLost::Fail);
}

#[test]
fn a_page_is_http() {
    let plan = planned("https://a.example:8443/x --http 2 --streams 8");
    let work = Work::Http {
        version: HttpVersion::Http2,
        authority: "a.example:8443".into(),
        path: "/x".into(),
        streams: 8,
    };
    assert_eq!((plan.work, plan.exchanges, plan.tls.alpn), (work, None, vec!["h2".to_owned()]));
    assert_eq!(plan.tls.server_name.as_deref(), Some("a.example"));
    let plan = planned("https://[::1]/");
    assert_eq!((plan.tls.server_name, plan.tls.alpn), (None, vec!["http/1.1".to_owned()]));
}

#[test]
fn every_option_is_in_the_plan() {
    let line = "a:1 --send 1k --receive 2k -n unlimited -c 9 -r 100..2k --arrivals fixed -d 3s --timeout 2s --threads 2 \
                --seed 5 --tls 1.3 --suites TLS_AES_256_GCM_SHA384 --groups X25519MLKEM768,X25519 --sni b --alpn x,y \
                --client-certificate c.pem --ca ca.pem --resume 70% --early-data --close reset \
                --source 127.1.0.0/30 --source 127.2.0.1";
    let plan = planned(line);
    assert_eq!(plan.work, Work::Exchange { send: 1024, receive: 2048, echo: false });
    assert_eq!(plan.model, Model::Ramp { from: 100.0, to: 2000.0, arrivals: Arrivals::Fixed });
    assert_eq!((plan.exchanges, plan.connections, plan.threads, plan.seed), (None, 9, 2, 5));
    assert_eq!((plan.duration, plan.timeout), (Duration::from_secs(3), Duration::from_secs(2)));
    assert_eq!((plan.close, plan.sources.len()), (Close::Reset, 5));
    let tls = plan.tls;
    assert_eq!((tls.versions, tls.groups.len()), (vec!["1.3".to_owned()], 2));
    assert_eq!((tls.server_name.as_deref(), tls.alpn.len()), (Some("b"), 2));
    assert_eq!(tls.client_certificate, Some(("c.pem".into(), "c.pem".into())));
    assert_eq!((tls.verify, tls.resume, tls.early_data), (Verify::File("ca.pem".into()), 0.7, true));
}

#[test]
fn other_kinds_of_work() {
    assert_eq!(planned("a:1 --handshake-only").work, Work::Handshake);
    assert_eq!(planned("a:1 --bulk receive").work, Work::Bulk { send: false, receive: true });
    assert_eq!(planned("a:1 --idle").work, Work::Idle { send: 0, receive: 0 });
    assert_eq!(planned("a:1 --idle --send 1k").work, Work::Idle { send: 1024, receive: 1024 });
    assert_eq!(
        planned("a:1 --send 0 --receive 1k").work,
        Work::Exchange { send: 0, receive: 1024, echo: false }
    );
    assert_eq!(planned("a:1 --reply any").work, Work::Exchange { send: 4096, receive: 4096, echo: false });
}

#[test]
fn a_rate_allows_more_in_flight() {
    let plan = planned("a:1 --rate 500");
    assert_eq!(plan.model, Model::Open { rate: 500.0, arrivals: Arrivals::Poisson });
    assert_eq!(plan.connections, IN_FLIGHT);
    let job = good("a:1 --find-max total.p99=50ms --step 2s --find-start 1k").job;
    let search = SearchSpec { from: 1000.0, ..SearchSpec::new("total.p99=50ms").expect("good") };
    assert_eq!((job.search, job.plan.duration), (Some(search), Duration::from_secs(2)));
    assert_eq!(planned("a:1 --find-max total.p99=50ms").duration, Duration::from_secs(5));
}

#[test]
fn workers_limits_and_the_server() {
    let line = "a:1 --workers tls://bus:4222 --machines 4 --fleet f --bus-ca ca.pem --bus-credentials c --on-worker-lost \
                continue --max errors=1% --min rate=10 --pid 7";
    let Wanted { job, crew, on_lost } = good(line);
    let Crew::Nats { bus, machines } = crew else { panic!("{crew:?}") };
    assert_eq!((bus.url.as_str(), bus.fleet.as_str(), machines), ("tls://bus:4222", "f", 4));
    assert_eq!((bus.ca, bus.credentials), (Some("ca.pem".into()), Some("c".into())));
    assert_eq!((on_lost, job.account), (OnLost::Continue, Some(Accounted::Pid(7))));
    let written: Vec<&str> = job.limits.iter().map(Bound::written).collect();
    assert_eq!(written, ["errors=1%", "rate=10"]);
}

#[test]
fn an_address_is_never_sent() {
    assert_eq!(planned("127.0.0.1:1 --verify").tls.server_name, None);
    assert_eq!(planned("a:1 --sni off").tls.server_name, None);
}

#[test]
fn all_mistakes_are_told_at_once() {
    let found =
        wrong("nowhere --send 4X --rate 0 --resume 2 --tls 1.4 --machines 3 --close gently --streams 2");
    let options: Vec<&str> = found.iter().filter_map(|mistake| Some(mistake.split_once(':')?.0)).collect();
    assert_eq!(
        options,
        ["target", "--send", "--streams", "--rate", "--tls", "--resume", "--close", "--machines"]
    );
}

#[test]
fn what_does_not_go_together_is_refused() {
    for (line, words) in [
        ("a:1 --handshake-only --send 1", "--send: does not go with --handshake-only"),
        ("a:1 --handshake-only -n 2", "--exchanges: does not go with --handshake-only"),
        ("a:1 --bulk both --idle", "--bulk, --idle: each is another kind"),
        ("a:1 --bulk both --rate 5", "--bulk: its connections stand"),
        ("a:1 --idle --find-max total.p99=1s", "--idle: its connections stand"),
        ("a:1 --send 0", "--send, --receive: an exchange of nothing"),
        ("a:1 --bulk sideways", "`sideways` is no way to go"),
        ("a:1 --http 2", "--http: is for pages"),
        ("https://a/ --send 1", "--send: does not go with an https:// target"),
        ("https://a/ --handshake-only", "--handshake-only: does not go with an https:// target"),
        ("https://a/ --streams 2", "expected --http 2 with it"),
        ("a:1 --reply echo --receive 1", "--reply: echo needs"),
        ("a:1 --find-max total.p99=1s --rate 5", "--rate: does not go with --find-max"),
        ("a:1 --step 5s", "--step: is for the search"),
        ("a:1 --arrivals fixed", "--arrivals: says how starts"),
        ("a:1 --client-key k", "--client-key: belongs to a certificate"),
        ("a:1 --verify --ca f", "--verify: means the system's"),
        ("a:1 --sni 127.0.0.1", "--sni: `127.0.0.1` is no name"),
        ("a:1 --early-data", "--early-data: goes in resumed handshakes only"),
        ("a:1 --early-data --resume 1 --tls 1.2", "--early-data: is in TLS 1.3 only"),
        ("a:1 --early-data --resume 1 --handshake-only", "--early-data: has nothing to carry"),
        ("a:1 --suites TLS_NONE", "--suites: `TLS_NONE`"),
        ("a:1 --fleet x", "--fleet: is about workers"),
        ("a:1 --pid 1 --cgroup /x", "--pid, --cgroup: both say"),
        ("a:1 --source 127.0.0.1 --source ::1", "cannot reach the same target"),
        ("a:1 --source 127.0.0.1 --source 127.0.0.0/30", "named twice"),
        ("a:1 --connections 0", "--connections: `0` is not possible"),
        ("a:1 --max total.p98", "--max: limit `total.p98`"),
        ("a:1 --find-max errors=1", "--find-max: limit `errors=1`: a search needs a latency"),
        ("a:1 -n 0", "--exchanges: `0` is no number"),
    ] {
        let found = wrong(line).join("\n");
        assert!(found.contains(words), "{line}: {found}");
    }
}

#[test]
fn a_replay_takes_outputs_only() {
    let against = |line: &str| typed(line).against_replay;
    for line in
        ["--replay f", "--replay f --json g -q", "--replay f --workers nats://a --machines 2 --fleet g"]
    {
        assert!(against(line).is_empty(), "{line}");
    }
    let line = "--replay f a:1 --send 1 -c 1 --verify --close fin --max errors=1 --pid 4 --html g";
    assert_eq!(against(line), ["target", "--send", "--connections", "--verify", "--close", "--pid", "--max"]);
    assert!(Words::read(["handfast".into(), "load".into()]).is_err(), "a target is needed without it");
}
