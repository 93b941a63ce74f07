//! From `[service.proxy-protocol]` to the model, with what contradicts what is around it.

use super::admission::split;
use crate::keys;
use crate::model::{Address, ProxyProtocol, ProxySender, SentCertificate, SentHeader};
use crate::problem::Fault;
use crate::reading::{Written, values};
use crate::table::Table;

/// Returns true if proxies in front may report the addresses of clients.
pub(super) fn names_clients(service: &Table<'_>) -> bool {
    service.inner(&keys::PROXY_PROTOCOL).written(&keys::ACCEPT_FROM).is_some()
        || service.inner(&keys::HTTP).written(&keys::TRUST_FORWARDED_FROM).is_some()
}

/// `requests_certificates`: the service or one of its rules requests client certificates.
pub(super) fn proxy_protocol(
    service: &Table<'_>,
    listen: &[Written<Address>],
    requests_certificates: bool,
) -> ProxyProtocol {
    let section = service.inner(&keys::PROXY_PROTOCOL);
    let (senders, accept_from_files) = split(section.optional(&keys::ACCEPT_FROM));
    let read = ProxyProtocol {
        accept_from: values(senders.clone()),
        accept_from_files,
        send: section.or_default(&keys::SEND),
        client_certificate: section.or_default(&keys::SEND_CLIENT_CERTIFICATE),
    };
    let nothing = section.written(&keys::ACCEPT_FROM).is_none() && section.written(&keys::SEND).is_none();
    if section.is_written() && nothing {
        let fault = Fault::new("[service.proxy-protocol] has no effect without `accept-from` or `send`");
        section.reading().warning(section.span(), fault.hint("add one of them, or remove the section"));
    }
    if !listen.is_empty() {
        let have_addresses = listen.iter().any(|address| matches!(address.value, Address::Ip(_)));
        let claim = "each must send a header, and can claim any address";
        check_senders(&section, &senders, listen, have_addresses, claim);
    }
    check_certificate(&section, &read, requests_certificates);
    read
}

/// Warns about senders that match no client, and those that match every client; `claim`: what is wrong about those.
pub(super) fn check_senders(
    section: &Table<'_>,
    senders: &[Written<ProxySender>],
    listen: &[Written<Address>],
    have_addresses: bool,
    claim: &str,
) {
    let unix = |address: &Written<Address>| matches!(address.value, Address::Unix(_));
    for sender in senders {
        let fault = match sender.value {
            ProxySender::Unix if !listen.iter().any(unix) => {
                Fault::new("`unix` has no effect: no listener is a unix socket")
            }
            ProxySender::Prefix(prefix) if !have_addresses => {
                Fault::new(format!("`{prefix}` has no effect: clients of unix sockets have no address"))
                    .hint("write `\"unix\"`")
            }
            ProxySender::Prefix(prefix) if prefix.length() == 0 => {
                Fault::new(format!("`{prefix}` covers every client: {claim}"))
                    .hint("list the addresses of the proxies in front")
            }
            _ => continue,
        };
        section.reading().warning(&sender.span, fault);
    }
}

/// Reports a client certificate that cannot be sent, or that no client is requested to show.
fn check_certificate(section: &Table<'_>, read: &ProxyProtocol, requests_certificates: bool) {
    if read.client_certificate == SentCertificate::Off {
        return;
    }
    let key = &keys::SEND_CLIENT_CERTIFICATE;
    if read.send != Some(SentHeader::V2) {
        let fault = Fault::new("only headers of version 2 can say something of the client's certificate");
        section.error(key, fault.hint("add `send = \"v2\"`, or remove `client-certificate`"));
    } else if !requests_certificates {
        let fault = Fault::new("`client-certificate` has no effect: clients are not asked for certificates");
        section.warn(key, fault.hint("add [service.client-certificates]"));
    }
}
