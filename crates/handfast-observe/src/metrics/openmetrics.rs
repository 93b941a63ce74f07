//! A snapshot as text for Prometheus and everything that reads the same format.
//!
//! In: a [`Snapshot`]. Out: OpenMetrics text, version 1.0.0, or the format before it. A histogram that has counted nothing is left out.
//! Names begin with `handfast_` (those every process has, with `process_`), units are seconds and bytes. No label holds what a peer chose.

use std::collections::BTreeMap;
use std::fmt;
use std::time::SystemTime;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use super::backend::BackendSnapshot;
use super::configured::NameSnapshot;
use super::handshakes::{BACKEND_PHASES, HandshakeSnapshot, PHASES};
use super::service::ServiceSnapshot;
use super::snapshot::Snapshot;

mod families;
mod format;
mod revocation;
mod threads;

use families::{Families, NONE, unix_seconds};
pub use format::Format;

/// Writes a snapshot as OpenMetrics text.
///
/// **Cost:** some 30 lines for each histogram that has counted something, which is most of it: 33 services with two backends each take
/// 130 KB at the start, and 600 KB when each of them has been used.
pub fn openmetrics(snapshot: Snapshot) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(snapshot));
    let mut text = String::new();
    // Writing to a string cannot fail; a number beyond the format's would, and then the scrape is empty rather than wrong.
    match text::encode(&mut text, &registry) {
        Ok(()) => text,
        Err(fmt::Error) => "# EOF\n".to_owned(),
    }
}

impl Collector for Snapshot {
    fn encode(&self, encoder: DescriptorEncoder) -> fmt::Result {
        let mut families = Families::new(encoder);
        connections(&mut families, &self.services)?;
        limits(&mut families, self)?;
        handshakes(&mut families, self)?;
        backends(&mut families, self)?;
        names(&mut families, self)?;
        threads::threads(&mut families, self)?;
        operation(&mut families, self)?;
        process(&mut families, self)
    }
}

/// The labels of a service.
fn of(service: &ServiceSnapshot) -> (&'static str, &str) {
    ("service", service.name.as_str())
}

/// A row for each service.
fn by_service<V>(
    services: &[ServiceSnapshot],
    value: impl Fn(&ServiceSnapshot) -> V,
) -> impl Iterator<Item = ([(&'static str, &str); 1], V)> {
    services.iter().map(move |service| ([of(service)], value(service)))
}

/// A row for each service and value of a label.
fn by_label<'s, R: IntoIterator<Item = (&'static str, u64)>>(
    services: &'s [ServiceSnapshot],
    label: &'static str,
    values: impl Fn(&'s ServiceSnapshot) -> R,
) -> impl Iterator<Item = ([(&'static str, &'s str); 2], u64)> {
    services.iter().flat_map(move |service| {
        values(service).into_iter().map(move |(word, value)| ([of(service), (label, word)], value))
    })
}

/// The words and counts of a label.
fn words<'s>(counts: &'s BTreeMap<&'static str, u64>) -> impl Iterator<Item = (&'static str, u64)> + 's {
    counts.iter().map(|(word, count)| (*word, *count))
}

fn connections(to: &mut Families<'_>, services: &[ServiceSnapshot]) -> fmt::Result {
    to.gauge("handfast_connections", "Open connections", by_service(services, ServiceSnapshot::connections))?;
    to.counter(
        "handfast_connections_accepted",
        "Connections accepted",
        by_service(services, |service| service.accepted),
    )?;
    to.counter(
        "handfast_connections_closed",
        "Connections ended: at which step, which side ended it, why, and whether something may have been lost (failed)",
        services.iter().flat_map(|service| {
            service.ends.iter().map(move |end| {
                let [step, side, cause] = end.words();
                let labels = [
                    ("service", service.name.as_str()),
                    ("step", step),
                    ("side", side),
                    ("cause", cause),
                    ("failed", if end.is_failure() { "true" } else { "false" }),
                ];
                (labels, end.count)
            })
        }),
    )?;
    to.counter(
        "handfast_connections_refused",
        "Times a limit on connections was reached: of the process or a service (clients then wait), of one address, the rate of handshakes of one address, the lists of addresses (each connection is then reset)",
        by_label(services, "limit", |service| words(&service.refused)),
    )?;
    to.counter(
        "handfast_proxy_headers",
        "PROXY headers by what became of them: proxied (a client was named), local, unknown, missing, invalid, unexpected (from whom none is taken)",
        by_label(services, "outcome", |service| words(&service.proxy_headers)),
    )?;
    to.seconds(
        "handfast_connection_duration",
        "From accept to the end, of connections that have ended",
        services.iter().map(|service| ([of(service)], &service.duration)),
    )?;
    to.counter(
        ("handfast_relayed", Unit::Bytes),
        "Plaintext bytes relayed",
        by_label(services, "direction", |service| {
            [("to_backend", service.bytes_to_backend), ("to_client", service.bytes_to_client)]
        }),
    )
}

fn limits(to: &mut Families<'_>, snapshot: &Snapshot) -> fmt::Result {
    let services = &snapshot.services;
    let of_services = services.iter().flat_map(|service| {
        [("service", service.connections_limit), ("address", service.address_limit)].into_iter().filter_map(
            |(limit, most)| Some((vec![("limit", limit), ("service", service.name.as_str())], most?)),
        )
    });
    let of_process = [(vec![("limit", "process")], snapshot.connections_limit)];
    to.gauge(
        "handfast_connections_limit",
        "Connections that are served at once, at the most: of the process, of a service, of one client address at a service",
        of_process.into_iter().chain(of_services),
    )?;
    to.gauge(
        "handfast_connections_draining",
        "Open connections of processes that this one replaced in an upgrade, which are not in handfast_connections",
        [(NONE, snapshot.connections_draining)],
    )?;
    to.gauge(
        "handfast_connections_waiting",
        "Clients that wait in the kernel's queue now because a limit on connections is reached",
        by_label(services, "limit", |service| words(&service.waiting)),
    )
}

fn handshakes(to: &mut Families<'_>, snapshot: &Snapshot) -> fmt::Result {
    let services = &snapshot.services;
    to.counter(
        "handfast_handshakes",
        "Handshakes completed, full or resumed from an earlier session",
        by_label(services, "kind", |service| {
            [("full", service.handshakes_full), ("resumed", service.handshakes_resumed)]
        }),
    )?;
    to.counter(
        "handfast_hello_retries",
        "Handshakes that cost a round trip more because the client's key share was of a group not wanted here",
        by_service(services, |service| service.hello_retries),
    )?;
    to.counter(
        "handfast_client_certificates_failed",
        "Clients whose certificate failed, by what was wrong with it; they were refused, or served by the backends in failed-to",
        services.iter().filter(|service| service.asks_for_certificates).flat_map(|service| {
            let row = |(fault, count): (&&'static str, &u64)| {
                ([("service", service.name.as_str()), ("reason", *fault)], *count)
            };
            service.certificate_faults.iter().map(row).collect::<Vec<_>>()
        }),
    )?;
    to.counter(
        "handfast_tickets_offered",
        "Clients' hellos that offered to resume a session",
        by_service(services, |service| service.tickets_offered),
    )?;
    to.counter(
        "handfast_tickets_accepted",
        "Sessions resumed; the rest of those offered cost a full handshake",
        by_service(services, |service| service.handshakes_resumed),
    )?;
    let labels = |seen: &HandshakeSnapshot| {
        let kind = if seen.resumed { "resumed" } else { "full" };
        [("version", seen.version), ("group", seen.group), ("signature", seen.signature), ("kind", kind)]
    };
    to.seconds(
        "handfast_handshake",
        "From accept to the end of the handshake, of handshakes that were completed",
        snapshot.handshakes.iter().map(|seen| (labels(seen), &seen.total)),
    )?;
    to.seconds(
        "handfast_handshake_phase",
        "Where a handshake's time went: hello_wait (the client's hello), crypto (cryptography), client_wait (the \
         client's last flight), queue (the thread was busy with others)",
        snapshot.handshakes.iter().flat_map(|seen| {
            PHASES.iter().zip(&seen.phases).map(move |(phase, times)| {
                let [version, group, signature, kind] = labels(seen);
                ([("phase", *phase), version, group, signature, kind], times)
            })
        }),
    )?;
    to.counter(
        "handfast_backend_handshakes",
        "Handshakes completed with backends, full or resumed from an earlier session",
        by_label(services, "kind", |service| {
            [("full", service.backend_handshakes_full), ("resumed", service.backend_handshakes_resumed)]
        }),
    )?;
    to.seconds(
        "handfast_backend_handshake",
        "From the hello to a backend to the end of the handshake with it, of handshakes that were completed",
        snapshot.backend_handshakes.iter().map(|seen| (labels(seen), &seen.total)),
    )?;
    to.seconds(
        "handfast_backend_handshake_phase",
        "Where the time of a handshake with a backend went: crypto (cryptography of ours), backend_wait (the network, and \
         the backend's)",
        snapshot.backend_handshakes.iter().flat_map(|seen| {
            BACKEND_PHASES.iter().map(move |(phase, place)| {
                let [version, group, signature, kind] = labels(seen);
                ([("phase", *phase), version, group, signature, kind], &seen.phases[*place])
            })
        }),
    )
}

fn backends(to: &mut Families<'_>, snapshot: &Snapshot) -> fmt::Result {
    let each = || {
        snapshot.services.iter().flat_map(|service| {
            service.backends.iter().map(move |backend| {
                ([("service", service.name.as_str()), ("backend", backend.name.as_str())], backend)
            })
        })
    };
    to.gauge(
        "handfast_backend_up",
        "1: used; 0: marked down because it kept failing, found down by its checks, taken out by an operator, or a name that has no address; every backend that is configured",
        each().filter_map(|(labels, backend)| Some((labels, u64::from(backend.is_up()?)))),
    )?;
    to.gauge(
        "handfast_backend_weight",
        "Its share of new connections in proportion to the others'; 0: none",
        each().filter_map(|(labels, backend)| Some((labels, u64::from(backend.weight?)))),
    )?;
    to.gauge(
        "handfast_backend_taken_out",
        "1: an operator has set it to drain or down, so it gets no new connections; 0: not",
        each()
            .filter(|(_, backend)| backend.is_up().is_some())
            .map(|(labels, backend)| (labels, u64::from(backend.operator.is_some()))),
    )?;
    checks(to, snapshot)?;
    to.gauge(
        "handfast_backend_connections",
        "Open connections to it",
        each().map(|(labels, backend)| (labels, backend.connections())),
    )?;
    to.counter(
        "handfast_backend_failures",
        "Attempts to connect to it that failed, by cause, also when another backend then served the client",
        each().flat_map(|([service, name], backend)| {
            backend.failures.iter().map(move |(cause, count)| ([service, name, ("cause", cause)], *count))
        }),
    )?;
    to.seconds(
        "handfast_backend_connect",
        "How long connecting to it took, when it succeeded",
        each().map(|(labels, backend)| (labels, &backend.connect)),
    )?;
    to.seconds(
        "handfast_backend_answer",
        "From the client's bytes to the next ones of the backend: how long it thinks, and the network to it",
        each().map(|(labels, backend)| (labels, &backend.answer)),
    )?;
    to.gauge(
        "handfast_source_ports_in_use",
        "Source ports that connections to this backend use now, those in TIME_WAIT not counted",
        source_ports(snapshot).iter().map(|(name, (ports, _))| ([("backend", *name)], *ports)),
    )?;
    to.gauge(
        "handfast_source_ports",
        "Source ports that one source address has towards one backend address (net.ipv4.ip_local_port_range)",
        snapshot.process.source_port_count().map(|count| (NONE, count)),
    )?;
    to.gauge(
        "handfast_machine_time_wait_sockets",
        "TCP sockets in TIME_WAIT on the whole machine, each of which may occupy a source port",
        snapshot.process.time_wait.map(|count| (NONE, count)),
    )
}

/// What active checks of backends found, where there are any.
fn checks(to: &mut Families<'_>, snapshot: &Snapshot) -> fmt::Result {
    let each = || {
        snapshot.services.iter().flat_map(|service| {
            service.backends.iter().filter_map(move |backend| {
                let labels = [("service", service.name.as_str()), ("backend", backend.name.as_str())];
                Some((labels, backend.check.as_ref()?))
            })
        })
    };
    to.gauge(
        "handfast_backend_check_up",
        "1: its checks find it up; 0: down, and it gets no connections",
        each().map(|(labels, check)| (labels, u64::from(check.up))),
    )?;
    to.counter(
        "handfast_backend_checks",
        "Checks of it that ended: passed or failed",
        each().flat_map(|([service, name], check)| {
            [("passed", check.passed), ("failed", check.failed)]
                .map(|(result, count)| ([service, name, ("result", result)], count))
        }),
    )?;
    to.seconds(
        "handfast_backend_check",
        "How long checks of it took, when they passed",
        each().map(|(labels, check)| (labels, &check.seconds)),
    )
}

/// How asking for the names of backends goes.
fn names(to: &mut Families<'_>, snapshot: &Snapshot) -> fmt::Result {
    let by_name = |value: fn(&NameSnapshot) -> u64| {
        snapshot.names.iter().map(move |name| ([("name", name.name.as_str())], value(name)))
    };
    to.counter(
        "handfast_name_lookups",
        "DNS lookups of a backend's name: answered with an address, or failed",
        snapshot.names.iter().flat_map(|name| {
            [("answered", name.answered), ("failed", name.failed)]
                .map(|(outcome, count)| ([("name", name.name.as_str()), ("outcome", outcome)], count))
        }),
    )?;
    to.gauge(
        "handfast_name_resolved",
        "1: the last DNS lookup of a backend's name was answered; 0: it failed, and the previous addresses stay in use",
        by_name(|name| u64::from(name.problem.is_none() && !name.addresses.is_empty())),
    )?;
    to.gauge(
        "handfast_name_addresses",
        "Addresses that a backend's name resolves to now; 0: none was ever found, and no connection to it is possible",
        by_name(|name| name.addresses.len() as u64),
    )
}

/// Source ports in use by backend, and the source addresses that have them: services that share a backend share its ports. Those
/// that come from their clients' addresses have ports of each client.
pub fn source_ports(snapshot: &Snapshot) -> BTreeMap<&str, (u64, u64)> {
    let mut ports: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for service in &snapshot.services {
        let sources = service.sources.unwrap_or(1);
        for backend in service.backends.iter().filter(|backend| backend.source_ports && sources > 0) {
            let (used, addresses) = ports.entry(backend.name.as_str()).or_default();
            *used += BackendSnapshot::connections(backend);
            *addresses = sources.max(*addresses);
        }
    }
    ports
}

fn operation(to: &mut Families<'_>, snapshot: &Snapshot) -> fmt::Result {
    to.counter(
        "handfast_access_log_lines",
        "Lines of the access log, written or dropped because it was too slow, full or gone",
        [("written", snapshot.access_log_written), ("dropped", snapshot.access_log_dropped)]
            .map(|(outcome, lines)| ([("outcome", outcome)], lines)),
    )?;
    certificates(to, snapshot)?;
    reloads(to, snapshot)
}

/// A row for each certificate.
type CertificateRow<'a> = ([(&'static str, &'a str); 3], f64);

fn rows<'a>(
    moments: &BTreeMap<(&'a str, &'a str, &'a str), SystemTime>,
    value: &dyn Fn(SystemTime) -> f64,
) -> Vec<CertificateRow<'a>> {
    let row = |(service, name, kind), moment| {
        ([("service", service), ("certificate", name), ("kind", kind)], value(moment))
    };
    moments.iter().map(|(labels, moment)| row(*labels, *moment)).collect()
}

fn certificates(to: &mut Families<'_>, snapshot: &Snapshot) -> fmt::Result {
    // The same name twice in a service (a folder with an old and a new file) would be the same row twice: the first to
    // expire is what an alarm should look at.
    let (mut expiries, mut staples) = (BTreeMap::new(), BTreeMap::new());
    for certificate in &snapshot.certificates {
        let labels = (certificate.service.as_str(), certificate.name.as_str(), certificate.kind.as_str());
        let earliest = expiries.entry(labels).or_insert(certificate.not_after);
        *earliest = certificate.not_after.min(*earliest);
        if let Some(until) = certificate.staple_until {
            let earliest = staples.entry(labels).or_insert(until);
            *earliest = until.min(*earliest);
        }
    }
    let now = unix_seconds(snapshot.process.now);
    to.gauge(
        ("handfast_certificate_expires_in", Unit::Seconds),
        "Time until the certificate expires, negative when it has expired",
        rows(&expiries, &|not_after| unix_seconds(not_after) - now),
    )?;
    to.gauge(
        ("handfast_certificate_not_after_timestamp", Unit::Seconds),
        "When the certificate expires, in seconds since 1970",
        rows(&expiries, &unix_seconds),
    )?;
    to.gauge(
        ("handfast_ocsp_response_expires_in", Unit::Seconds),
        "Time until the OCSP response that is stapled to the certificate expires; no row: none is stapled",
        rows(&staples, &|until| unix_seconds(until) - now),
    )?;
    to.gauge(
        ("handfast_ocsp_response_not_after_timestamp", Unit::Seconds),
        "When the OCSP response that is stapled to the certificate expires, in seconds since 1970",
        rows(&staples, &unix_seconds),
    )?;
    revocation::lists(to, snapshot)?;
    to.gauge(
        "handfast_certificate_file_problems",
        "Certificate files that are not used as they are: broken (the old version is served, until they are fixed), removed (the certificate is served for process.keep-removed-certificates), ocsp (an OCSP response that cannot be stapled: its certificate is served)",
        snapshot.file_problems.iter().flat_map(|problems| {
            [("broken", problems.broken), ("removed", problems.removed), ("ocsp", problems.not_stapled)]
                .map(|(kind, count)| ([("service", problems.service.as_str()), ("kind", kind)], count))
        }),
    )
}

/// How the process is that holds the private keys, where there is one.
fn key_process(to: &mut Families<'_>, snapshot: &Snapshot) -> fmt::Result {
    to.gauge(
        "handfast_key_process_up",
        "1: the process that holds the private keys signs; 0: it does not answer, and handshakes fail; no row: there is none",
        snapshot.key_process.map(|keys| (NONE, u64::from(keys.answers))),
    )?;
    to.counter(
        "handfast_key_process_restarts",
        "Times that the process that holds the private keys ended and was started again",
        snapshot.key_process.map(|keys| (NONE, keys.restarts)),
    )
}

fn reloads(to: &mut Families<'_>, snapshot: &Snapshot) -> fmt::Result {
    let reload = &snapshot.reload;
    to.gauge(
        "handfast_configuration_generation",
        "Number of the configuration that is served",
        reload.generation.map(|generation| (NONE, generation)),
    )?;
    key_process(to, snapshot)?;
    to.counter(
        "handfast_reloads",
        "Reloads that took effect (succeeded), took effect, except for files that cannot be used (in-part), or changed nothing because of a fault (failed)",
        [("succeeded", reload.succeeded), ("in-part", reload.in_part), ("failed", reload.failed)]
            .map(|(outcome, count)| ([("outcome", outcome)], count)),
    )?;
    to.gauge(
        "handfast_last_reload_successful",
        "1: the last start or reload took effect; 0: an older configuration is served, or older versions of files that cannot be used; the status page says why",
        [(NONE, u64::from(reload.last_problem.is_none()))],
    )?;
    to.gauge(
        ("handfast_last_reload_timestamp", Unit::Seconds),
        "When the last start or reload was, in seconds since 1970",
        reload.last_at.map(|time| (NONE, unix_seconds(time))),
    )
}

fn process(to: &mut Families<'_>, snapshot: &Snapshot) -> fmt::Result {
    let process = &snapshot.process;
    to.counter(
        ("process_cpu", Unit::Seconds),
        "CPU time of the process, user and system",
        process.process_cpu_seconds.map(|seconds| (NONE, seconds)),
    )?;
    to.gauge(
        "process_open_fds",
        "Open file descriptors",
        process.open_files.map(|files| (NONE, files as f64)),
    )?;
    to.gauge(
        "process_max_fds",
        "File descriptors it may open",
        process.max_files.map(|files| (NONE, files as f64)),
    )?;
    to.gauge(
        ("process_resident_memory", Unit::Bytes),
        "Resident memory",
        process.resident_bytes.map(|bytes| (NONE, bytes as f64)),
    )?;
    to.gauge(
        ("process_start_time", Unit::Seconds),
        "When the process started, in seconds since 1970",
        [(NONE, unix_seconds(process.started))],
    )?;
    to.family(
        "handfast_build".into(),
        "The program's version",
        MetricType::Info,
        [(NONE, [("version", process.version)])],
        |mut encoder, labels| encoder.encode_info(&labels),
    )
}
