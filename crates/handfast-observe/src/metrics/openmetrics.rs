//! A snapshot as text for Prometheus: OpenMetrics 1.0.0, or the format before it. A histogram that has counted nothing is left out.
//! Names begin with `handfast_` (those every process has, with `process_`), units are seconds and bytes. No label holds what a peer chose.

use std::collections::BTreeMap;
use std::fmt;
use std::time::SystemTime;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use prometheus_client::registry::{Registry, Unit};

use super::backend::BackendSnapshot;
use super::handshakes::{BACKEND_PHASES, HandshakeSnapshot, PHASES};
use super::histogram::Distribution;
use super::service::ServiceSnapshot;
use super::snapshot::Snapshot;

mod families;
mod format;
mod requests;

use families::{Families, Labels, NONE, families, known, rows, split, split_ends, unix_seconds, words};
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
        let mut to = Families(encoder);
        connections(&mut to, self)?;
        requests::requests(&mut to, self)?;
        handshakes(&mut to, self)?;
        backends(&mut to, self)?;
        names(&mut to, self)?;
        threads(&mut to, self)?;
        certificates(&mut to, self)?;
        operation(&mut to, self)?;
        process(&mut to, self)
    }
}

/// Every service with its labels.
fn each_service(snapshot: &Snapshot) -> impl Iterator<Item = (Labels<'_>, &ServiceSnapshot)> {
    snapshot.services.iter().map(|service| (vec![("service", service.name.as_str())], service))
}

/// Every backend with its labels.
fn each_backend(snapshot: &Snapshot) -> impl Iterator<Item = (Labels<'_>, &BackendSnapshot)> {
    snapshot.services.iter().flat_map(|service| {
        service.backends.iter().map(|backend| {
            (vec![("service", service.name.as_str()), ("backend", backend.name.as_str())], backend)
        })
    })
}

fn connections(to: &mut Families<'_>, snapshot: &Snapshot) -> fmt::Result {
    let each = || each_service(snapshot);
    let ends = split_ends(rows(each(), |service| &service.ends));
    let limits = snapshot.services.iter().flat_map(|service| {
        let limits = [("service", service.connections_limit), ("address", service.address_limit)];
        let row = |(limit, most)| Some((vec![("limit", limit), ("service", service.name.as_str())], most?));
        limits.into_iter().filter_map(row)
    });
    families! { to:
        gauge "handfast_connections", "Open connections" => rows(each(), ServiceSnapshot::connections);
        counter "handfast_connections_accepted", "Connections accepted"
            => rows(each(), |service| service.accepted);
        counter "handfast_connections_closed",
            "Connections ended: at which step, which side ended it, why, and whether something may have been lost (failed)" => ends;
        counter "handfast_connections_refused",
            "Times a limit on connections was reached: of the process or a service (clients then wait), of one address, the rate of handshakes of one address, the lists of addresses (each connection is then reset)"
            => split(each(), "limit", |service| words(&service.refused));
        counter "handfast_proxy_headers",
            "PROXY headers by what became of them: proxied (a client was named), local, unknown, missing, invalid, unexpected (from an address that must not send one)"
            => split(each(), "outcome", |service| words(&service.proxy_headers));
        seconds "handfast_connection_duration", "From accept to the end, of connections that have ended"
            => rows(each(), |service| &service.duration);
        counter "handfast_relayed" [Bytes], "Plaintext bytes relayed"
            => split(each(), "direction", |service| {
                [("to_backend", service.bytes_to_backend), ("to_client", service.bytes_to_client)]
            });
        gauge "handfast_connections_limit",
            "Connections that are served at once, at the most: of the process, of a service, of one client address at a service"
            => [(vec![("limit", "process")], snapshot.connections_limit)].into_iter().chain(limits);
        gauge "handfast_connections_draining",
            "Open connections of processes that this one replaced in an upgrade, which are not in handfast_connections"
            => [(NONE, snapshot.connections_draining)];
        gauge "handfast_connections_waiting",
            "Clients that wait in the kernel's queue now because a limit on connections is reached"
            => split(each(), "limit", |service| words(&service.waiting));
    }
}

/// Handshakes that agreed on the same, with their labels.
fn agreed(handshakes: &[HandshakeSnapshot]) -> impl Iterator<Item = (Labels<'_>, &HandshakeSnapshot)> {
    handshakes.iter().map(|seen| {
        let kind = if seen.resumed { "resumed" } else { "full" };
        let (version, group, signature, _) = seen.key();
        let labels = [("version", version), ("group", group), ("signature", signature), ("kind", kind)];
        (labels.into(), seen)
    })
}

/// The parts of handshakes; the label of a part comes first.
fn phases<'s>(
    handshakes: &'s [HandshakeSnapshot],
    parts: &'s [(&'static str, usize)],
) -> impl Iterator<Item = (Labels<'s>, &'s Distribution)> {
    agreed(handshakes).flat_map(move |(labels, seen)| {
        let row = move |(phase, place): &(&'static str, usize)| {
            ([("phase", *phase)].iter().chain(&labels).copied().collect(), &seen.phases[*place])
        };
        parts.iter().map(row)
    })
}

fn handshakes(to: &mut Families<'_>, snapshot: &Snapshot) -> fmt::Result {
    let each = || each_service(snapshot);
    let asking = each().filter(|(_, service)| service.asks_for_certificates);
    let all_phases: Vec<_> = PHASES.into_iter().zip(0..).collect();
    families! { to:
        counter "handfast_handshakes", "Handshakes completed, full or resumed from an earlier session"
            => split(each(), "kind", |service| {
                [("full", service.handshakes_full), ("resumed", service.handshakes_resumed)]
            });
        counter "handfast_hello_retries",
            "Handshakes with an additional round trip: the client's key share was of a group that the policy does not prefer (HelloRetryRequest)"
            => rows(each(), |service| service.hello_retries);
        counter "handfast_client_certificates_failed",
            "Clients whose certificate failed, by what was wrong with it; they were refused, or served by the backends in fallback-backend"
            => split(asking, "reason", |service| words(&service.certificate_faults));
        counter "handfast_tickets_offered", "Clients' hellos that offered to resume a session"
            => rows(each(), |service| service.tickets_offered);
        counter "handfast_tickets_accepted",
            "Sessions resumed; the rest of those offered cost a full handshake"
            => rows(each(), |service| service.handshakes_resumed);
        seconds "handfast_handshake",
            "From accept to the end of the handshake, of handshakes that were completed"
            => rows(agreed(&snapshot.handshakes), |seen| &seen.total);
        seconds "handfast_handshake_phase",
            "Where a handshake's time went: hello_wait (the client's hello), crypto (cryptography), client_wait (the \
             client's last flight), queue (the thread was busy with others)"
            => phases(&snapshot.handshakes, &all_phases);
        counter "handfast_backend_handshakes",
            "Handshakes completed with backends, full or resumed from an earlier session"
            => split(each(), "kind", |service| {
                [("full", service.backend_handshakes_full), ("resumed", service.backend_handshakes_resumed)]
            });
        seconds "handfast_backend_handshake",
            "From the hello to a backend to the end of the handshake with it, of handshakes that were completed"
            => rows(agreed(&snapshot.backend_handshakes), |seen| &seen.total);
        seconds "handfast_backend_handshake_phase",
            "Where the time of a handshake with a backend went: crypto (cryptography of ours), backend_wait (the network, and \
             the backend's)"
            => phases(&snapshot.backend_handshakes, &BACKEND_PHASES);
    }
}

fn backends(to: &mut Families<'_>, snapshot: &Snapshot) -> fmt::Result {
    let each = || each_backend(snapshot);
    let checks = || each().filter_map(|(labels, backend)| Some((labels, backend.check.as_ref()?)));
    let ports = source_ports(snapshot);
    families! { to:
        gauge "handfast_backend_up",
            "1: used; 0: marked down because it kept failing, found down by its checks, taken out by an operator, or a name that has no address; every backend that is configured"
            => known(each(), |backend| backend.is_up().map(u64::from));
        gauge "handfast_backend_weight", "Its share of new connections in proportion to the others'; 0: none"
            => known(each(), |backend| backend.weight.map(u64::from));
        gauge "handfast_backend_taken_out",
            "1: an operator has set it to drain or down, so it gets no new connections; 0: not"
            => known(each(), |backend| backend.is_up().map(|_| u64::from(backend.operator.is_some())));
        gauge "handfast_backend_check_up", "1: its checks find it up; 0: down, and it gets no connections"
            => rows(checks(), |check| u64::from(check.up));
        counter "handfast_backend_checks", "Checks of it that ended: passed or failed"
            => split(checks(), "result", |check| [("passed", check.passed), ("failed", check.failed)]);
        seconds "handfast_backend_check", "How long checks of it took, when they passed"
            => rows(checks(), |check| &check.seconds);
        gauge "handfast_backend_connections", "Open connections to it"
            => rows(each(), BackendSnapshot::connections);
        counter "handfast_backend_failures",
            "Attempts to connect to it that failed, by cause, also when another backend then served the client"
            => split(each(), "cause", |backend| words(&backend.failures));
        seconds "handfast_backend_connect", "How long connecting to it took, when it succeeded"
            => rows(each(), |backend| &backend.connect);
        seconds "handfast_backend_response",
            "From the client's bytes to the next ones of the backend: how long it thinks, and the network to it"
            => rows(each(), |backend| &backend.response);
        gauge "handfast_source_ports_in_use",
            "Source ports that connections to this backend use now, those in TIME_WAIT not counted"
            => ports.iter().map(|(name, (ports, _))| (vec![("backend", *name)], *ports));
        gauge "handfast_source_ports",
            "Source ports that one source address has towards one backend address (net.ipv4.ip_local_port_range)"
            => snapshot.process.source_port_count().map(|count| (NONE, count));
        gauge "handfast_machine_time_wait_sockets",
            "TCP sockets in TIME_WAIT on the whole machine, each of which may occupy a source port"
            => snapshot.process.time_wait.map(|count| (NONE, count));
    }
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

/// DNS lookups of the names of backends.
fn names(to: &mut Families<'_>, snapshot: &Snapshot) -> fmt::Result {
    let each = || snapshot.names.iter().map(|name| (vec![("name", name.name.as_str())], name));
    families! { to:
        counter "handfast_name_lookups",
            "DNS lookups of a backend's name: answered with an address, or failed"
            => split(each(), "outcome", |name| [("answered", name.answered), ("failed", name.failed)]);
        gauge "handfast_name_resolved",
            "1: the last DNS lookup of a backend's name was answered; 0: it failed, and the previous addresses stay in use"
            => rows(each(), |name| u64::from(name.problem.is_none() && !name.addresses.is_empty()));
        gauge "handfast_name_addresses",
            "Addresses that a backend's name resolves to now; 0: none was ever found, and no connection to it is possible"
            => rows(each(), |name| name.addresses.len() as u64);
    }
}

/// Writes the counters that threads have for themselves: workers, and the one of the access log.
fn threads(to: &mut Families<'_>, snapshot: &Snapshot) -> fmt::Result {
    let each = || snapshot.threads.iter().map(|thread| (vec![("thread", thread.name.as_str())], thread));
    let cpu = &snapshot.process.cpu_seconds;
    families! { to:
        counter "handfast_accept_errors", "Calls of accept that failed, by cause"
            => split(each(), "cause", |thread| words(&thread.accept_errors));
        gauge "handfast_accept_backing_off",
            "1: accepting pauses because the machine is out of something (file descriptors, memory)"
            => rows(each(), |thread| u64::from(thread.backing_off));
        counter "handfast_loop_turns", "Turns of the event loop" => rows(each(), |thread| thread.turns);
        counter "handfast_loop_spurious_turns", "Times a connection was woken and nothing moved"
            => rows(each(), |thread| thread.spurious_turns);
        seconds "handfast_loop_lag", "How long an event had to wait while the thread worked on others"
            => rows(each(), |thread| &thread.loop_lag);
        gauge "handfast_loop_tasks", "Tasks the loop holds now" => rows(each(), |thread| thread.tasks);
        counter "handfast_handshakes_offloaded",
            "Handshakes whose signature another thread made, because many newcomers waited"
            => rows(each(), |thread| thread.signed_elsewhere);
        counter "handfast_panics", "Tasks that panicked, each of which cost one connection: a bug of Handfast"
            => rows(each(), |thread| thread.panics);
        counter "handfast_thread_cpu" [Seconds], "CPU time by thread name, of threads that run now"
            => cpu.iter().map(|(name, seconds)| ([("thread", name.as_str())], *seconds));
        counter "handfast_access_log_lines",
            "Lines of the access log, written or dropped because it was too slow, full or gone"
            => split([(vec![], snapshot)], "outcome", |all| {
                [("written", all.access_log_written), ("dropped", all.access_log_dropped)]
            });
    }
}

fn certificates(to: &mut Families<'_>, snapshot: &Snapshot) -> fmt::Result {
    // The same name twice in a service (a folder with an old and a new file) would be the same row twice: the first to
    // expire is what an alarm should look at.
    let (mut expiries, mut staples) = (BTreeMap::new(), BTreeMap::new());
    for certificate in &snapshot.certificates {
        let labels = [
            ("service", certificate.service.as_str()),
            ("certificate", certificate.name.as_str()),
            ("kind", certificate.kind.as_str()),
        ];
        let earliest = |of: &mut BTreeMap<_, SystemTime>, time: SystemTime| {
            of.entry(labels).and_modify(|known| *known = time.min(*known)).or_insert(time);
        };
        earliest(&mut expiries, certificate.not_after);
        certificate.staple_until.into_iter().for_each(|until| earliest(&mut staples, until));
    }
    let now = unix_seconds(snapshot.process.now);
    let lists = || {
        snapshot
            .revocation_lists
            .iter()
            .map(|list| (vec![("service", &*list.service), ("issuer", &*list.issuer)], list))
    };
    let problems =
        snapshot.file_problems.iter().map(|problems| (vec![("service", &*problems.service)], problems));
    let ordered = || snapshot.ordered.iter().map(|known| (vec![("name", &*known.name)], known));
    caches(to, snapshot)?;
    let fleet = snapshot.fleet.as_ref();
    let shared = fleet.and_then(|fleet| Some(now - unix_seconds(fleet.keys_shared_at?)));
    families! { to:
        gauge "handfast_fleet_bus_up", "1: the bus of the fleet can be reached; 0: this machine continues without it"
            => fleet.map(|fleet| (NONE, u64::from(fleet.problem.is_none())));
        gauge "handfast_fleet_machines", "Machines of the fleet with a recent message, this one included"
            => fleet.map(|fleet| (NONE, fleet.machines.len() as u64 + 1));
        gauge "handfast_ticket_keys_shared" [Seconds],
            "Time since another machine of the fleet last reported the ticket key that is used here; no row: never"
            => shared.map(|seconds| (NONE, seconds));
        gauge "handfast_ordered_certificate",
            "1: there is a certificate for a name that certificates are ordered for (ACME); 0: there is none yet, and its clients are refused"
            => rows(ordered(), |known| u64::from(known.not_after.is_some()));
        gauge "handfast_ordered_certificate_expires_in" [Seconds],
            "Time until the certificate that was ordered for a name expires; no row: there is none"
            => known(ordered(), |known| Some(unix_seconds(known.not_after?) - now));
        gauge "handfast_ordered_certificate_failures",
            "Tries to order a certificate for a name that failed since the last success; the status page has the last error"
            => rows(ordered(), |known| known.failures);
        gauge "handfast_ordered_certificate_next_try_timestamp" [Seconds],
            "When the next certificate for a name is ordered, in seconds since 1970"
            => rows(ordered(), |known| unix_seconds(known.next_try));
        gauge "handfast_certificate_expires_in" [Seconds],
            "Time until the certificate expires, negative when it has expired"
            => expiries.iter().map(|(labels, time)| (*labels, unix_seconds(*time) - now));
        gauge "handfast_certificate_not_after_timestamp" [Seconds],
            "When the certificate expires, in seconds since 1970"
            => expiries.iter().map(|(labels, time)| (*labels, unix_seconds(*time)));
        gauge "handfast_ocsp_response_expires_in" [Seconds],
            "Time until the OCSP response that is stapled to the certificate expires; no row: none is stapled"
            => staples.iter().map(|(labels, time)| (*labels, unix_seconds(*time) - now));
        gauge "handfast_ocsp_response_not_after_timestamp" [Seconds],
            "When the OCSP response that is stapled to the certificate expires, in seconds since 1970"
            => staples.iter().map(|(labels, time)| (*labels, unix_seconds(*time)));
        gauge "handfast_crl_expires_in" [Seconds],
            "Time until the revocation list of a client authority expires, negative when it has expired"
            => known(lists(), |list| Some(unix_seconds(list.next_update?) - now));
        gauge "handfast_crl_next_update_timestamp" [Seconds],
            "When the revocation list of a client authority expires, in seconds since 1970"
            => known(lists(), |list| list.next_update.map(unix_seconds));
        gauge "handfast_crl_entries", "Certificates that the revocation list of a client authority revokes"
            => rows(lists(), |list| list.entries as f64);
        gauge "handfast_certificate_file_problems",
            "Certificate files that are not used as they are: broken (the old version is served, until they are fixed), removed (the certificate is served for process.keep-removed-certificates), ocsp (an OCSP response that cannot be stapled: its certificate is served)"
            => split(problems, "kind", |it| {
                [("broken", it.broken), ("removed", it.removed), ("ocsp", it.not_stapled)]
            });
    }
}

/// Writes metrics of the configuration that is served, the process that holds the private keys, and reloads.
fn operation(to: &mut Families<'_>, snapshot: &Snapshot) -> fmt::Result {
    let (reload, keys) = (&snapshot.reload, snapshot.key_process);
    families! { to:
        gauge "handfast_configuration_generation", "Number of the configuration that is served"
            => reload.generation.map(|generation| (NONE, generation));
        gauge "handfast_key_process_up",
            "1: the process that holds the private keys signs; 0: it does not answer, and handshakes fail; no row: there is none"
            => keys.map(|keys| (NONE, u64::from(keys.answers)));
        counter "handfast_key_process_restarts",
            "Times that the process that holds the private keys ended and was started again"
            => keys.map(|keys| (NONE, keys.restarts));
        counter "handfast_reloads",
            "Reloads that took effect (succeeded), took effect, except for files that cannot be used (in-part), or changed nothing because of a fault (failed)"
            => split([(vec![], reload)], "outcome", |it| {
                [("succeeded", it.succeeded), ("in-part", it.in_part), ("failed", it.failed)]
            });
        gauge "handfast_last_reload_successful",
            "1: the last start or reload took effect; 0: an older configuration is served, or older versions of files that cannot be used; the status page says why"
            => [(NONE, u64::from(reload.last_problem.is_none()))];
        gauge "handfast_last_reload_timestamp" [Seconds],
            "When the last start or reload was, in seconds since 1970"
            => reload.last_at.map(|time| (NONE, unix_seconds(time)));
    }
}

fn process(to: &mut Families<'_>, snapshot: &Snapshot) -> fmt::Result {
    let process = &snapshot.process;
    families! { to:
        counter "process_cpu" [Seconds], "CPU time of the process, user and system"
            => process.process_cpu_seconds.map(|seconds| (NONE, seconds));
        gauge "process_open_fds", "Open file descriptors"
            => process.open_files.map(|files| (NONE, files as f64));
        gauge "process_max_fds", "File descriptors it may open"
            => process.max_files.map(|files| (NONE, files as f64));
        gauge "process_resident_memory" [Bytes], "Resident memory"
            => process.resident_bytes.map(|bytes| (NONE, bytes as f64));
        gauge "process_start_time" [Seconds], "When the process started, in seconds since 1970"
            => [(NONE, unix_seconds(process.started))];
        info "handfast_build", "The program's version" => [[("version", &*process.version)]];
    }
}

/// Caches of services.
fn caches(to: &mut Families<'_>, snapshot: &Snapshot) -> fmt::Result {
    let each = || snapshot.caches.iter().map(|cache| (vec![("service", &*cache.service)], cache));
    families! { to:
        gauge "handfast_cache_up", "1: the cache of the service works; 0: requests bypass it, and the status page says why"
            => rows(each(), |cache| u64::from(cache.problem.is_none()));
        gauge "handfast_cache_objects", "Objects in the cache"
            => rows(each(), |cache| cache.objects);
        gauge "handfast_cache_size" [Bytes], "What the objects of the cache take on the disk"
            => rows(each(), |cache| cache.disk_bytes);
        gauge "handfast_cache_limit" [Bytes], "What they may take"
            => rows(each(), |cache| cache.disk_bytes_limit);
        counter "handfast_cache_requests",
            "HTTP requests by what the cache did: hit, stale (served while the backend was asked), shared (with another request), miss, expired \
             (the backend was asked first), or why it was not asked"
            => split(each(), "result", |cache| each_word(&cache.requests));
        counter "handfast_cache_confirmed", "Expired objects that their backend confirmed (304)"
            => rows(each(), |cache| cache.confirmed);
        counter "handfast_cache_changes", "Objects that were stored, evicted, purged, found broken, or given up before they were stored"
            => split(each(), "change", |cache| each_word(&cache.changes));
        counter "handfast_cache_content" [Bytes], "Content that was read from the cache and written to it"
            => split(each(), "direction", |cache| [("read", cache.bytes_read), ("written", cache.bytes_written)]);
        counter "handfast_cache_disk_errors", "Errors of the disk of the cache"
            => rows(each(), |cache| cache.errors);
        gauge "handfast_cache_undeleted_objects", "Objects whose files could not be deleted; it is tried again"
            => rows(each(), |cache| cache.undeleted);
        counter "handfast_cache_disk_operations", "Reads and writes by the threads of the disk; reads from memory are none"
            => split(each(), "operation", |cache| cache.disk.iter().map(|(word, (count, _))| (&**word, *count)));
        counter "handfast_cache_disk" [Seconds], "Their time"
            => split(each(), "operation", |cache| cache.disk.iter().map(|(word, (_, seconds))| (&**word, *seconds)));
    }
}

fn each_word(counts: &BTreeMap<String, u64>) -> impl Iterator<Item = (&str, u64)> {
    counts.iter().map(|(word, count)| (&**word, *count))
}
