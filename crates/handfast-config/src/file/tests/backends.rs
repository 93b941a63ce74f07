//! Backends with weights: how they are written, and what cannot be meant.

use super::super::super::model::{Backend, Balance, Target};
use super::*;

fn service(backends: &str, more: &str) -> String {
    let web = WEB.replace("backend = \"10.0.0.9:80\"\n", "");
    format!("{web}backend = {backends}\n{more}\n")
}

fn read_backends(backends: &str) -> Vec<Backend> {
    good(&service(backends, "")).services[0].backends.to_vec()
}

/// Messages about the last lines, errors and warnings.
fn messages(backends: &str, more: &str) -> Vec<String> {
    let problems = match read(&service(backends, more)) {
        Ok((_, warnings)) => warnings,
        Err(problems) => problems,
    };
    problems.into_iter().map(|problem| format!("{:?}: {}", problem.severity, problem.what)).collect()
}

#[test]
fn a_backend_is_a_text_or_a_table() {
    let written = "[\"10.0.0.1:80\", { address = \"db.example:80\", weight = 256 }, { address = \"unix:/x\", backup = true }]";
    let read = read_backends(written);
    let seen: Vec<_> =
        read.iter().map(|backend| (backend.target.to_string(), backend.weight, backend.backup)).collect();
    assert_eq!(
        seen,
        [
            ("10.0.0.1:80".to_owned(), 1, false),
            ("db.example:80".to_owned(), 256, false),
            ("unix:/x".to_owned(), 1, true)
        ]
    );
    let (config, _) =
        super::read(&service("{ address = \"10.0.0.1:80\", weight = 7 }", "")).expect("it is right");
    assert_eq!(config.services[0].backends[0].weight, 7, "one without a list");
}

#[test]
fn what_cannot_be_meant_is_reported() {
    let one = "\"10.0.0.1:80\"";
    let two = "[\"10.0.0.1:80\", \"10.0.0.2:80\"]";
    for (backends, more, message) in [
        (
            "[\"10.0.0.1:80\", { address = \"10.0.0.1:80\", weight = 2 }]",
            "",
            "Error: 10.0.0.1:80 is written twice",
        ),
        (
            "{ address = \"10.0.0.1:80\", weight = 0 }",
            "",
            "Error: every backend has weight 0, so no connection could be served",
        ),
        ("{ address = \"10.0.0.1:80\", weight = 257 }", "", "Error: 257 is out of range"),
        (
            "{ address = \"10.0.0.1:80\", backup = 1 }",
            "",
            "Error: expected a `true` or `false`, found a whole number",
        ),
        ("{ weight = 1 }", "", "Error: { address = …, weight = … } has no `address`"),
        (
            "{ address = \"10.0.0.1:80\", wieght = 1 }",
            "",
            "Error: unknown key `wieght` in { address = …, weight = … }",
        ),
        (
            "{ address = \"10.0.0.1:80\", backup = true }",
            "",
            "Warning: every backend is a backup, so `backup` has no effect",
        ),
        (one, "balance = \"source-hash\"", "Warning: `balance` has no effect: there is one backend"),
        (
            one,
            "slow-start = \"30s\"",
            "Warning: `slow-start` has no effect: there is one backend, which gets everything",
        ),
        (two, "balance = \"source\"", "Error: `source` is not one of the possible values"),
        (two, "slow-start = \"0s\"", "Error: 0s is out of range"),
    ] {
        assert_eq!(messages(backends, more), [message], "{backends} {more}");
    }
    for balance in Balance::WORDS.map(|(word, _)| word) {
        assert_eq!(
            messages(two, &format!("balance = \"{balance}\"\nslow-start = \"30s\"")),
            [""; 0],
            "{balance}"
        );
    }
    // A name can have several addresses.
    assert_eq!(messages("\"db.example:80\"", "balance = \"source-hash\"\nslow-start = \"off\""), [""; 0]);
}

#[test]
fn targets_of_routes_are_looked_up_and_counted() {
    let config = good(&super::http::shop("[[service.route]]\nname = \"api\"\nbackend = \"api.example:80\""));
    let service = &config.services[0];
    let routes = service.routes();
    assert_eq!(routes.len(), 2);
    assert_eq!(routes[1].backends.backends[0].target, Target::Name("api.example".into(), 80));
    let demand = crate::ResourceDemand::from(&config);
    let names: Vec<&str> = demand.groups.iter().map(|group| group.name.as_str()).collect();
    assert_eq!(names, ["service web", "service web, api"]);
}
