//! Command lines understood, and refused.

use std::io::Write as _;

use handfast_load::plan::{Body, Request, Stage, request};

use super::*;
use crate::words::{Verb, Words};

fn typed(line: &str) -> LoadWords {
    let words = Words::read(["handfast", "load"].into_iter().chain(line.split_whitespace()).map(Into::into));
    match words.unwrap_or_else(|error| panic!("{line}: {error}")).verb {
        Verb::Load(words) => *words,
        other => panic!("{other:?}"),
    }
}

fn good(line: &str) -> RequestedLoad {
    let mut mistakes = Mistakes::default();
    let requested = parse_load(&typed(line), 7, &mut mistakes);
    assert!(mistakes.is_empty(), "{line}: {}", mistakes.refusal());
    requested
}

fn planned(line: &str) -> Plan {
    good(line).job.plan
}

fn wrong(line: &str) -> Vec<String> {
    let mut mistakes = Mistakes::default();
    parse_load(&typed(line), 7, &mut mistakes);
    mistakes.0
}

#[test]
fn a_target_alone_is_the_standard_transaction() {
    let RequestedLoad { job, workers, on_lost, status } = good("localhost:8443");
    let mut standard = Plan { seed: 7, ..Plan::default() };
    standard.tls.server_name = Some("localhost".into());
    assert_eq!(job, Job::of(standard));
    assert!(matches!(workers, Workers::Local));
    assert_eq!((on_lost, status), (OnLost::Fail, None));
}

#[test]
fn a_page_is_http() {
    let plan = planned("https://a.example:8443/x --http 2 --streams 8");
    let work = Work::Http {
        version: HttpVersion::Http2,
        authority: "a.example:8443".into(),
        requests: vec![Request { path: "/x".into(), ..Request::default() }],
        streams: 8,
        expect: ExpectedStatuses::default(),
        in_order: false,
    };
    assert_eq!((plan.work, plan.exchanges, plan.tls.alpn), (work, None, vec!["h2".to_owned()]));
    assert_eq!(plan.tls.server_name.as_deref(), Some("a.example"));
    let work = planned("https://a.example/ --expect 2xx,404").work;
    assert!(matches!(work, Work::Http { expect, .. } if expect.accepts(404) && !expect.accepts(302)));
    let plan = planned("https://[::1]/");
    assert_eq!((plan.tls.server_name, plan.tls.alpn), (None, vec!["http/1.1".to_owned()]));
}

#[test]
fn plain_http_has_no_tls() {
    let plan = planned("http://a.example:8080/x --http 2");
    assert!(plan.target.plain && plan.target.port == 8080 && plan.close == Close::Fin);
    let options = "--tls 1.3 --suites x --groups x --sni b --alpn x --client-certificate c --client-key k --verify --ca f \
                   --resume 1 --early-data --profile browser --mix share=1";
    let found = wrong(&format!("http://a/ {options} --close notify"));
    assert_eq!(found.len(), 14, "{found:?}");
    let (last, all) = found.split_last().expect("there are some");
    assert!(last.starts_with("--close: notify needs TLS"), "{last}");
    for (option, message) in options.split_whitespace().filter(|word| word.starts_with("--")).zip(all) {
        assert!(
            message.starts_with(&format!("{option}: is about TLS, and an http:// target has none")),
            "{message}"
        );
    }
    let text = serde_json::to_string(&plan).expect("a plan");
    assert_eq!(serde_json::from_str::<Plan>(&text).expect("a plan"), plan);
    assert!(
        refused(&["http://a/", "--url", "https://a/b"])
            .contains("is not on http://a: one run has one target")
    );
    assert_eq!(parse_requests(&["http://a/", "--url", "http://A:80/b"])[0].path, "/b");
}

#[test]
fn every_option_is_in_the_plan() {
    let line = "a:1 --send 1k --receive 2k -n unlimited -c 9 -r 100..2k --arrivals fixed -d 3s --timeout 2s --threads 2 \
                --seed 5 --tls 1.3 --suites TLS_AES_256_GCM_SHA384 --groups X25519MLKEM768,X25519 --sni b --alpn x,y \
                --client-certificate c.pem --ca ca.pem --resume 70% --early-data --close reset \
                --source 127.1.0.0/30 --source 127.2.0.1";
    let plan = planned(line);
    assert_eq!(plan.work, Work::Exchange { send: 1024, receive: 2048, echo: false });
    assert_eq!(plan.model, Model::ramp(100.0, 2000.0, Arrivals::Fixed));
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
    let stage = |from, to, share| Stage { from, to, share };
    let plan = planned("a:1 --rate 500");
    assert_eq!(plan.model, Model::open(500.0, Arrivals::Poisson));
    assert_eq!(plan.connections, IN_FLIGHT);
    let plan = planned("a:1 --rate 0..500@30s,500@2m --arrivals fixed");
    let stages = vec![stage(0.0, 500.0, 30.0), stage(500.0, 500.0, 120.0)];
    assert_eq!(plan.model, Model::Open { stages, arrivals: Arrivals::Fixed });
    assert_eq!(plan.duration, Duration::from_secs(150));
    let job = good("a:1 --find-max total.p99=50ms --step 2s --find-start 1k").job;
    let search = SearchSpec { from: 1000.0, ..SearchSpec::new("total.p99=50ms").expect("good") };
    assert_eq!((job.search, job.plan.duration), (Some(search), Duration::from_secs(2)));
    assert_eq!(planned("a:1 --find-max total.p99=50ms").duration, Duration::from_secs(5));
}

#[test]
fn workers_limits_and_the_server() {
    let line = "a:1 --workers tls://bus:4222 --machines 4 --fleet f --bus-ca ca.pem --bus-credentials c --on-worker-lost \
                continue --max errors=1% --min rate=10 --pid 7 --status b:2";
    let RequestedLoad { job, workers, on_lost, status } = good(line);
    assert_eq!(status, Some(AdminAddress::Tcp("b:2".into())));
    let Workers::Nats { bus, machines } = workers else { panic!("{workers:?}") };
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
fn all_mistakes_are_reported_at_once() {
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
        ("a:1 --bulk both --idle", "--bulk, --idle: these exclude each other"),
        ("a:1 --bulk both --rate 5", "--bulk: its connections stay open"),
        ("a:1 --idle --find-max total.p99=1s", "--idle: its connections stay open"),
        ("a:1 --send 0", "--send, --receive: nothing to exchange"),
        ("a:1 --bulk sideways", "invalid direction `sideways`"),
        ("a:1 --http 2", "--http: is for HTTP"),
        ("https://a/ --send 1", "--send: does not go with a target that is a URL"),
        ("https://a/ --handshake-only", "--handshake-only: does not go with a target that is a URL"),
        ("https://a/ --streams 2", "expected --http 2 with it"),
        ("a:1 --reply echo --receive 1", "--reply: echo needs"),
        ("a:1 --find-max total.p99=1s --rate 5", "--rate: does not go with --find-max"),
        ("a:1 --step 5s", "--step: is for the search"),
        ("a:1 --arrivals fixed", "--arrivals: spaces the starts"),
        ("a:1 --client-key k", "--client-key: belongs to a certificate"),
        ("a:1 --verify --ca f", "--verify: means the system's"),
        ("a:1 --sni 127.0.0.1", "--sni: invalid server name `127.0.0.1`"),
        ("a:1 --early-data", "--early-data: goes in resumed handshakes only"),
        ("a:1 --early-data --resume 1 --tls 1.2", "--early-data: is in TLS 1.3 only"),
        ("a:1 --early-data --resume 1 --handshake-only", "--early-data: has nothing to carry"),
        ("a:1 --suites TLS_NONE", "--suites: `TLS_NONE`"),
        ("a:1 --fleet x", "--fleet: is about workers"),
        ("a:1 --pid 1 --cgroup /x", "--pid, --cgroup: both name"),
        ("a:1 --source 127.0.0.1 --source ::1", "cannot reach the same target"),
        ("a:1 --source 127.0.0.1 --source 127.0.0.0/30", "named twice"),
        ("a:1 --connections 0", "--connections: invalid number `0`"),
        ("a:1 --max total.p98", "--max: bound `total.p98`: no `=`"),
        ("a:1 --find-max rate=1", "--find-max: bound `rate=1`: a search needs a latency or errors"),
        (
            "a:1 --think 1s --rate 5",
            "--think: does not go with --rate or --find-max: the rate already says when",
        ),
        ("a:1 --think 1s --find-max total.p99=1s", "--think: does not go with --rate or --find-max"),
        ("a:1 --think 1s --idle", "--think: is between transactions"),
        ("a:1 --think 2s..1s", "--think: invalid think time `2s..1s`, expected the shorter time first"),
        ("a:1 --rate 5@1s,6@1s -d 3s", "--duration: does not go with a --rate whose stages have lengths"),
        ("a:1 --rate 5@1s,6", "--rate: `5@1s,6` has a stage without a length"),
        ("a:1 --expect 404", "--expect: is for HTTP"),
        ("https://a/ --expect 2xx,9xx", "--expect: invalid status `9xx`, expected classes from 2xx"),
        ("a:1 -n 0", "--exchanges: invalid number of exchanges `0`"),
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

/// The requests of a command line.
fn parse_requests(words: &[&str]) -> Vec<Request> {
    let words = [&["handfast", "load"], words].concat();
    let read = Words::read(words.iter().map(Into::into)).unwrap_or_else(|error| panic!("{words:?}: {error}"));
    let Verb::Load(words) = read.verb else { panic!("not load") };
    let mut mistakes = Mistakes::default();
    let requested = parse_load(&words, 7, &mut mistakes);
    assert!(mistakes.is_empty(), "{}", mistakes.refusal());
    requested.job.plan.requests().to_vec()
}

/// The messages about words of a command line that may contain spaces.
fn refused(words: &[&str]) -> String {
    let words = [&["handfast", "load"], words].concat();
    let read = Words::read(words.iter().map(Into::into)).unwrap_or_else(|error| panic!("{words:?}: {error}"));
    let Verb::Load(words) = read.verb else { panic!("not load") };
    let mut mistakes = Mistakes::default();
    parse_load(&words, 7, &mut mistakes);
    mistakes.0.join("\n")
}

fn file(text: &str) -> (tempfile::NamedTempFile, String) {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(text.as_bytes()).expect("it can be written");
    let name = format!("@{}", file.path().display());
    (file, name)
}

#[test]
fn a_request_has_method_headers_and_body() {
    let request_of = |words: &[&str]| parse_requests(&[&["https://a.example/x"], words].concat()).remove(0);
    assert_eq!(request_of(&[]).name(), "GET /x");
    let post = request_of(&["--body", "{}", "-H", "Content-Type: application/json"]);
    assert_eq!((post.name().as_str(), post.body), ("POST /x", Some(Body::Text("{}".into()))));
    assert_eq!(post.headers[0].value.as_deref(), Some("application/json"));
    let put = request_of(&["-X", "PUT", "--body", "@/tmp/b"]);
    assert_eq!((put.name().as_str(), put.body), ("PUT /x", Some(Body::File("/tmp/b".into()))));
    let (_file, name) = file("A: 1\n\nB: 2\n");
    assert_eq!(request_of(&["--header", &name]).headers.len(), 2);

    let wrong = refused(&["https://a/", "-X", "get", "-H", "Content-Length: 3", "-H", "x"]);
    assert_eq!(wrong.lines().count(), 3, "{wrong}");
    assert!(wrong.contains("expected GET") && wrong.contains("counted from the body"), "{wrong}");
    let wrong = refused(&["a:1", "-X", "PUT", "-H", "A: b", "--body", "x", "--url", "/"]);
    assert_eq!(wrong.lines().filter(|line| line.contains("is for HTTP")).count(), 4, "{wrong}");
    assert!(refused(&["https://a/", "-H", "@/no/such/file"]).contains("read /no/such/file"));
}

#[test]
fn several_requests_have_weights() {
    let (_file, name) = file("2 /c\nX: y\n@body\n");
    let requests =
        parse_requests(&["https://a.example:8443/", "--url", "9 /a", "--url", "POST /b", "--url", &name]);
    let names: Vec<(u32, String)> = requests.iter().map(|one| (one.weight, one.name())).collect();
    assert_eq!(names, [(9, "GET /a".into()), (1, "POST /b".into()), (2, "GET /c".into())]);
    assert_eq!((requests[2].headers.len(), requests[2].body.clone()), (1, Some(Body::File("body".into()))));
    assert!(refused(&["https://a/x", "--url", "/a"]).contains("has a path, expected"));
    assert!(refused(&["https://a/", "--url", "https://b/a"]).contains("one run has one target"));
    let (_file, name) = file("/a\nb\n");
    assert!(refused(&["https://a/", "--url", &name]).contains("line 2"), "the line is named");
}

#[test]
fn requests_in_order_take_values_from_each_other() {
    let line = ["https://a.example/", "--url", "POST /login", "--url", "/items/{t}", "--in-order", "--take"];
    let requested = parse_requests(&[line.as_slice(), &["t=json:/token"]].concat());
    assert_eq!(
        (requested[0].take.len(), requested[0].take[0].name.as_str(), requested[1].take.len()),
        (1, "t", 0)
    );
    let refusal_of = |more: &[&str]| refused(&[&line[..5], more].concat());
    assert!(
        refusal_of(&["--take", "t=json:/token"])
            .contains("--take: values are for later requests, expected --in-order")
    );
    assert!(
        refusal_of(&["--in-order", "--take", "3:t=json:/a"])
            .contains("--take: there is no request 3, expected 1 to 2")
    );
    assert!(
        refusal_of(&["--in-order", "--take", "t=body"])
            .contains("--take: invalid value `t=body`, expected one such as")
    );
    assert!(refusal_of(&["--in-order", "--take", "u=json:/a"]).contains("--take: `u` is never used"));
    assert!(
        refusal_of(&["--in-order", "--url", "3 /b"])
            .contains("--in-order: requests in order have no weights")
    );
    assert!(
        refusal_of(&["--in-order", "--http", "2", "--streams", "2"])
            .contains("--in-order: needs one request at a time")
    );
    assert!(refused(&["https://a/", "--in-order"]).contains("--in-order: is for several requests"));
    assert!(refused(&["a:1", "--in-order"]).contains("--in-order: is for HTTP"));
}

#[test]
fn a_mix_is_resolved_against_what_all_have() {
    let line = ["a.example:1", "--resume", "50%", "--sni", "b.example", "--early-data"];
    let mix =
        ["--mix", "share=30 name=old tls=1.2 groups=secp256r1 resume=0", "--mix", "share=70 profile=browser"];
    let words = [&["handfast", "load"], line.as_slice(), &mix].concat();
    let read = Words::read(words.iter().map(Into::into)).unwrap_or_else(|error| panic!("{error}"));
    let Verb::Load(words) = read.verb else { panic!("not load") };
    let mut mistakes = Mistakes::default();
    let plan = parse_load(&words, 7, &mut mistakes).job.plan;
    assert!(mistakes.is_empty(), "{}", mistakes.refusal());
    let [old, browser] = plan.mix.as_slice() else { panic!("{:?}", plan.mix) };
    assert_eq!((old.name.as_str(), old.share), ("old", 30.0));
    assert_eq!((old.tls.versions.as_slice(), old.tls.resume), (&["1.2".to_owned()][..], 0.0));
    assert_eq!(old.tls.server_name.as_deref(), Some("b.example"));
    assert_eq!((browser.name.as_str(), browser.tls.groups[0].as_str()), ("client-2", "X25519MLKEM768"));
    assert_eq!((browser.tls.resume, browser.tls.alpn.len()), (0.5, 2));
    assert!(!old.tls.early_data && browser.tls.early_data, "TLS 1.2 has none");
    assert!((plan.wanted_resumed() - 0.35).abs() < 1e-9, "{}", plan.wanted_resumed());
    // It travels.
    let text = serde_json::to_string(&plan).expect("a plan");
    assert_eq!(serde_json::from_str::<Plan>(&text).expect("a plan"), plan);

    let wrong =
        refused(&["a:1", "--mix", "share=1 groups=none", "--mix", "tls=1.2", "--mix", "share=5% profile=x"]);
    for part in
        ["`client-1`: --groups", "no share, expected", "some have none", "browser, classic, small, tls12"]
    {
        assert!(wrong.contains(part), "{part}: {wrong}");
    }
    assert!(refused(&["a:1", "--mix", "share=1 name=a", "--mix", "share=1 name=a"]).contains("two members"));
}

#[test]
fn names_in_turn_come_from_a_file() {
    let (_file, name) = file("a.example\n3 b.example\n");
    let plan = planned(&format!("h:1 --sni {name}"));
    let names: Vec<u32> = plan.tls.server_names.iter().map(|name| name.weight).collect();
    assert_eq!((plan.tls.server_name, names), (None, vec![1, 3]));
    assert!(refused(&["h:1", "--sni", "@/no/such/file"]).contains("read /no/such/file"));
}

#[test]
fn what_a_report_does_not_keep_is_given_again() {
    let plan = || {
        let mut job = good("https://a.example/").job;
        let Work::Http { requests, .. } = &mut job.plan.work else { panic!("HTTP") };
        requests[0].set(request::header("Authorization: Bearer geheim").expect("a header"));
        let kept = serde_json::to_string(&job.without_secrets()).expect("JSON");
        assert!(!kept.contains("geheim"), "{kept}");
        Job::parse(&kept).expect("a job").plan
    };
    let filled = |given: &[&str]| {
        let mut mistakes = Mistakes::default();
        let mut plan = plan();
        fill_in(&mut plan, &given.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>(), &mut mistakes);
        (plan.requests()[0].headers[0].value.clone(), mistakes.0.join("\n"))
    };
    let (_, wrong) = filled(&[]);
    assert!(wrong.contains("does not keep the value of the header `authorization`"), "{wrong}");
    assert_eq!(filled(&["authorization: Bearer anders"]), (Some("Bearer anders".into()), String::new()));
    let (_, wrong) = filled(&["authorization: x", "Accept: y"]);
    assert!(wrong.contains("`accept` is in the report already"), "{wrong}");
}
