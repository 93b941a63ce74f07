//! Services in maintenance, and the clients that are served nevertheless.
//!
//! In: the maintenance that is in effect, by service. Out: the one that a client's request meets. Every thread has a copy: a request of a
//! connection from before has it at once, too.

use std::collections::HashMap;
use std::time::Duration;

use handfast_config::model::Maintenance;
use handfast_net::prefix::PrefixSet;

use super::gate::ClientAddress;

/// The services in maintenance, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct MaintenanceTable(HashMap<String, ServiceMaintenance>);

/// The maintenance of one service.
#[derive(Clone, Debug)]
pub(crate) struct ServiceMaintenance {
    allow: PrefixSet,
    /// Time after which clients should try again.
    pub(crate) retry_after: Duration,
}

impl MaintenanceTable {
    /// Makes the table of these services.
    pub(crate) fn new<'m>(services: impl Iterator<Item = (&'m str, &'m Maintenance)>) -> Self {
        let of_service = |(name, model): (&str, &Maintenance)| {
            let allow = model.allow.iter().copied().collect();
            (name.to_owned(), ServiceMaintenance { allow, retry_after: model.retry_after })
        };
        Self(services.map(of_service).collect())
    }

    /// Returns the maintenance of a service. **Cost**: one look-up, and nothing where no service is in maintenance.
    pub(crate) fn find(&self, service: &str) -> Option<&ServiceMaintenance> {
        self.0.get(service)
    }
}

impl ServiceMaintenance {
    /// Returns true if a client is served nevertheless. One whose address is not known is not.
    pub(crate) fn admits(&self, client: ClientAddress) -> bool {
        matches!(client, ClientAddress::Known(address) if self.allow.contains(address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_addresses_of_the_list_are_served_in_maintenance() {
        let maintenance =
            Maintenance { allow: vec!["10.0.0.0/8".parse().expect("a prefix")], ..Maintenance::default() };
        let table = MaintenanceTable::new([("web", &maintenance)].into_iter());
        assert!(table.find("shop").is_none());
        let web = table.find("web").expect("it is in maintenance");
        let known = |text: &str| ClientAddress::Known(text.parse().expect("an address"));
        assert!(web.admits(known("10.1.2.3")) && web.admits(known("::ffff:10.1.2.3")));
        for other in [known("11.0.0.1"), known("::1"), ClientAddress::Absent, ClientAddress::Unknown] {
            assert!(!web.admits(other), "{other:?}");
        }
    }
}
