//! What names a listener.

use handfast_config::model::Address;

/// A listener: the service that it belongs to, and its address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ListenerId {
    /// The name of the service.
    pub service: String,
    /// The address as the configuration has it.
    pub address: Address,
}

impl ListenerId {
    /// The listener of this service at this address.
    pub fn new(service: &str, address: &Address) -> Self {
        Self { service: service.to_owned(), address: address.clone() }
    }
}
