//! Health checks of the backends of a state.

use std::sync::Arc;

use super::State;
use crate::backends::checks::CheckPlan;
use crate::backends::names::Addresses;
use crate::backends::tunnel::{DialAddress, dial_addresses};
use handfast_config::model::{Address, Target, each_once};

/// The checks of a state: each backend of a service once, those of its rules and of clients whose certificate fails too. In a service without
/// checks, the results of earlier checks are forgotten.
pub(crate) fn check_plans(state: &State, addresses: &Addresses) -> Vec<CheckPlan> {
    let mut plans: Vec<CheckPlan> = Vec::new();
    for service in &state.services {
        // With the TLS that connections to them use.
        // Servers that are asked about requests are not the service's own, and its checks are none for them.
        let routes = service.routes.iter().take(service.model.backend_routes());
        let own = routes.clone().map(|route| (&route.route.backends.backends, route.backend_tls.as_ref()));
        let failed = routes.filter_map(|route| route.route.failed_client_backends.as_ref());
        let sets = own.chain(failed.map(|set| (&set.backends, None)));
        let sets = each_once(sets, |(backends, _)| Arc::as_ptr(backends));
        let backends = sets.flat_map(|(backends, tls)| backends.iter().map(move |backend| (backend, tls)));
        let begin = plans.len();
        let check = service.model.check.as_ref().map(|check| Arc::new(check.clone()));
        let service_name: Arc<str> = service.model.name.as_str().into();
        let source = Arc::new(service.model.source.clone());
        for (backend, tls) in backends {
            let through = service.model.connect_through.as_ref();
            for place in dial_addresses(&backend.target, through, &state.own_targets, addresses) {
                let standing = service.standings.of(&place.name);
                let Some(check) = &check else {
                    standing.clear_check_result();
                    continue;
                };
                if plans[begin..].iter().any(|known| known.name == place.name) {
                    continue;
                }
                let host = match &backend.target {
                    Target::Address(Address::Unix(_)) => "localhost".to_owned(),
                    target => target.to_string(),
                };
                let tls = tls.filter(|_| !check.plain);
                let tls = tls.map(|tls| (Arc::clone(tls), place.host()));
                // Another port is another server.
                let header = service.model.proxy_protocol.send.filter(|_| check.port.is_none());
                let DialAddress { name, address, destination: behind, .. } = place.at(check.port);
                plans.push(CheckPlan {
                    service: Arc::clone(&service_name),
                    name,
                    address,
                    destination: behind,
                    through: service.through.clone(),
                    host,
                    header,
                    tls,
                    check: Arc::clone(check),
                    source: Arc::clone(&source),
                    standing,
                });
            }
        }
    }
    plans
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::state::{CarriedOver, build};
    use crate::testing::Folder;

    /// A check over the service's TLS would always fail there: connections of such clients have none.
    #[test]
    fn backends_of_clients_whose_certificate_fails_are_checked_in_plain_text() {
        let more = "client-certificates = { mode = \"request\", ca = \"web.pem\", fallback-backend = \"127.0.0.1:2\" }\n\
                    backend-tls = { ca = \"web.pem\", name = \"localhost\" }\ncheck = { type = \"tcp\" }\n";
        let service = format!(
            "[admin]\nlisten = \"off\"\n[access-log]\nto = \"off\"\n[[service]]\nname = \"web\"\nlisten = \"127.0.0.1:0\"\n\
             backend = \"127.0.0.1:1\"\ncertificate = \"web.pem\"\n{more}"
        );
        let folder = Folder::new();
        let (config, _) = folder.configure_as(&service, &[]).read(false).expect("it is right");
        let built = build(config, 1, None, &mut CarriedOver::with_threads(1), SystemTime::now());
        let state = built.state.unwrap_or_else(|| panic!("{:?}", built.report));
        let plans = check_plans(&state, &Addresses::default());
        let found: Vec<_> = plans.iter().map(|plan| (plan.name.as_str(), plan.tls.is_some())).collect();
        assert_eq!(found, [("127.0.0.1:1", true), ("127.0.0.1:2", false)]);
    }
}
