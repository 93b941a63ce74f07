//! Which backends of a state are checked, and how.

use std::sync::Arc;

use super::State;
use crate::backends::checks::CheckPlan;
use crate::backends::names::Addresses;
use crate::backends::tunnel::{Place, places};
use crate::config::model::{Address, Target, each_once};

/// Everything that a state has to be checked, each backend of a service once, those of its rules too. What a service without
/// checks has from one that had them is taken back.
pub(crate) fn check_plans(state: &State, addresses: &Addresses) -> Vec<CheckPlan> {
    let mut plans: Vec<CheckPlan> = Vec::new();
    for service in &state.services {
        // With the TLS that connections to them use.
        let routes = service.routes.iter().zip(&service.dialling);
        let sets = each_once(routes, |(route, _)| Arc::as_ptr(&route.backends.backends));
        let backends =
            sets.flat_map(|(route, tls)| route.backends.backends.iter().map(move |backend| (backend, tls)));
        let begin = plans.len();
        let check = service.model.check.as_ref().map(|check| Arc::new(check.clone()));
        let service_name: Arc<str> = service.model.name.as_str().into();
        let source = Arc::new(service.model.source.clone());
        for (backend, tls) in backends {
            let through = service.model.connect_through.as_ref();
            for place in places(&backend.target, through, state.built_in.as_ref(), addresses) {
                let standing = service.standings.of(&place.name);
                let Some(check) = &check else {
                    standing.is_not_checked();
                    continue;
                };
                if plans[begin..].iter().any(|known| known.name == place.name) {
                    continue;
                }
                let host = match &backend.target {
                    Target::Address(Address::Unix(_)) => "localhost".to_owned(),
                    target => target.to_string(),
                };
                let tls = tls.as_ref().filter(|_| !check.plain);
                let tls = tls.map(|tls| (Arc::clone(tls), place.host()));
                // Another port is another server.
                let header = service.model.proxy_protocol.send.filter(|_| check.port.is_none());
                let Place { name, address, behind } = place.at(check.port);
                plans.push(CheckPlan {
                    service: Arc::clone(&service_name),
                    name,
                    address,
                    behind,
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
