//! Resource demands of a configuration, as numbers, to examine whether a machine fulfils them.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::model::{Address, Backend, CertificateEntry, Config, Service, Target, each_once};

/// Resources of the machine that a configuration needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceDemand {
    /// Worker threads; `None`: one for each CPU.
    pub threads: Option<usize>,
    /// Connections at once; `None`: as many as the limit on open files allows.
    pub max_connections: Option<usize>,
    /// Lists of compromised keys.
    pub weak_keys: Vec<PathBuf>,
    /// Files and folders with certificates and keys.
    pub certificates: Vec<PathBuf>,
    /// True if connections to some backends use TLS.
    pub backend_tls: bool,
    /// The backends of each service, of each rule that has its own, and of clients whose certificate fails.
    pub groups: Vec<GroupDemand>,
}

/// Source ports of the machine that a group of backends needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupDemand {
    /// The service or the rule, and whether it is for clients whose certificate fails: `service web`, `service web, rule 2, fallback-backend`.
    pub name: String,
    /// Connections of the service at once; `None`: only the process's limit.
    pub max_connections: Option<usize>,
    /// Backends that are reached over TCP, as they are written; one name can have several addresses.
    pub destinations: Vec<String>,
    /// Addresses of this machine that they are dialled from; 0: the clients' own.
    pub sources: u64,
}

impl From<&Config> for ResourceDemand {
    fn from(config: &Config) -> Self {
        let tls = config.services.iter().filter_map(|service| service.tls.as_ref());
        Self {
            threads: config.process.threads,
            max_connections: config.process.max_connections,
            weak_keys: config.process.weak_keys.clone(),
            certificates: tls.flat_map(|tls| &tls.certificates).flat_map(paths).collect(),
            backend_tls: config
                .services
                .iter()
                .flat_map(Service::routes)
                .any(|route| route.backends.tls.is_some()),
            groups: config.services.iter().flat_map(groups).collect(),
        }
    }
}

fn paths(source: &CertificateEntry) -> Vec<PathBuf> {
    let needs = source.on_disk().map(|source| source.needs()).unwrap_or_default();
    needs.files.into_iter().chain(needs.folders).collect()
}

fn groups(service: &Service) -> Vec<GroupDemand> {
    let group = |name: String, backends: &[Backend]| GroupDemand {
        name,
        max_connections: service.max_connections,
        destinations: match &service.connect_through {
            // All of them are reached through it.
            Some(through) => vec![through.proxy.to_string()],
            None => backends.iter().filter_map(over_tcp).collect(),
        },
        sources: service.source.addresses().unwrap_or(1),
    };
    let names_of_routes: HashMap<usize, &str> =
        service.request_routes().filter_map(|(index, route)| Some((index?, &*route.name))).collect();
    let names = || service.request_routes().map(|(_, route)| &*route.name);
    let forward_servers = names()
        .chain(["requests without a route"])
        .zip(service.auth_routes())
        .map(|(name, index)| (index, ("forward-auth", name)));
    let copied_to = names().zip(service.mirror_routes()).map(|(name, index)| (index, ("mirror", name)));
    let servers: HashMap<usize, (&str, &str)> =
        forward_servers.chain(copied_to).filter_map(|(index, server)| Some((index?, server))).collect();
    let name = |index: usize| match (index, names_of_routes.get(&index)) {
        _ if servers.contains_key(&index) => {
            let (what, route) = servers[&index];
            format!("service {}, {what} of {route}", service.name)
        }
        (0, _) => format!("service {}", service.name),
        (_, Some(route)) => format!("service {}, {route}", service.name),
        (rule, None) => format!("service {}, rule {rule}", service.name),
    };
    let routes = service.routes();
    let own = routes.iter().enumerate().map(|(index, route)| (name(index), &route.backends));
    let failed = routes.iter().enumerate().filter_map(|(index, route)| {
        Some((format!("{}, fallback-backend", name(index)), route.failed_client_backends.as_ref()?))
    });
    let sets = each_once(own.chain(failed), |(_, set)| Arc::as_ptr(&set.backends));
    sets.map(|(name, set)| group(name, &set.backends)).collect()
}

fn over_tcp(backend: &Backend) -> Option<String> {
    match &backend.target {
        Target::Address(Address::Unix(_)) => None,
        target => Some(target.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand(text: &str) -> ResourceDemand {
        let parsed = crate::parse("/etc/handfast/handfast.toml", text, &|_| false);
        let (config, _) = parsed.unwrap_or_else(|problems| panic!("{problems:?}"));
        ResourceDemand::from(&config)
    }

    #[test]
    fn backends_of_clients_whose_certificate_fails_are_counted_too() {
        let demand = demand(
            "[[service]]\nname = \"web\"\nlisten = \"127.0.0.1:1\"\nbackend = \"10.0.0.1:80\"\ncertificate = \"web.pem\"\n\
             client-certificates = { mode = \"request\", ca = \"ca.pem\", fallback-backend = \"10.0.0.2:80\" }\n\
             [[service.rule]]\nnames = \"a.example\"\nbackend = \"10.0.0.3:80\"\n[[service.rule]]\nnames = \"b.example\"\n\
             client-certificates = { mode = \"require\", ca = \"ca.pem\", fallback-backend = [\"10.0.0.4:80\", \"unix:/run/x.sock\"] }\n",
        );
        let found: Vec<_> =
            demand.groups.iter().map(|group| (group.name.as_str(), group.destinations.join(" "))).collect();
        let expected = [
            ("service web", "10.0.0.1:80"),
            ("service web, rule 1", "10.0.0.3:80"),
            ("service web, fallback-backend", "10.0.0.2:80"),
            ("service web, rule 2, fallback-backend", "10.0.0.4:80"),
        ];
        assert_eq!(found, expected.map(|(name, backends)| (name, backends.to_owned())));
    }

    #[test]
    fn backends_over_tcp_are_counted_for_each_service_and_rule() {
        let text = "[process]\nthreads = 3\nmax-connections = 1000\n\n[[service]]\nname = \"web\"\nlisten = \"127.0.0.1:1\"\n\
                    client-tls = false\nmax-connections = 900\nbackend = [\"10.0.0.1:80\", \"unix:/run/x.sock\", \"app.example.org:80\"]\n\
                    source = [\"10.0.0.8\", \"10.0.0.9\"]\n";
        let demand = demand(text);
        assert_eq!((demand.threads, demand.max_connections), (Some(3), Some(1000)));
        assert!(!demand.backend_tls);
        let [group] = &demand.groups[..] else { panic!("{demand:?}") };
        assert_eq!(group.name, "service web");
        assert_eq!((group.max_connections, group.sources), (Some(900), 2));
        assert_eq!(group.destinations, ["10.0.0.1:80", "app.example.org:80"]);
    }
}
