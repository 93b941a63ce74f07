//! Requests, and what routes do with them; for tests that make configurations at random.

use toml_edit::{DocumentMut, Table};

use crate::cells::begins_with;

const HOSTS: [&str; 3] = ["x.t", "y.t", "z.t"];
const PATHS: [&str; 11] = ["/", "/a", "/a/", "/a/b", "/a/bc", "/a/b/c", "/ab", "/c", "/A", "/A/b", "/a/B/c"];
const METHODS: [&str; 3] = ["GET", "POST", "HEAD"];

/// Numbers that are the same each time.
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("it has 31 bits") % end
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) host: &'static str,
    pub(crate) path: &'static str,
    pub(crate) method: &'static str,
    pub(crate) has_field: bool,
    pub(crate) is_inside: bool,
}

/// Each combination of their parts.
pub(crate) fn requests() -> impl Iterator<Item = Request> {
    HOSTS.into_iter().flat_map(|host| {
        PATHS.into_iter().flat_map(move |path| {
            METHODS.into_iter().flat_map(move |method| {
                (0..4).map(move |bits| Request {
                    host,
                    path,
                    method,
                    has_field: bits & 1 == 1,
                    is_inside: bits & 2 == 2,
                })
            })
        })
    })
}

fn list(route: &Table, key: &str) -> Option<Vec<String>> {
    let list = route.get(key)?.as_array()?;
    Some(list.iter().filter_map(|item| item.as_str().map(ToOwned::to_owned)).collect())
}

/// Returns the outcome of the first route that matches.
pub(crate) fn now(config: &DocumentMut, request: &Request) -> String {
    let service =
        config["service"].as_array_of_tables().and_then(|services| services.get(0)).expect("a service");
    let routes = service["route"].as_array_of_tables().expect("routes");
    let matches = |route: &&Table| {
        list(route, "hosts").is_none_or(|hosts| hosts.iter().any(|host| host == request.host))
            && route.get("path").is_none_or(|path| {
                let path = path.as_str().expect("a path");
                match route.get("ignore-case").and_then(toml_edit::Item::as_bool) {
                    Some(true) => begins_with(&request.path.to_ascii_lowercase(), &path.to_ascii_lowercase()),
                    _ => begins_with(request.path, path),
                }
            })
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
    let fields: String = list(route, "set-request-headers")
        .unwrap_or_default()
        .iter()
        .map(|field| format!(" {}", field.trim_end_matches(": 1")))
        .collect();
    let name = if port == 999 { "default".into() } else { (port - 1_000).to_string() };
    format!("backend {name}{fields}")
}
