//! Routes at random: for each request, the new routes do what Caddy would do with the old ones.

use crate::chance::{Chance, Request, now, requests};

type Matcher = (&'static str, fn(&Request) -> bool);

const MATCHERS: [Matcher; 9] = [
    (r#""path":["/a/*"]"#, |request| request.path.to_ascii_lowercase().starts_with("/a/")),
    (r#""path":["/a/b/*","/c"]"#, |request| {
        request.path.to_ascii_lowercase().starts_with("/a/b/") || request.path.eq_ignore_ascii_case("/c")
    }),
    (r#""method":["POST"]"#, |request| request.method == "POST"),
    (r#""method":["GET","HEAD"]"#, |request| request.method != "POST"),
    (r#""host":["x.t"]"#, |request| request.host == "x.t"),
    (r#""host":["x.t","y.t"]"#, |request| request.host != "z.t"),
    (r#""header":{"K":["*"]}"#, |request| request.has_field),
    (r#""not":[{"host":["y.t"]},{"method":["POST"]}]"#, |request| {
        request.host != "y.t" && request.method != "POST"
    }),
    (r#""remote_ip":{"ranges":["10.0.0.0/8"]}"#, |request| request.is_inside),
];

#[derive(Debug)]
enum Handler {
    Field(usize),
    Refuse,
    Redirect(usize),
    Backend(usize),
    Routes(Vec<Route>),
}

#[derive(Debug)]
struct Route {
    /// One of these, of which all hold.
    sets: Vec<Vec<Matcher>>,
    group: Option<&'static str>,
    is_terminal: bool,
    handler: Handler,
}

fn route(chance: &mut Chance, depth: usize, count: &mut usize) -> Route {
    *count += 1;
    let at = *count;
    let handler = match chance.below(9) {
        0 | 1 if depth < 2 => {
            Handler::Routes((0..=chance.below(3)).map(|_| route(chance, depth + 1, count)).collect())
        }
        0..=3 => Handler::Field(at),
        4 => Handler::Refuse,
        5 => Handler::Redirect(at),
        _ => Handler::Backend(at),
    };
    let set = |chance: &mut Chance| {
        let mut set: Vec<Matcher> = Vec::new();
        for _ in 0..=chance.below(2) {
            let end = if chance.below(6) == 0 { 9 } else { 8 };
            let matcher = MATCHERS[chance.below(end)];
            let kind = |text: &str| text.split(':').next().map(ToOwned::to_owned);
            // A set has one matcher of a kind.
            if set.iter().all(|(known, _)| kind(known) != kind(matcher.0)) {
                set.push(matcher);
            }
        }
        set
    };
    let sets = (0..chance.below(3)).map(|_| set(chance)).collect();
    let group = [None, None, Some("g"), Some("h")][chance.below(4)];
    Route { sets, group, is_terminal: chance.below(5) == 0, handler }
}

fn text(routes: &[Route]) -> String {
    let one = |route: &Route| {
        let set = |set: &Vec<Matcher>| {
            format!("{{{}}}", set.iter().map(|(text, _)| *text).collect::<Vec<_>>().join(","))
        };
        let handler = match &route.handler {
            Handler::Field(at) => format!(r#"{{"handler":"headers","request":{{"set":{{"F{at}":["1"]}}}}}}"#),
            Handler::Refuse => r#"{"handler":"static_response","status_code":403}"#.into(),
            Handler::Redirect(at) => {
                format!(
                    r#"{{"handler":"static_response","status_code":302,"headers":{{"Location":["/r{at}"]}}}}"#
                )
            }
            Handler::Backend(at) => {
                format!(
                    r#"{{"handler":"reverse_proxy","upstreams":[{{"dial":"127.0.0.1:{}"}}]}}"#,
                    1_000 + at
                )
            }
            Handler::Routes(inner) => format!(r#"{{"handler":"subroute","routes":[{}]}}"#, text(inner)),
        };
        let sets = route.sets.iter().map(set).collect::<Vec<_>>().join(",");
        let group = route.group.map(|group| format!(r#""group":"{group}","#)).unwrap_or_default();
        format!(r#"{{{group}"terminal":{},"match":[{sets}],"handle":[{handler}]}}"#, route.is_terminal)
    };
    routes.iter().map(one).collect::<Vec<_>>().join(",")
}

/// Returns Caddy's outcome for a request.
fn before(routes: &[Route], request: &Request) -> String {
    let (mut lists, mut groups, mut fields) = (vec![routes.iter()], Vec::new(), Vec::new());
    while let Some(list) = lists.last_mut() {
        let Some(route) = list.next() else {
            lists.pop();
            continue;
        };
        let holds = |set: &Vec<Matcher>| set.iter().all(|(_, holds)| holds(request));
        let is_used = route.sets.is_empty() || route.sets.iter().any(holds);
        if !is_used || route.group.is_some_and(|group| groups.contains(&group)) {
            continue;
        }
        groups.extend(route.group);
        if route.is_terminal {
            lists.clear();
        }
        match &route.handler {
            Handler::Field(at) => fields.push(format!(" F{at}")),
            Handler::Refuse => return "deny".into(),
            Handler::Redirect(at) => return format!("redirect {at}"),
            Handler::Backend(at) => return format!("backend {at}{}", fields.concat()),
            Handler::Routes(inner) => lists.push(inner.iter()),
        }
    }
    // An empty response, as `respond` has none.
    "deny".into()
}

#[test]
fn routes_do_what_routes_did() {
    let mut chance = Chance(2);
    let (mut converted, mut refused) = (0, 0);
    for _ in 0..600 {
        let mut count = 0;
        let routes: Vec<_> = (0..=chance.below(4)).map(|_| route(&mut chance, 0, &mut count)).collect();
        let file = format!(
            r#"{{"listen":["127.0.0.1:8080"],"automatic_https":{{"disable":true}},"routes":[{}]}}"#,
            text(&routes)
        );
        let (config, notes) = super::converted(&file);
        if notes.iter().any(|note| note.starts_with("refused")) {
            refused += 1;
            assert!(!config.contains("[[service]]"), "{file}\n{notes:?}\n{config}");
            continue;
        }
        converted += 1;
        let config = config.parse().expect("it is TOML");
        for request in requests() {
            let (before, now) = (before(&routes, &request), now(&config, &request));
            assert_eq!(before, now, "{request:?}\n{file}\n{config}");
        }
    }
    assert!(converted > 300 && refused > 20, "{converted} converted, {refused} refused");
}
