//! A configuration in sentences: what will listen, with which certificates, which clients it admits, and where it goes.
//!
//! In: the model, and what is known of the loaded certificates, if they were loaded. Out: a text for `handfast check
//! --explain`. Limits are named where they differ from the defaults.

use std::fmt::Write as _;
use std::time::Duration;

use handfast_text::units::counted;
use handfast_text::{duration, size};
use handfast_tls::ticket::KeySource;
use handfast_wire::starttls::Protocol;

use super::file::default_limits;
use super::model::{
    AccessLog, Address, Admission, CertificateEntry, Check, CheckKind, Clients, Config, ConnectThrough,
    HandshakeRate, Limits, MissingCloseNotify, PlainHttp, Process, ProxyProtocol, ProxySender, RequestRoute,
    RouteAction, SentCertificate, Service, ServiceRule, Source, Starttls, Tickets, Tls, TunnelKind,
    UnknownName,
};
use super::route_table::ANY_NAME;

mod host;
mod http;
mod phrases;
mod target;

pub use host::explain_host;
pub use phrases::CertificateFact;
use phrases::{
    addresses, backend, backend_tls, backends, certificate_fact, client_certificates, clients_at, list,
    place, policy, protocols, target,
};
pub use target::{ExplainRequest, ExplainTarget, ExplainTargetError};

/// Describes in sentences what a configuration does; `facts` adds the contents of the certificates' files.
pub fn explain(config: &Config, facts: &[CertificateFact]) -> String {
    let mut text = process(&config.process);
    let admin = match &config.admin {
        Some(address) => format!("Metrics, status and reload are at {}.", place(address)),
        None => "There is no admin listener: no metrics, no status.".to_owned(),
    };
    let to = match &config.access_log {
        AccessLog::Off => None,
        AccessLog::Stdout => Some("standard output".to_owned()),
        AccessLog::File(path) => Some(path.display().to_string()),
        AccessLog::Syslog(path) => Some(format!("syslog at {}", path.display())),
        AccessLog::Journald(path) => Some(format!("the journal at {}", path.display())),
    };
    let log = to.map_or("There is no access log.".to_owned(), |to| {
        format!("One line for each connection and HTTP request goes to {to}.")
    });
    let _ = writeln!(text, "{admin}\n{log}");
    if !config.access_log_redact.is_empty() {
        let names = list(&config.access_log_redact);
        let _ = writeln!(text, "The lines have no values of the parameters {names} in queries.");
    }
    if !config.process.weak_keys.is_empty() {
        let files = list(config.process.weak_keys.iter().map(|file| file.display()));
        let _ = writeln!(text, "Keys that are on the lists {files} are refused, on both sides.");
    }
    if config.process.private_keys_apart {
        text.push_str("Private keys are held by a separate process, which reads their files and signs.\n");
    }
    if !config.process.sandbox {
        text.push_str("The process has no sandbox.\n");
    }
    for (index, one) in config.services.iter().enumerate() {
        text.push('\n');
        text.push_str(&service(one, config.service_files.get(index), facts));
    }
    text
}

fn process(process: &Process) -> String {
    let threads = match process.threads {
        None => "One thread for each CPU".to_owned(),
        Some(1) => "One thread".to_owned(),
        Some(number) => counted(number as u64, "thread"),
    };
    let most = match process.max_connections {
        Some(most) => format!("at most {}", counted(most as u64, "connection")),
        None => "as many connections as the limit of open files allows".to_owned(),
    };
    let rights = match (&process.user, &process.group) {
        (None, _) => "keeping the rights it was started with".to_owned(),
        (Some(user), None) => format!("as user {user} once the listeners are bound"),
        (Some(user), Some(group)) => format!("as user {user} and group {group} once the listeners are bound"),
    };
    let verb = if process.threads == Some(1) || process.threads.is_none() { "serves" } else { "serve" };
    format!(
        "{threads} {verb} {most}, {rights}.\nA stop waits {} for connections to end, then cuts the rest. Changed files are \
         noticed at once, or after {} where the file system sends no notifications.\n",
        duration::written(process.drain),
        duration::written(process.watch_interval)
    )
}

fn service(service: &Service, file: Option<&String>, facts: &[CertificateFact]) -> String {
    let mut lines = vec![format!("Service {}", service.name)];
    lines.extend(file.map(|file| format!("is written in {file}")));
    lines.push(clients_at(service));
    if service.listen.iter().any(|address| matches!(address, Address::Unix(_))) {
        lines.push(format!("  with mode {:04o} for unix sockets", service.listen_mode));
    }
    let otherwise = match service.clients {
        Clients::Tls => None,
        Clients::PassedThrough => Some("passes the TLS of clients on as it is, without decrypting it"),
        Clients::Plain => Some("serves clients in plain text"),
    };
    lines.extend(otherwise.map(str::to_owned));
    let passes_through = service.clients == Clients::PassedThrough;
    if let Some(tls) = &service.tls {
        let of_tls = termination(service, tls, facts);
        if passes_through {
            lines
                .push("only where a rule ends the TLS of clients here, and says nothing else, it".to_owned());
            let of_rules = of_tls.into_iter().chain(service.backend_tls.as_ref().map(backend_tls));
            lines.extend(of_rules.map(|line| format!("  {line}")));
        } else {
            lines.extend(of_tls);
        }
    }
    if service.plain_http == PlainHttp::Redirect {
        lines.push("redirects plain HTTP on its port to https".to_owned());
    }
    lines.extend(proxy_headers(&service.proxy_protocol));
    let uses_backends = uses_backends(service);
    if uses_backends {
        lines.push(format!("goes to {}", backends(&service.backends, service.balance)));
    }
    if !service.slow_start.is_zero() {
        let after = duration::written(service.slow_start);
        lines.push(format!("gives a backend that came up again its whole share after {after}"));
    }
    lines.extend(service.connect_through.as_ref().map(connect_through));
    lines.extend(service.backend_tls.as_ref().filter(|_| !passes_through).map(backend_tls));
    lines.extend(source(&service.source));
    lines.extend(service.check.as_ref().map(check));
    lines.extend(service.rules.iter().map(|one| rule(one, uses_backends)));
    lines.extend(service.http.iter().flat_map(|http| http::http(service, http)));
    lines.extend(connections(service));
    lines.extend(admission(&service.admission));
    if service.missing_close_notify == MissingCloseNotify::End {
        lines.push("accepts a client's end without close_notify as a clean end".to_owned());
    }
    lines.extend(limits(&service.limits));
    lines.join("\n  ") + "\n"
}

fn termination(service: &Service, tls: &Tls, facts: &[CertificateFact]) -> Vec<String> {
    let mut lines = vec![match tls.certificates.len() {
        1 => "has the certificate of".to_owned(),
        number => format!("has the certificates of {number} places"),
    }];
    lines.extend(tls.certificates.iter().map(|source| format!("  {}", certificate(source))));
    let facts = facts.iter().filter(|fact| fact.service == service.name);
    lines.extend(facts.map(|fact| format!("  → {}", certificate_fact(fact))));
    lines.extend(service.starttls.as_ref().map(starttls));
    lines.push(match tls.unknown_name {
        UnknownName::First => "answers an unknown name with the first certificate".to_owned(),
        UnknownName::Refuse => "refuses an unknown name".to_owned(),
    });
    lines.push(format!("speaks TLS with {}", policy(&tls.policy)));
    lines.push(protocols(&tls.alpn));
    lines.extend(client_certificates(&tls.client_certificates));
    lines.push(tickets(&tls.tickets));
    lines
}

fn connect_through(through: &ConnectThrough) -> String {
    let user = through.login.as_ref().map(|(user, _)| format!(" as {user}")).unwrap_or_default();
    let kind = match through.kind {
        TunnelKind::Http => "HTTP",
        TunnelKind::Socks5 => "SOCKS5",
    };
    let proxy = target(&through.proxy);
    format!(
        "asks the {kind} proxy {proxy} for a connection to them{user}; their names are not looked up here"
    )
}

fn starttls(starttls: &Starttls) -> String {
    let protocol = starttls.protocol;
    let name = starttls.name.as_deref().map_or("the machine's name".to_owned(), |name| format!("`{name}`"));
    let also = if protocol.server_speaks_first() { "" } else { ", or begin TLS at once" };
    let how = match protocol {
        Protocol::MySql => "with the greeting of a backend".to_owned(),
        Protocol::Ldap | Protocol::PostgreSql => "for itself".to_owned(),
        _ => format!("as {name}"),
    };
    format!(
        "expects that clients ask for TLS in {protocol} (STARTTLS){also}; answers them {how}, and nothing before TLS goes further"
    )
}

fn certificate(source: &CertificateEntry) -> String {
    match source {
        CertificateEntry::File { certificate, key, ocsp } => {
            let key = key.as_ref().map_or("the same file".to_owned(), |key| key.display().to_string());
            let ocsp = ocsp.as_ref().map(|ocsp| format!(", OCSP response in {}", ocsp.display()));
            format!("{}, key in {key}{}", certificate.display(), ocsp.unwrap_or_default())
        }
        CertificateEntry::Folder(path) => format!("every file in the folder {}", path.display()),
        CertificateEntry::Acme { names, .. } => {
            format!("certificates that are ordered (ACME) for {}", list(names))
        }
        CertificateEntry::Throwaway { ca_file } => {
            format!("a throwaway certificate for localhost; clients trust it with {}", ca_file.display())
        }
    }
}

fn tickets(tickets: &Tickets) -> String {
    let Tickets { per_handshake, key_source, rotate, lifetime } = tickets;
    if *per_handshake == 0 {
        return "issues no tickets: each handshake is a full one".to_owned();
    }
    let kept = match key_source {
        KeySource::File(file) => format!("kept in {}", file.display()),
        KeySource::Memory => "kept in memory, so a restart makes them useless".to_owned(),
        KeySource::Fleet => "shared with the machines of the fleet".to_owned(),
    };
    format!(
        "issues {per_handshake} ticket{} a full handshake, good for {}, by keys that change every {} and are {kept}",
        if *per_handshake == 1 { "" } else { "s" },
        duration::written(*lifetime),
        duration::written(*rotate)
    )
}

fn check(check: &Check) -> String {
    let Check { kind, interval, timeout, rise, fall, port, .. } = check;
    let request = match kind {
        CheckKind::Tcp => "opens a connection to each backend".to_owned(),
        CheckKind::Tls => "shakes hands with each backend over TLS".to_owned(),
        CheckKind::Http { path, .. } => format!("asks each backend for {path} over HTTP"),
        CheckKind::SendExpect { send, .. } if send.is_empty() => {
            "opens a connection to each backend and waits for its greeting".to_owned()
        }
        CheckKind::SendExpect { .. } => "asks each backend for an answer".to_owned(),
    };
    let port = port.map(|port| format!(" at port {port}")).unwrap_or_default();
    format!(
        "{request}{port} every {} and waits {} for it; uses none that failed {} in a row, until {} in a row passed",
        duration::written(*interval),
        duration::written(*timeout),
        counted((*fall).into(), "time"),
        rise
    )
}

/// Returns true if something goes where its connection goes; otherwise requests have backends of their routes, or none.
fn uses_backends(service: &Service) -> bool {
    let passes_through = |rule: &ServiceRule| rule.pass_through == Some(true);
    let inherits = |route: &RequestRoute| matches!(route.action, RouteAction::Inherit);
    service.http.as_ref().is_none_or(|http| {
        !http.routes.iter().any(RequestRoute::matches_all) || http.routes.iter().any(inherits)
    }) || service.clients == Clients::PassedThrough
        || service.rules.iter().any(passes_through)
}

/// `uses_backends`: something goes where its connection goes.
fn rule(rule: &ServiceRule, uses_backends: bool) -> String {
    let backends = rule.backends.iter().filter(|_| uses_backends);
    let mut parts: Vec<_> =
        backends.map(|backends| format!("goes to {}", list(backends.iter().map(backend)))).collect();
    parts.extend(rule.client_certificates.iter().flat_map(client_certificates));
    parts.extend(rule.policy.as_ref().map(|rule| format!("speaks TLS with {}", policy(rule))));
    parts.extend(rule.alpn.as_deref().map(protocols));
    parts.extend(rule.pass_through.map(|passes| {
        let words = if passes { "passes their TLS on as it is" } else { "ends their TLS here" };
        words.to_owned()
    }));
    parts.extend(rule.backend_tls.as_ref().filter(|_| uses_backends).map(|tls| {
        tls.as_ref().map_or_else(|| "speaks plain text with its backends".to_owned(), backend_tls)
    }));
    if parts.is_empty() {
        parts.push("does the same as the service, whatever later rules say".to_owned());
    }
    let named = |name: &String| if name == ANY_NAME { "every other name".to_owned() } else { name.clone() };
    let (names, protocols) = (list(rule.names.iter().map(named)), list(&rule.client_alpn));
    let subject = match (rule.names.is_empty(), rule.client_alpn.is_empty()) {
        (false, true) => names,
        (true, _) => format!("clients that offer {protocols}"),
        (false, false) => format!("{names} if the client offers {protocols}"),
    };
    format!("for {subject} it {}", parts.join("; it "))
}

fn proxy_headers(headers: &ProxyProtocol) -> Vec<String> {
    let mut lines = Vec::new();
    let senders = headers.accept_from.iter().map(|sender| match sender {
        ProxySender::Prefix(prefix) => prefix.to_string(),
        ProxySender::Unix => "its unix sockets".to_owned(),
    });
    let senders = addresses(&senders.collect::<Vec<_>>(), &headers.accept_from_files);
    if !senders.is_empty() {
        lines.push(format!("demands a PROXY header from {senders}, and believes it"));
    }
    if let Some(sent) = headers.send {
        let certificate = match headers.client_certificate {
            SentCertificate::Off => "",
            SentCertificate::CommonName => ", with the Common Name of the client's certificate",
            SentCertificate::Der => ", with the client's certificate",
            SentCertificate::Hitch => ", with the client's certificate as hitch sends it",
        };
        lines.push(format!("sends backends {sent}{certificate}"));
    }
    lines
}

fn connections(service: &Service) -> Vec<String> {
    let limits = [(service.max_connections, ""), (service.max_connections_per_address, " for one address")];
    let sentence = |(most, of): (Option<usize>, &str)| {
        Some(format!("serves at most {}{of}", counted(most? as u64, "connection")))
    };
    limits.into_iter().filter_map(sentence).collect()
}

fn source(source: &Source) -> Option<String> {
    match source {
        Source::Route => None,
        Source::Own(own) => Some(format!("dials them from {}, in turn", list(own))),
        Source::Client => Some("dials them from the client's own address (transparent)".to_owned()),
    }
}

/// Describes the clients that a service admits by address.
fn admission(admission: &Admission) -> Vec<String> {
    let Admission { allow, allow_files, refuse, refuse_files, rate } = admission;
    let (only, none) = (addresses(allow, allow_files), addresses(refuse, refuse_files));
    let clients = match (only.is_empty(), none.is_empty()) {
        (true, true) => None,
        (true, false) => Some(format!("resets clients from {none}")),
        (false, true) => Some(format!("serves only clients from {only}")),
        (false, false) => Some(format!("serves only clients from {only}, but none from {none}")),
    };
    let rate = rate.map(|HandshakeRate { per_second, burst, prefix_v4, prefix_v6 }| {
        let each = if (prefix_v4, prefix_v6) == (32, 64) {
            "address".to_owned()
        } else {
            format!("/{prefix_v4} of IPv4 and each /{prefix_v6} of IPv6")
        };
        let (each_second, at_once) =
            (counted(u64::from(per_second), "new handshake"), counted(u64::from(burst), "handshake"));
        format!("begins at most {each_second} a second for each {each}, {at_once} at once")
    });
    clients.into_iter().chain(rate).collect()
}

/// The limits that differ from the defaults.
fn limits(limits: &Limits) -> Option<String> {
    let pairs = in_words(limits).into_iter().zip(in_words(&default_limits()));
    let pairs = pairs.filter(|(limit, normal)| limit != normal);
    let different: Vec<String> = pairs.map(|((name, value), _)| format!("{name} {value}")).collect();
    (!different.is_empty()).then(|| format!("has its own limits: {}", different.join(", ")))
}

fn in_words(limits: &Limits) -> [(&'static str, String); 12] {
    let span = |value: Duration, zero: &str| {
        if value.is_zero() { zero.to_owned() } else { duration::written(value) }
    };
    [
        ("handshake", span(limits.handshake, "none")),
        ("hello", size::written(limits.hello_bytes as u64)),
        ("connect", span(limits.connect, "none")),
        ("idle", span(limits.idle, "none")),
        ("half-closed", span(limits.half_closed, "none")),
        ("half-closed-client", span(limits.backend_ended, "none")),
        ("lifetime", span(limits.lifetime, "none")),
        ("tcp-user-timeout", span(limits.unacknowledged, "none")),
        ("tcp-keepalive", span(limits.keepalive, "none")),
        ("resolve", span(limits.resolve, "ttl")),
        ("backend-failures", limits.backend_failures.to_string()),
        ("backend-retry", span(limits.backend_retry, "none")),
    ]
}

#[cfg(test)]
mod tests;
