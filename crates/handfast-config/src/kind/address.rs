//! The types of values that name machines: listeners, backends, server names, and the protocols spoken there.
//!
//! In: one value of the parsed tree. Out: addresses and names, never resolved. What is allowed in the texts is in
//! `scalar.rs`.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use handfast_net::prefix::{Prefix, PrefixError};
use toml::de::DeValue;

use super::path::file;
use crate::keys::backend_values as keys;
use crate::model::{self, Address, ProxySender, Target};
use crate::problem::{Fault, shortened};
use crate::reading::{Item, Reading};
use crate::route_table::ANY_NAME;
use crate::scalar;
use crate::schema::{Shape, ValueKind};
use crate::table::Table;

pub(crate) struct ListenAddress;

impl ValueKind for ListenAddress {
    type Value = Address;
    const FORM: &'static str = "text, such as `\"*:8443\"`";
    const ALLOWED: &'static str =
        "`127.0.0.1:8443`, `[::1]:8443`, `*:8443` (IPv6 and IPv4), `unix:/run/x.sock`";

    fn parse(&self, item: &Item<'_>, reading: &Reading<'_>) -> Result<Address, Fault> {
        if let DeValue::Integer(port) = item.value {
            return Err(self.wrong_type(item).hint(format!("write `\"*:{port}\"`")));
        }
        scalar::listen_address(self.text(item)?, reading.folder(item))
    }
}

pub(crate) struct AdminAddress;

impl ValueKind for AdminAddress {
    type Value = Option<Address>;
    const FORM: &'static str = "text";
    const ALLOWED: &'static str = "an address as for a service's `listen`, or `off`";

    fn parse(&self, item: &Item<'_>, reading: &Reading<'_>) -> Result<Option<Address>, Fault> {
        match item.value.as_str() {
            Some("off") => Ok(None),
            _ => ListenAddress.parse(item, reading).map(Some),
        }
    }
}

pub(crate) struct Backend;

impl ValueKind for Backend {
    type Value = Target;
    const FORM: &'static str = "text, such as `\"127.0.0.1:8080\"`";
    const ALLOWED: &'static str =
        "`127.0.0.1:8080`, `[::1]:8080`, `backend.example:8080`, `unix:/run/x.sock`";

    fn parse(&self, item: &Item<'_>, reading: &Reading<'_>) -> Result<Target, Fault> {
        scalar::target(self.text(item)?, reading.folder(item))
    }
}

/// A backend, or a table with more about it.
pub(crate) struct BackendEntry;

impl ValueKind for BackendEntry {
    type Value = model::Backend;
    const FORM: &'static str = "text, such as `\"127.0.0.1:8080\"`, or `{ address = \"127.0.0.1:8080\", weight = 3, backup = true }`, or `{ program = [\"/usr/bin/rsync\", \"--daemon\"] }`";
    const ALLOWED: &'static str = Backend::ALLOWED;

    fn shape(&self) -> Shape {
        Shape::text_or(&keys::BACKEND_TABLE)
    }

    fn read(&self, item: &Item<'_>, reading: &Reading<'_>) -> Option<model::Backend> {
        let DeValue::Table(entries) = item.value else {
            return Backend.read(item, reading).map(model::Backend::from);
        };
        let table = Table::open(&keys::BACKEND_TABLE, entries, item.span.clone(), reading);
        let target = match (table.written(&keys::BACKEND_PROGRAM), table.written(&keys::BACKEND_ADDRESS)) {
            (Some(_), Some(_)) => {
                let fault = Fault::new("a backend is either at an `address`, or a `program`");
                table.error(&keys::BACKEND_PROGRAM, fault.hint("write two backends"));
                None
            }
            (Some(_), None) => table.optional(&keys::BACKEND_PROGRAM).map(Target::Program),
            (None, _) => table.required(&keys::BACKEND_ADDRESS),
        };
        let (weight, backup) = (table.or_default(&keys::WEIGHT), table.or_default(&keys::BACKUP));
        Some(model::Backend { target: target?, weight, backup })
    }
}

pub(crate) struct AddressPrefix;

impl ValueKind for AddressPrefix {
    type Value = Prefix;
    const FORM: &'static str = "text, such as `\"10.0.0.0/8\"`";
    const ALLOWED: &'static str = "`10.0.0.0/8`, `2001:db8::/32`, or one address such as `192.0.2.7`";

    fn parse(&self, item: &Item<'_>, _: &Reading<'_>) -> Result<Prefix, Fault> {
        let fault =
            |error: PrefixError| Fault::new(error.what()).allowed(error.expected()).maybe_hint(error.hint());
        self.text(item)?.parse::<Prefix>().map_err(fault)
    }
}

/// A sender of PROXY headers: an address, a prefix, or `unix`.
pub(crate) struct ProxySenders;

impl ValueKind for ProxySenders {
    type Value = ProxySender;
    const FORM: &'static str = AddressPrefix::FORM;
    const ALLOWED: &'static str = "`10.0.0.0/8`, `192.0.2.7`, `2001:db8::/32`, or `unix`";

    fn parse(&self, item: &Item<'_>, reading: &Reading<'_>) -> Result<ProxySender, Fault> {
        if item.value.as_str() == Some("unix") {
            return Ok(ProxySender::Unix);
        }
        let prefix = AddressPrefix.parse(item, reading).map(ProxySender::Prefix);
        prefix.map_err(|fault| fault.allowed(self.allowed()))
    }
}

/// An item of a list, or a file with more of them.
pub(crate) struct OrFile<K>(pub(crate) K);

/// A value of [`OrFile`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ItemOrFile<T> {
    Item(T),
    File(PathBuf),
}

/// The beginning of a text that names a file with addresses.
const FILE: &str = "file:";

impl<K: ValueKind<Value: PartialEq>> ValueKind for OrFile<K> {
    type Value = ItemOrFile<K::Value>;

    fn form(&self) -> String {
        format!("{}, or a file of addresses, such as `\"file:addresses.txt\"`", self.0.form())
    }

    fn allowed(&self) -> String {
        self.0.allowed()
    }

    fn parse(&self, item: &Item<'_>, reading: &Reading<'_>) -> Result<Self::Value, Fault> {
        match self.text(item)?.strip_prefix(FILE) {
            Some(path) => file(path, item, reading).map(ItemOrFile::File),
            None => self.0.parse(item, reading).map(ItemOrFile::Item),
        }
    }
}

/// An address that connections to backends come from.
pub(crate) struct SourceAddress;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SourceItem {
    Client,
    Own(IpAddr),
}

impl ValueKind for SourceAddress {
    type Value = SourceItem;
    const FORM: &'static str = "text, such as `\"10.0.0.5\"`";
    const ALLOWED: &'static str = "addresses of this machine, without a port; or `client` alone";

    fn parse(&self, item: &Item<'_>, _: &Reading<'_>) -> Result<SourceItem, Fault> {
        let text = self.text(item)?;
        if text == "client" {
            return Ok(SourceItem::Client);
        }
        let wrong = |what: &str| Fault::new(format!("`{}` {what}", shortened(text))).allowed(self.allowed());
        match text.parse::<IpAddr>().map(|ip| ip.to_canonical()) {
            Ok(ip) if ip.is_unspecified() => Err(wrong("is every address, and a connection has one")
                .hint("leave `source` away to let the kernel choose")),
            Ok(ip) if ip.is_multicast() => Err(wrong("cannot be the source of a connection")),
            Ok(ip) => Ok(SourceItem::Own(ip)),
            Err(_) => {
                let without_port = text.parse::<SocketAddr>().ok().map(|address| address.ip());
                let without_length = text.split_once('/').and_then(|(ip, _)| ip.parse::<IpAddr>().ok());
                let cure = without_port.or(without_length).map(|ip| format!("write `{ip}`"));
                Err(wrong("is no source address").maybe_hint(cure))
            }
        }
    }
}

pub(crate) struct NamePattern;

impl ValueKind for NamePattern {
    type Value = String;
    const FORM: &'static str = "text, such as `\"www.example.org\"`";
    const ALLOWED: &'static str = "a name, or a wildcard such as `*.example.org`";

    fn parse(&self, item: &Item<'_>, _: &Reading<'_>) -> Result<String, Fault> {
        scalar::name_pattern(self.text(item)?)
    }
}

/// A name that a rule is for.
pub(crate) struct RuleName;

impl ValueKind for RuleName {
    type Value = String;
    const FORM: &'static str = NamePattern::FORM;
    const ALLOWED: &'static str = "a name, a wildcard such as `*.example.org`, or `*`";

    fn parse(&self, item: &Item<'_>, reading: &Reading<'_>) -> Result<String, Fault> {
        match self.text(item)? {
            ANY_NAME => Ok(ANY_NAME.to_owned()),
            _ => NamePattern.parse(item, reading),
        }
    }
}

pub(crate) struct Protocol;

impl ValueKind for Protocol {
    type Value = String;
    const FORM: &'static str = "text, such as `\"http/1.1\"`";
    const ALLOWED: &'static str = "protocols as in IANA's list of ALPN protocol IDs";

    fn parse(&self, item: &Item<'_>, reading: &Reading<'_>) -> Result<String, Fault> {
        let protocol = scalar::protocol(self.text(item)?)?;
        if let Some(odd) = scalar::odd_protocol(&protocol) {
            reading.warning(&item.span, odd);
        }
        Ok(protocol)
    }
}

/// Returns true if an address can only be reached from this machine.
pub(crate) fn is_local(address: &Address) -> bool {
    match address {
        Address::Ip(address) => address.ip().is_loopback(),
        Address::Unix(_) => true,
    }
}
