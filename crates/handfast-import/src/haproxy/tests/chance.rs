//! Rules at random: for each request, the routes do what HAProxy would do with the rules, one after the other.

use std::fmt::Write as _;

use crate::chance::{Chance, Request, now, requests};

type Condition = (&'static str, fn(&Request) -> bool);

/// Conditions that are exact for every rule.
const EXACT: [Condition; 10] = [
    ("{ path_beg /a/ }", |request| request.path.starts_with("/a/")),
    ("{ path_beg /a/b/ }", |request| request.path.starts_with("/a/b/")),
    ("{ path_beg /a }", |request| request.path.starts_with("/a")),
    ("{ path_beg -i /A/B }", |request| request.path.to_ascii_lowercase().starts_with("/a/b")),
    ("{ path_beg -i /A/ }", |request| request.path.to_ascii_lowercase().starts_with("/a/")),
    ("{ method POST }", |request| request.method == "POST"),
    ("{ method GET HEAD }", |request| request.method != "POST"),
    ("{ hdr(host),host_only x.t }", |request| request.host == "x.t"),
    ("{ hdr(host),host_only x.t y.t }", |request| request.host != "z.t"),
    ("{ hdr(k) -m found }", |request| request.has_field),
];
/// Those that are wider in refusals.
const OTHER: [Condition; 2] =
    [("{ path /a }", |request| request.path == "/a"), ("{ path /a/b }", |request| request.path == "/a/b")];
const INSIDE: Condition = ("{ src 10.0.0.0/8 }", |request| request.is_inside);

/// Any of these lists, of which all must hold; a condition may be negated.
type Formula = Vec<Vec<(bool, Condition)>>;

fn formula(chance: &mut Chance, has_other: bool) -> Formula {
    let any = 1 + chance.below(2);
    let one = |chance: &mut Chance| {
        let condition = match chance.below(if has_other { 12 } else { 10 }) {
            at @ 0..10 => EXACT[at],
            at => OTHER[at - 10],
        };
        (chance.below(3) == 0, condition)
    };
    (0..any).map(|_| (0..=chance.below(2)).map(|_| one(chance)).collect()).collect()
}

fn holds(formula: &Formula, request: &Request) -> bool {
    formula.iter().any(|all| all.iter().all(|(is_negated, (_, holds))| holds(request) != *is_negated))
}

fn text(formula: &Formula) -> String {
    let word =
        |(is_negated, (text, _)): &(bool, Condition)| format!("{}{text}", if *is_negated { "!" } else { "" });
    let all = |all: &Vec<_>| all.iter().map(word).collect::<Vec<_>>().join(" ");
    formula.iter().map(all).collect::<Vec<_>>().join(" || ")
}

#[derive(Clone, Copy, Debug)]
enum Action {
    Deny,
    Allow,
    Field(usize),
    Redirect(usize),
    Backend(usize),
}

fn rule(chance: &mut Chance, at: usize) -> (Action, Formula) {
    match chance.below(8) {
        0 | 1 => {
            let mut formula = formula(chance, false);
            if chance.below(2) == 0 {
                // An address in one list of conditions.
                formula.truncate(1);
                formula[0].push((chance.below(2) == 0, INSIDE));
            }
            (Action::Deny, formula)
        }
        2 => (
            Action::Allow,
            if chance.below(3) == 0 { vec![vec![(false, INSIDE)]] } else { formula(chance, true) },
        ),
        3 | 4 => (Action::Field(at), formula(chance, true)),
        5 => (Action::Redirect(at), formula(chance, false)),
        _ => (Action::Backend(at), formula(chance, true)),
    }
}

/// Returns HAProxy's outcome for a request: rules of requests first, then the choice of a backend.
fn before(rules: &[(Action, Formula)], request: &Request) -> String {
    let mut fields = String::new();
    for (action, formula) in rules.iter().filter(|(_, formula)| holds(formula, request)) {
        match action {
            Action::Deny => return "deny".into(),
            Action::Allow => break,
            Action::Field(at) => _ = write!(fields, " F{at}"),
            Action::Redirect(at) => return format!("redirect {at}"),
            Action::Backend(_) => {}
        }
        let _ = formula;
    }
    let chosen = rules.iter().find_map(|(action, formula)| match action {
        Action::Backend(at) if holds(formula, request) => Some(*at),
        _ => None,
    });
    format!("backend {}{fields}", chosen.map_or("default".into(), |at| at.to_string()))
}

#[test]
fn routes_do_what_rules_did() {
    let mut chance = Chance(1);
    let (mut converted, mut refused) = (0, 0);
    for _ in 0..800 {
        let rules: Vec<_> = (0..=chance.below(5)).map(|at| rule(&mut chance, at)).collect();
        let mut lines = String::from("defaults\n mode http\nfrontend f\n bind 127.0.0.1:80\n");
        let mut behind = String::from("backend z\n server s 127.0.0.1:999\n");
        for (action, formula) in &rules {
            let what = match action {
                Action::Deny => "http-request deny".to_owned(),
                Action::Allow => "http-request allow".to_owned(),
                Action::Field(at) => format!("http-request set-header F{at} 1"),
                Action::Redirect(at) => format!("http-request redirect location /r{at}"),
                Action::Backend(at) => {
                    let _ = write!(behind, "backend b{at}\n server s 127.0.0.1:{}\n", 1_000 + at);
                    format!("use_backend b{at}")
                }
            };
            let _ = writeln!(lines, " {what} if {}", text(formula));
        }
        let file = format!("{lines} default_backend z\n{behind}");
        let (config, notes) = super::converted(&file);
        if notes.iter().any(|note| note.starts_with("refused")) {
            refused += 1;
            assert!(!config.contains("[[service]]"), "{file}\n{notes:?}\n{config}");
            continue;
        }
        converted += 1;
        let config = config.parse().expect("it is TOML");
        for request in requests() {
            let (before, now) = (before(&rules, &request), now(&config, &request));
            assert_eq!(before, now, "{request:?}\n{file}\n{config}");
        }
    }
    // Most of what is refused depends on addresses.
    assert!(converted > 400 && refused > 20, "{converted} converted, {refused} refused");
}
