//! Plans that are good, and everything that is said of those that are not.

use super::*;
use crate::emulate::Bound;

fn words() -> LinkWords {
    LinkWords { rtt: Some("114ms".into()), ..LinkWords::default() }
}

fn wrong(result: Result<Plan, LabError>) -> Vec<String> {
    match result.expect_err("it is wrong") {
        LabError::Wrong(problems) => problems,
        other => panic!("{other}"),
    }
}

#[test]
fn options_make_two_hosts_and_a_link() {
    let given = LinkWords {
        jitter: Some("5ms".into()),
        loss: Some("1%".into()),
        rate: Some("20mbit".into()),
        reorder: Some("0.5".into()),
        mtu: Some("1400".into()),
        queue: Some("64KiB".into()),
        ..words()
    };
    let plan =
        Plan::of_one_link(&given, Some((shell("nginx -g x"), Some(443))), Some(3)).expect("it is good");
    assert_eq!(plan.hosts, ["client", "server"]);
    let shape = Shape {
        delay: Duration::from_millis(57),
        jitter: Duration::from_millis(5),
        loss: 0.01,
        reorder: 0.5,
        reorder_by: Duration::from_micros(14_250),
        rate: Some(20_000_000),
        queue: Bound::Bytes(65_536),
    };
    assert_eq!(plan.links, [Link { ends: [0, 1], shapes: [shape; 2], mtu: 1400 }]);
    assert_eq!(plan.servers[0].words, ["sh", "-c", "exec nginx -g x"]);
    assert_eq!(shell("nginx"), ["nginx"]);
}

#[test]
fn every_wrong_value_is_reported_at_once() {
    let given = LinkWords {
        rtt: Some("114".into()),
        jitter: Some("2m".into()),
        loss: Some("101%".into()),
        rate: Some("20".into()),
        reorder: Some("-1".into()),
        mtu: Some("67".into()),
        queue: Some("many".into()),
    };
    let problems = wrong(Plan::of_one_link(&given, None, None));
    let of = |key: &str| problems.iter().any(|problem| problem.starts_with(&format!("--{key}")));
    for key in ["rtt", "jitter", "loss", "rate", "reorder", "mtu", "queue"] {
        assert!(of(key), "{key}: {problems:?}");
    }
    let alone = LinkWords { queue: Some("10".into()), ..words() };
    assert_eq!(
        wrong(Plan::of_one_link(&alone, None, None)),
        ["--queue needs --rate: without a rate, nothing waits"]
    );
}

const STAR: &str = r#"
    client = "laptop"
    [[link]]
    between = ["web", "router"]
    rtt = "100ms"
    [[link]]
    between = ["router", "laptop"]
    rtt = "20ms"
    rate = "50mbit"
    [link.back]
    rate = "5mbit"
    delay = "30ms"
    [[server]]
    host = "web"
    run = "nginx -g x"
    port = 443
"#;

#[test]
fn a_file_makes_any_network() {
    let plan = Plan::of_file("net.toml", STAR).expect("it is good");
    assert_eq!((plan.hosts.join(" "), plan.client), ("web router laptop".to_owned(), 2));
    let [there, back] = plan.links[1].shapes;
    assert_eq!((there.rate, there.delay), (Some(50_000_000), Duration::from_millis(10)));
    assert_eq!((back.rate, back.delay), (Some(5_000_000), Duration::from_millis(30)));
    // From the laptop, everything goes over its end of link 1; from the web, over its end of link 0.
    assert_eq!(plan.ways(2), [(0, (1, 1)), (1, (1, 1))].into());
    assert_eq!(plan.ways(0), [(1, (0, 0)), (2, (0, 0))].into());
}

#[test]
fn everything_that_is_wrong_with_a_file_is_reported() {
    let text = r#"
        client = "nobody"
        [[link]]
        between = ["a", "a"]
        rtt = "x"
        [[link]]
        between = ["b", "c d"]
        back = { loss = "7" }
    "#;
    let problems = wrong(Plan::of_file("net.toml", text)).join("\n");
    for expected in [
        "client = \"nobody\": no link has this host",
        "link 1 (a to a): both ends",
        "link 1 (a to a): rtt: ",
        "`c d` is no name",
        "link 2 (b to c d): back.loss: ",
        "no links lead from the client to b",
    ] {
        assert!(problems.contains(expected), "{expected}: {problems}");
    }
    for (text, expected) in
        [("", "no link"), ("x = 1", "unknown field"), ("[[link]]", "between"), ("{", "net.toml: ")]
    {
        let problems = wrong(Plan::of_file("net.toml", text)).join("\n");
        assert!(problems.contains(expected), "{text}: {problems}");
    }
}
