//! From a file's text to the model: everything that is wrong is found in one go.
//!
//! In: the file's name and text, and answers of the machine. Out: a [`Config`] and what is odd about it, or every
//! reason why there is none. Pure, so that it can be fuzzed: only [`load`] touches the disk.
//!
//! The order is that of the file: each section is read by its description (`keys.rs`), then checked against what
//! is around it (`check.rs`).

use std::borrow::Cow;
use std::io;
use std::path::Path;
use std::time::SystemTime;

use handfast_pki::files::read_input;
use handfast_tls::ticket::KeySource;
use toml::de::DeTable;

use super::check::{self, Listeners};
use super::files::Named;
use super::foreign;
use super::include::{self, IncludedFile};
use super::keys;
use super::machine::{Folders, MAX_BYTES, Machine, Nowhere, ThisMachine, text_of};
use super::model::{
    Address, CertificateEntry, ClientCertificates, Config, Limits, Places, Process, RestartSetting,
    RestartSettings, Service, ServiceRule, Tickets, Tls,
};
use super::part::Part;
use super::policy;
use super::problem::{Fault, Place, Problem};
use super::reading::{Reading, values};
use super::schema::{Entry, Section};
use super::syntax;
use super::table::Table;
use client_certificates::client_certificates;

mod client_certificates;

mod access;
mod acme;
mod around;
mod fleet;
mod admission;
mod backend_tls;
mod cache;
mod clients;
mod http;
mod own_response;
mod programs;
mod request_rules;
mod route;
mod service;
mod source;
mod site;
mod starttls;
mod proxy_protocol;

use around::Around;
use proxy_protocol::proxy_protocol;
use service::service;
mod check_section;

pub(crate) use acme::entry as acme_entry;

/// A configuration and what is odd about it, or everything that is wrong with it; in the order of the file.
pub type Parsed = Result<(Config, Vec<Problem>), Vec<Problem>>;

/// A configuration file that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// The name and text of the file, and of those that it includes, for [`render`](super::render); none when it could not be read.
    pub texts: Vec<(String, String)>,
    /// The configuration, or its problems. These include problems of the files that it names.
    pub parsed: Parsed,
}

/// Reads a configuration file.
///
/// Touches the disk for the file itself and to see which paths are folders. Problems name the file as `path` does.
pub fn load(path: &Path) -> Loaded {
    load_bytes(path, read_input(path, MAX_BYTES).map(|bytes| bytes.to_vec()), &ThisMachine::STRICT)
}

/// The same with the bytes of the file, or why they could not be read.
pub(crate) fn load_bytes(path: &Path, bytes: io::Result<Vec<u8>>, machine: &dyn Machine) -> Loaded {
    match text_of(bytes) {
        Ok(text) => load_text_on(path, text, machine),
        Err(reason) => {
            let name = path.display().to_string();
            let problem = Problem::error(Place::File { file: name }, reason.to_string());
            Loaded { texts: Vec::new(), parsed: Err(vec![problem]) }
        }
    }
}

/// Reads the text of a configuration file, which need not be the file's: problems name `path`, and relative paths start from its
/// folder.
pub fn load_text(path: &Path, text: String) -> Loaded {
    load_text_on(path, text, &ThisMachine::STRICT)
}

pub(crate) fn load_text_on(path: &Path, text: String, machine: &dyn Machine) -> Loaded {
    let name = path.display().to_string();
    let ReadFiles { parsed, named, included } = read(&name, &text, machine);
    let parsed = parsed.map_err(|problems| named.with_problems_of_files(problems, SystemTime::now()));
    let included = included.into_iter().map(|IncludedFile { name, text }| (name, text));
    Loaded { parsed, texts: std::iter::once((name, text)).chain(included).collect() }
}

impl Loaded {
    /// The names and texts, as [`render`](super::render) takes them.
    pub fn texts(&self) -> Vec<(&str, &str)> {
        self.texts.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect()
    }
}

/// Parses a configuration's text: the configuration and its warnings, or every problem.
///
/// Relative paths start from the folder of `file_name`; `is_folder`: whether a path is a folder. There are no other files, and variables
/// keep their names. Problems are in
/// the order of the file. Cost: linear in the text; never panics.
pub fn parse(file_name: &str, text: &str, is_folder: &dyn Fn(&Path) -> bool) -> Parsed {
    read(file_name, text, &Folders(is_folder)).parsed
}

/// A configuration that was read, or is refused.
pub(crate) struct ReadFiles {
    pub(crate) parsed: Parsed,
    /// The files that are named, even when it is refused.
    pub(crate) named: Named,
    pub(crate) included: Vec<IncludedFile>,
}

/// The same, with the files that are named and included.
pub(crate) fn read(file_name: &str, text: &str, machine: &dyn Machine) -> ReadFiles {
    let mut reading = Reading::new(file_name, text, machine).of_file(&keys::FILE);
    let whole = text;
    let text = syntax::without_slips(&reading.parts()[0], &reading);
    let mut tree = text.as_deref().map(|text| DeTable::parse_recoverable(text).0);
    let includes = tree.as_ref().and_then(|tree| {
        let root = Table::unchecked(&keys::FILE, tree.get_ref(), &reading);
        root.optional(&keys::INCLUDE)
    });
    let included = include::files(includes.unwrap_or_default(), &reading);
    included.iter().for_each(|IncludedFile { name, text }| reading.add(name, text));
    let texts = texts_of_others(&reading);
    if let Some(root) = &mut tree {
        for (part, text) in reading.parts().iter().skip(1).zip(&texts) {
            let Some(text) = text else { continue };
            let (of_part, _) = DeTable::parse_recoverable(text);
            include::merge(root.get_mut(), of_part.into_inner(), (part, &reading));
        }
    }
    let has_slips = !reading.is_clean();
    let config =
        tree.as_ref().and_then(|tree| config(&Table::open(&keys::FILE, tree.get_ref(), 0..0, &reading)));
    if has_slips {
        reading.forget_missing();
    }
    let main = &reading.parts()[0];
    let foreign = foreign::file(main, &reading).or_else(|| foreign::no_configuration(whole, file_name));
    let (problems, named) = reading.finish();
    if let Some(problem) = foreign::holds_pem(whole, file_name) {
        // Also as a text that would be valid: it would be taken for the name of a file.
        return ReadFiles { parsed: Err(vec![problem]), named: Named::default(), included: Vec::new() };
    }
    let parsed = match config {
        Some(config) if !problems.iter().any(Problem::is_error) => {
            Ok((Config { places: named.places.clone(), ..config }, problems))
        }
        // Problems of each line do not help where the file is another program's.
        _ => Err(foreign.map_or(problems, |foreign| vec![foreign])),
    };
    ReadFiles { parsed, named, included }
}

/// The included files, each without lines that have slips; files of another program are noted, and left out.
fn texts_of_others<'r>(reading: &Reading<'r>) -> Vec<Option<Cow<'r, str>>> {
    let text = |part: &Part<'r>| {
        let foreign = foreign::file(part, reading);
        let foreign = foreign.or_else(|| foreign::no_configuration(part.text(), part.file()));
        match foreign {
            Some(problem) => {
                reading.add_problem(problem);
                None
            }
            None => syntax::without_slips(part, reading),
        }
    };
    reading.parts().iter().skip(1).map(text).collect()
}

/// The keys that need a restart, with their values. All of them are keys of sections of the file itself.
fn restart_settings(root: &Table<'_>) -> RestartSettings {
    let values = |section: &'static Section, key: &'static dyn Entry| {
        if !section.is_list() {
            return vec![root.inner(section).comparable(key)];
        }
        let tables = root.inner_list(section);
        let written = tables.iter().filter(|table| table.written(key).is_some());
        written.map(|table| format!("{:?} {}", table.written_name(), table.comparable(key))).collect()
    };
    let keys =
        keys::FILE.sections.iter().flat_map(|section| section.keys.iter().map(move |key| (*section, *key)));
    let keys = keys.filter(|(_, key)| !key.needs_restart.is_empty());
    let settings =
        keys.map(|(section, key)| RestartSetting { key: section.path_of(key), values: values(section, key) });
    RestartSettings(settings.collect())
}

/// The whole file. `None` when something is wrong, which is then noted; so for all functions below.
fn config(root: &Table<'_>) -> Option<Config> {
    let process = process(&root.inner(&keys::PROCESS));
    let log_section = root.inner(&keys::ACCESS_LOG);
    let access_log = log_section.or_default(&keys::LOG_TO);
    let access_log_format = log_section.or_default(&keys::LOG_FORMAT);
    let access_log_redact = log_section.list(&keys::LOG_REDACT_QUERY);
    let admin_section = root.inner(&keys::ADMIN);
    let admin = admin_section.or_default(&keys::ADMIN_LISTEN);
    let admin_hosts = admin_section.list(&keys::ADMIN_HOSTS);
    let admin_token_file = admin_section.optional(&keys::ADMIN_TOKEN_FILE);
    // Also where each service has its own: problems of these sections are reported in any case.
    limits(&root.inner(&keys::LIMITS));
    tickets(&root.inner(&keys::TICKETS), root);

    let acme = acme::acme(root);
    let fleet = fleet::fleet(root);
    let mut listeners = Listeners::default();
    listeners.admin(&admin_section, admin.as_ref(), admin_token_file.is_some());
    let sections = root.inner_list(&keys::SERVICE);
    check::names(&sections, &keys::NAME, "services");
    check::cache_folders(&sections);
    let services: Vec<Option<Service>> = sections
        .iter()
        .map(|section| service(section, root, (&process, acme.as_ref()), &mut listeners))
        .collect();
    let orders = root.reading().named().certificates.iter().any(|entries| acme::is_ordered(entries));
    acme::check_use(root, orders);
    acme::check_keys(root, acme.as_ref().and_then(Option::as_ref), process.private_keys_apart);
    if services.is_empty() && root.span_of(&keys::SERVICE).is_none() {
        let cure = "write [[service]] with `listen`, `backend` and `certificate`";
        root.missing(Fault::new("there is no service").hint(cure));
    }
    let services = services.into_iter().collect::<Option<Vec<_>>>()?;
    let service_files = match root.reading().parts() {
        [_] => Vec::new(),
        _ => sections.iter().map(|section| root.reading().part(section.span()).file().to_owned()).collect(),
    };
    let access_log = programs::access_log(&log_section, access_log, &services);
    let admin = programs::admin(&admin_section, admin, &services);
    let config = Config {
        process,
        access_log,
        access_log_format,
        access_log_redact,
        admin,
        admin_hosts,
        admin_token_file,
        acme: acme?,
        fleet: fleet?,
        services,
        service_files,
        restart: restart_settings(root),
        places: Places::default(),
    };
    fleet::check_use(root, &config.services, config.acme.as_ref());
    check::of_file(root, &config);
    programs::check_stdin(root, &config);
    Some(config)
}

fn process(section: &Table<'_>) -> Process {
    let process = Process {
        threads: section.optional(&keys::THREADS),
        user: section.optional(&keys::USER),
        group: section.optional(&keys::GROUP),
        max_connections: section.optional(&keys::PROCESS_CONNECTIONS),
        drain_delay: section.or_default(&keys::DRAIN_DELAY),
        drain: section.or_default(&keys::DRAIN),
        watch_interval: section.or_default(&keys::WATCH_INTERVAL),
        keep_removed_certificates: section.or_default(&keys::KEEP_REMOVED),
        weak_keys: section.list(&keys::WEAK_KEYS),
        upgrade_socket: section.optional(&keys::UPGRADE_SOCKET),
        private_keys_apart: section.or_default(&keys::PRIVATE_KEYS),
        sandbox: section.or_default(&keys::SANDBOX),
        sandbox_folders: section.list(&keys::SANDBOX_FOLDERS),
        compression_memory: section.optional(&keys::COMPRESSION_MEMORY),
        state_folder: section.optional(&keys::STATE_FOLDER),
    };
    check::process(section, &process);
    let placed =
        |name: &Option<String>, key| Some((name.clone()?, section.reading().place(&section.written(key)?)));
    let (user, group) = (placed(&process.user, &keys::USER), placed(&process.group, &keys::GROUP));
    let mut named = section.reading().named();
    named.weak_keys.extend_from_slice(&process.weak_keys);
    (named.user, named.group) = (user, group);
    process
}

/// Limits; those of a service inherit `[limits]`.
fn limits(section: &Table<'_>) -> Limits {
    let limits = Limits {
        handshake: section.or_default(&keys::HANDSHAKE),
        hello_bytes: section.or_default(&keys::HELLO_BYTES),
        connect: section.or_default(&keys::CONNECT),
        idle: section.or_default(&keys::IDLE),
        half_closed: section.or_default(&keys::HALF_CLOSED),
        backend_ended: section.or_default(&keys::HALF_CLOSED_CLIENT),
        lifetime: section.or_default(&keys::LIFETIME),
        unacknowledged: section.or_default(&keys::TCP_USER_TIMEOUT),
        keepalive: section.or_default(&keys::TCP_KEEPALIVE),
        resolve: section.or_default(&keys::RESOLVE),
        backend_failures: section.or_default(&keys::BACKEND_FAILURES),
        backend_retry: section.or_default(&keys::BACKEND_RETRY),
    };
    check::limits(section, &limits);
    limits
}

/// Tickets; those of a service inherit `[tickets]`.
fn tickets(section: &Table<'_>, root: &Table<'_>) -> Tickets {
    let without_file = if fleet::is_there(root) { KeySource::Fleet } else { KeySource::Memory };
    Tickets {
        per_handshake: section.or_default(&keys::PER_HANDSHAKE),
        key_source: section.optional(&keys::KEY_FILE).map_or(without_file, KeySource::File),
        rotate: section.or_default(&keys::ROTATE),
        lifetime: section.or_default(&keys::TICKET_LIFETIME),
    }
}

/// The limits of an empty configuration; `explain.rs` names what differs.
pub(crate) fn default_limits() -> Limits {
    limits(&Table::absent(&keys::LIMITS, &Reading::new("", "", &Nowhere)))
}

/// TLS towards clients; the inner `None`: no client's TLS ends here, and no certificate is needed.
fn tls(section: &Table<'_>, root: &Table<'_>, around: &Around<'_>, terminates: bool) -> Option<Option<Tls>> {
    if !terminates && section.written(&keys::CERTIFICATE).is_none() {
        return Some(None);
    }
    let certificates = certificates(section);
    let client_certificates = section
        .read(&keys::CLIENT_CERTIFICATES, |inner| client_certificates(inner, around.listen, around.site));
    Some(Some(Tls {
        unknown_name: section.or_default(&keys::UNKNOWN_NAME),
        policy: around.policy.clone(),
        alpn: http::client_alpn(section, around.http),
        tickets: tickets(
            &section.inner(&keys::SERVICE_TICKETS).inheriting(&root.inner(&keys::TICKETS)),
            root,
        ),
        certificates: certificates?,
        client_certificates: client_certificates?.unwrap_or(ClientCertificates::Off),
    }))
}

/// The certificates; a single one can have its key in `key`.
fn certificates(section: &Table<'_>) -> Option<Vec<CertificateEntry>> {
    let certificates = section.required(&keys::CERTIFICATE);
    let key = section.optional(&keys::CERTIFICATE_KEY);
    let mut sources = values(certificates?);
    let is_in_place = key.is_some() || section.written(&keys::CERTIFICATE_KEY).is_none();
    let wrong = match (sources.as_mut_slice(), key) {
        (_, None) => None,
        ([CertificateEntry::File { key: slot @ None, .. }], key) => {
            *slot = key;
            None
        }
        ([CertificateEntry::File { .. }], _) => {
            Some(("the certificate has its key already", "write the key once"))
        }
        ([CertificateEntry::Folder(_)], _) => Some((
            "`key` cannot go with a folder",
            "put the key into the folder, in the certificate's file or beside it",
        )),
        ([CertificateEntry::Acme { .. }], _) => Some((
            "`key` cannot go with `acme`",
            "remove it: keys of certificates that are ordered are made here",
        )),
        _ => Some((
            "`key` cannot go with several certificates",
            "write each with its key: `certificate = [{ certificate = \"a.pem\", key = \"a.key\" }, …]`",
        )),
    };
    if let Some((what, hint)) = wrong {
        let certificate = section.written(&keys::CERTIFICATE).unwrap_or_default();
        let fault = Fault::new(what).hint(hint).see(certificate, "the certificate");
        section.error(&keys::CERTIFICATE_KEY, fault);
        return None;
    }
    // A wrong key is reported itself; the certificate would be reported to lack it.
    if is_in_place {
        section.reading().named().certificates.push(sources.clone());
    }
    Some(sources)
}

fn rules(service: &Table<'_>, around: &Around<'_>) -> Option<Vec<ServiceRule>> {
    let sections = service.inner_list(&keys::RULE);
    clients::check_service(service, around.clients, &sections);
    let mut names = check::RuleNames::default();
    let rules: Vec<Option<ServiceRule>> =
        sections.iter().map(|section| rule(section, around, &mut names)).collect();
    rules.into_iter().collect()
}

fn rule(section: &Table<'_>, around: &Around<'_>, names: &mut check::RuleNames) -> Option<ServiceRule> {
    let client_alpn = section.list(&keys::RULE_CLIENT_ALPN);
    let patterns = if section.written(&keys::RULE_CLIENT_ALPN).is_some() {
        Some(section.optional(&keys::RULE_NAMES).unwrap_or_default())
    } else {
        section.required(&keys::RULE_NAMES)
    };
    if let Some(patterns) = &patterns {
        names.rule(section, patterns, client_alpn.is_empty());
    }
    let policy = policy::of_rule(section, around.policy);
    let client_certificates = section.read(&keys::RULE_CLIENT_CERTIFICATES, |inner| {
        client_certificates(inner, around.listen, around.site)
    });
    let alpn = section.optional(&keys::RULE_ALPN).map(values);
    http::check_client_alpn(section, &keys::RULE_ALPN, around.http);
    let backends = section.optional(&keys::RULE_BACKEND);
    let listed = backends.as_deref().unwrap_or_default();
    check::backends(section, &keys::RULE_BACKEND, around.listen, listed);
    site::check_others(section, &keys::RULE_BACKEND, around.site);
    let pass_through = section.optional(&keys::RULE_PASS_THROUGH);
    clients::check_rule(section, around.clients, pass_through);
    let site = around.site.filter(|_| backends.is_none());
    let own_tls = (site, around.backend_tls);
    let own_tls = site::backend_tls(section, &keys::RULE_BACKEND_TLS, around.http, own_tls);
    let tls_of_rule = own_tls.as_ref().and_then(Option::as_ref);
    if let Some(tls) = tls_of_rule.or(around.backend_tls) {
        // The service's backends are checked here only against the rule's own TLS: the rest is reported at the service.
        let of_service = if tls_of_rule.is_some() { around.backends } else { &[] };
        backend_tls::check_names(section, tls, backends.as_deref().unwrap_or(of_service));
    }
    Some(ServiceRule {
        names: values(patterns?),
        client_alpn,
        pass_through,
        policy,
        client_certificates: client_certificates?,
        alpn,
        backends: backends.map(|backends| values(backends).into()),
        backend_tls: own_tls?.map(|tls| tls.value),
    })
}

#[cfg(test)]
mod tests;
