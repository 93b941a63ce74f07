//! Rules at random: for each request, the routes do what HAProxy would do with the rules, one after the other.

use std::fmt::Write as _;

use toml_edit::{DocumentMut, Table};

use crate::cells::begins_with;

const HOSTS: [&str; 3] = ["x.t", "y.t", "z.t"];
const PATHS: [&str; 8] = ["/", "/a", "/a/", "/a/b", "/a/bc", "/a/b/c", "/ab", "/c"];
const METHODS: [&str; 3] = ["GET", "POST", "HEAD"];

/// Numbers that are the same each time.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("it has 31 bits") % end
    }
}

#[derive(Clone, Copy, Debug)]
struct Request {
    host: &'static str,
    path: &'static str,
    method: &'static str,
    has_field: bool,
    is_inside: bool,
}

type Condition = (&'static str, fn(&Request) -> bool);

/// Conditions that are exact for every rule.
const EXACT: [Condition; 7] = [
    ("{ path_beg /a/ }", |request| request.path.starts_with("/a/")),
    ("{ path_beg /a/b/ }", |request| request.path.starts_with("/a/b/")),
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
        let condition = match chance.below(if has_other { 9 } else { 7 }) {
            at @ 0..7 => EXACT[at],
            at => OTHER[at - 7],
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

/// What HAProxy does: rules of requests first, then the choice of a backend.
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

fn list(route: &Table, key: &str) -> Option<Vec<String>> {
    let list = route.get(key)?.as_array()?;
    Some(list.iter().filter_map(|item| item.as_str().map(ToOwned::to_owned)).collect())
}

/// What the first route that matches does.
fn now(config: &DocumentMut, request: &Request) -> String {
    let service =
        config["service"].as_array_of_tables().and_then(|services| services.get(0)).expect("a service");
    let routes = service["route"].as_array_of_tables().expect("routes");
    let matches = |route: &&Table| {
        list(route, "hosts").is_none_or(|hosts| hosts.iter().any(|host| host == request.host))
            && route.get("path").is_none_or(|path| begins_with(request.path, path.as_str().expect("a path")))
            && list(route, "methods")
                .is_none_or(|methods| methods.iter().any(|method| method == request.method))
            && (!route.contains_key("headers") || request.has_field)
    };
    let route = routes.iter().find(matches).expect("a route takes all requests");
    let allows = list(route, "allow-clients").is_none_or(|_| request.is_inside);
    let refuses = route.contains_key("refuse-clients") && request.is_inside;
    if !allows || refuses || route.contains_key("respond") {
        return "deny".into();
    }
    if let Some(redirect) = route.get("redirect").and_then(|redirect| redirect.as_inline_table()) {
        let to = redirect.get("to").and_then(|to| to.as_str()).unwrap_or_default();
        return format!("redirect {}", to.trim_start_matches("/r"));
    }
    let backend = list(route, "backend").expect("a backend").remove(0);
    let port: usize = backend.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
    let fields: String = list(route, "set-request-fields")
        .unwrap_or_default()
        .iter()
        .map(|field| format!(" {}", field.trim_end_matches(": 1")))
        .collect();
    let name = if port == 999 { "default".into() } else { (port - 1_000).to_string() };
    format!("backend {name}{fields}")
}

#[test]
fn routes_do_what_rules_did() {
    let mut chance = Chance(1);
    let (mut converted, mut refused) = (0, 0);
    for _ in 0..600 {
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
        let config: DocumentMut = config.parse().expect("it is TOML");
        for host in HOSTS {
            for path in PATHS {
                for method in METHODS {
                    for bits in 0..4 {
                        let request = Request {
                            host,
                            path,
                            method,
                            has_field: bits & 1 == 1,
                            is_inside: bits & 2 == 2,
                        };
                        let (before, now) = (before(&rules, &request), now(&config, &request));
                        assert_eq!(before, now, "{request:?}\n{file}\n{config}");
                    }
                }
            }
        }
    }
    // Most of what is refused depends on addresses.
    assert!(converted > 400 && refused > 20, "{converted} converted, {refused} refused");
}
