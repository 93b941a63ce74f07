//! Settings that rules inherit, over every combination of those that they can set.

use super::*;
use crate::model::Target;
use crate::parse;

/// Rules of the service: each one sets what its index has bits for.
const RULES: usize = 30;

const SERVICE: &str = "[[service]]\nname = \"web\"\nlisten = \"127.0.0.1:1\"\nbackend = \"10.0.0.1:80\"\ncertificate = \"web.pem\"\n\
     alpn = [\"h2\"]\nclient-certificates = { mode = \"require\", ca = \"all.pem\", fallback-backend = \"10.0.0.3:80\" }\n\
     backend-tls = { name = \"service.example\" }\n";

const OWN: [&str; 5] = [
    "versions = [\"1.3\"]\n",
    "alpn = [\"imap\"]\n",
    "client-certificates = { mode = \"request\", ca = \"own.pem\" }\n",
    "backend = \"10.0.0.2:80\"\n",
    "backend-tls = { name = \"rule.example\" }\n",
];

fn service(text: &str) -> Service {
    let parsed = parse("/etc/handfast/handfast.toml", text, &|_| false);
    let (config, _) = parsed.unwrap_or_else(|problems| panic!("{problems:#?}"));
    config.services[0].clone()
}

fn has(index: usize, bit: usize) -> bool {
    index >> bit & 1 == 1
}

#[test]
fn a_rule_has_what_it_sets_and_inherits_the_rest() {
    let rule = |index: usize| -> String {
        let own: String =
            OWN.iter().enumerate().filter(|(bit, _)| has(index, *bit)).map(|(_, own)| *own).collect();
        format!("[[service.rule]]\nnames = \"r{index}.example\"\n{own}")
    };
    let service = service(&(SERVICE.to_owned() + &(1..=RULES).map(rule).collect::<String>()));
    let routes = service.routes();
    assert_eq!(routes.len(), RULES + 1);
    for (index, route) in routes.iter().enumerate() {
        let picked = |bit, of_service, of_rule| if has(index, bit) { of_rule } else { of_service };
        let tls = route.tls.as_ref().expect("TLS ends here");
        assert_eq!(tls.policy.versions.is_some(), has(index, 0), "{index}");
        assert_eq!(tls.alpn, [picked(1, "h2", "imap")], "{index}");
        let (_, checks) = tls.client_certificates.checks().expect("they are requested");
        assert!(checks.trust.file().unwrap().ends_with(picked(2, "all.pem", "own.pem")), "{index}");
        // The first route with the same three settings is the one with no other.
        assert_eq!(tls.first_route, index & 0b111, "{index}");
        assert!(Arc::ptr_eq(tls, routes[index & 0b111].tls.as_ref().expect("TLS ends here")), "{index}");
        let BackendSet { backends, tls } = &route.backends;
        let of_service = &routes[0].backends;
        assert_eq!(backends[0].target.to_string(), picked(3, "10.0.0.1:80", "10.0.0.2:80"), "{index}");
        assert_eq!(Arc::ptr_eq(backends, &of_service.backends), !has(index, 3), "{index}");
        let tls = tls.as_ref().expect("they have TLS");
        assert_eq!(tls.name.as_deref(), Some(picked(4, "service.example", "rule.example")), "{index}");
        let first = &routes[index & 0b10000].backends.tls;
        assert!(first.as_ref().is_some_and(|first| Arc::ptr_eq(first, tls)), "{index}");
        assert_eq!(route.failed_client_backends.is_some(), !has(index, 2), "{index}");
        assert!(route.failed_client_backends.iter().all(|set| set.tls.is_none()), "{index}");
    }
    // Lists of rules are separate even where they are alike, and come before those of failed clients.
    let sets: Vec<Target> =
        service.backend_sets().into_iter().map(|set| set.backends[0].target.clone()).collect();
    let of_rules = (1..=RULES).filter(|index| has(*index, 3)).count();
    assert_eq!(sets.len(), 1 + of_rules + 1);
    assert_eq!(sets[sets.len() - 1].to_string(), "10.0.0.3:80");
}

/// Tickets of before an upgrade are bound to the names of the first route, so its index must not depend on where TLS ends.
#[test]
fn a_rule_that_ends_tls_of_a_service_that_does_not_has_the_services_settings() {
    let text = "[[service]]\nname = \"web\"\nlisten = \"127.0.0.1:1\"\nbackend = \"10.0.0.1:443\"\ncertificate = \"web.pem\"\n\
                pass-through = true\nbackend-tls = { name = \"service.example\" }\n\
                [[service.rule]]\nnames = \"a.example\"\npass-through = false\n[[service.rule]]\nnames = \"b.example\"\n";
    let routes = service(text).routes();
    let ends: Vec<_> = routes.iter().map(|route| route.tls.as_ref().map(|tls| tls.first_route)).collect();
    assert_eq!(ends, [None, Some(0), None]);
    let has_tls: Vec<_> = routes.iter().map(|route| route.backends.tls.is_some()).collect();
    assert_eq!(has_tls, [false, true, false]);
    assert!(routes.iter().all(|route| Arc::ptr_eq(&route.backends.backends, &routes[0].backends.backends)));
}
