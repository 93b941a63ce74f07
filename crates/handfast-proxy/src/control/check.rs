//! `handfast check`: everything that is wrong with a configuration and its files, and what would prevent this machine and this user from
//! serving it. Everything is tried as a start does it, as the user that it would be done by, and undone at once.

use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use handfast_net::limits::raise_file_limit;
use handfast_net::listen;
use handfast_pki::throwaway;
use handfast_tls::ticket::KeySource;
use rustix::fs::{Access, access};

use crate::backends::{checks, names};
use crate::cache;
use crate::control::error::Error;
use crate::control::start::threads;
use crate::control::{acme, fleet, maintenance};
use crate::state::{self, Built, CarriedOver, Report};
use handfast_config::model::{AccessLog, Address, CertificateEntry, Config, OnlyClient, Target};
use handfast_config::source::{ConfigSource, ReadConfig, read_file};
use handfast_config::{ExplainTarget, explain};
use handfast_process::error::Error as ProcessError;
use handfast_process::limits::Descriptors;
use handfast_process::privileges::ServiceUser;
use handfast_process::trusted_path::{self, folder_of};
use handfast_process::writable_files::unreadable;

/// Result of a check.
#[derive(Debug)]
pub struct CheckReport {
    /// True if the configuration could be served.
    pub good: bool,
    /// Every problem, ready to be shown.
    pub problems: String,
    /// The number of warnings among them.
    pub warnings: usize,
    /// Behaviour of the configuration, in sentences; empty if it cannot be served.
    pub explanation: String,
}

/// Reads a configuration and every file that it names, as a start would, and looks whether this machine and this user could
/// serve it: each address is bound for a moment, and nothing listens.
///
/// `target`: explain how a client is served that asks for this name or URL, instead of everything.
///
/// A ticket-key file or a log that is not there yet is not made, and no throwaway certificate is written.
pub fn check(source: &ConfigSource, target: Option<&ExplainTarget>, color: bool) -> CheckReport {
    let ReadConfig { config, notes, warnings } = match source.read_counted(color, &read_file) {
        Ok(read) => read,
        Err(error) => {
            let problems = error.to_string();
            return CheckReport { good: false, problems, warnings: 0, explanation: String::new() };
        }
    };
    let now = SystemTime::now();
    let mut carried = CarriedOver { threads: 1, ..CarriedOver::default() };
    let mut tried = config.clone();
    without_making(&mut tried);
    let mut problems = notes;
    if has_throwaway(&config) {
        match throwaway::make(None, now) {
            Ok(throwaway) => carried.throwaway = Some(Arc::new(throwaway)),
            Err(error) => problems.push_str(&format!("error: {error}\n")),
        }
    }
    let Built { state, report, .. } = state::build(tried, 0, None, &mut carried, now);
    let files: Vec<_> =
        state.iter().flat_map(|state| state.files.iter().map(|(path, _)| path.clone())).collect();
    let mut found = inspect_machine(&config, &files);
    found.warnings.extend(names::unresolvable(&config));
    problems.push_str(&format!("{report}{found}"));
    let warnings = warnings + report.warnings.len() + found.warnings.len();
    let facts = state.as_ref().map(|state| state.certificate_facts(now)).unwrap_or_default();
    let explanation = match (&state, target) {
        (None, _) => String::new(),
        (Some(state), Some(target)) => state.explain_host(target, now),
        (Some(_), None) => explain(&config, &facts) + &connections(&config) + &dns_records(&config),
    };
    CheckReport { good: state.is_some() && found.errors.is_empty(), problems, warnings, explanation }
}

/// The records in DNS that prove names of ordered certificates, once there is an account.
fn dns_records(config: &Config) -> String {
    let records = acme::ordered(config).map(|(_, records)| records).unwrap_or_default();
    if records.is_empty() {
        return String::new();
    }
    format!("\nRecords in DNS for dns-persist-01:\n  {}\n", records.join("\n  "))
}

/// Ticket keys that are not there yet are not made by looking.
fn without_making(config: &mut Config) {
    for tls in config.services.iter_mut().filter_map(|service| service.tls.as_mut()) {
        let source = &mut tls.tickets.key_source;
        if source.file().is_some_and(|file| !file.exists()) {
            *source = KeySource::Memory;
        }
    }
}

fn has_throwaway(config: &Config) -> bool {
    let is_throwaway = |source: &CertificateEntry| matches!(source, CertificateEntry::Throwaway { .. });
    let mut tls = config.services.iter().filter_map(|service| service.tls.as_ref());
    tls.any(|tls| tls.certificates.iter().any(is_throwaway))
}

/// Checks everything that a start needs of the machine. `files` are those that a reload will want to read again.
fn inspect_machine(config: &Config, files: &[PathBuf]) -> Report {
    let mut found = Report::default();
    limits(config, &mut found);
    let process = &config.process;
    let user = ServiceUser::from(process);
    // One that is not there is reported once, below.
    let known = if user.resolve().is_ok() { user.clone() } else { ServiceUser::default() };
    addresses(config, &known, &mut found);
    made_before_the_user_is_changed(config, &known, &mut found);
    if let Err(problem) = acme::check_keys(config) {
        found.error(problem);
    }
    let has_user = process.user.is_some();
    let as_user = user.act(|| {
        access_log(config, has_user, &mut found);
        stores(config, &mut found);
        if let Err(problem) = maintenance::check_file(config) {
            found.error(problem);
        }
        if let Some(problem) = fleet::secret_problem(config) {
            found.error(problem);
        }
        programs(config, &mut found);
        if has_user {
            found.warnings.extend(unreadable(config, files));
        }
    });
    if let Err(error) = as_user {
        found.error(error);
        // A problem for the present user too is reported at once.
        access_log(config, has_user, &mut found);
    }
    found
}

fn limits(config: &Config, found: &mut Report) {
    if let Err(error) = descriptors(config) {
        found.error(error);
    }
}

/// Shares of the open files that this process may have.
fn descriptors(config: &Config) -> Result<Descriptors, Error> {
    let limit = raise_file_limit().map_err(Error::system("raise the limit on open files"))?;
    Ok(Descriptors::share_out(config, limit, checks::MAX_CONCURRENT_CHECKS, threads(config))?)
}

/// The sentence about that; none where it is an error, which is reported as such.
fn connections(config: &Config) -> String {
    let shared = descriptors(config);
    shared.map(|shared| format!("\nStarted from here: {}.\n", shared.describe())).unwrap_or_default()
}

/// Checks that each address can be listened on. An address in use is a warning: the program to be replaced may use it.
fn addresses(config: &Config, user: &ServiceUser, found: &mut Report) {
    // It is the very program that this configuration is for.
    let runs = config.admin.as_ref().is_some_and(|address| handfast_admin::neighbour(address).is_some());
    let services = config.services.iter().flat_map(|service| {
        service.listen.iter().map(|address| (address, format!("service {}", service.name)))
    });
    let admin = config.admin.iter().map(|address| (address, "admin".to_owned()));
    for (address, whose) in services.chain(admin) {
        let outcome = match address {
            Address::Ip(address) => listen::try_out(*address),
            Address::Unix(path) => user.try_on(path, || unix(path)),
        };
        let Err(source) = outcome else { continue };
        let kind = source.kind();
        let problem = ProcessError::Listen { address: address.clone(), owner: whose, source }.to_string();
        match kind {
            io::ErrorKind::AddrInUse if runs => {}
            io::ErrorKind::AddrInUse => found.warn(problem),
            _ => found.error(problem),
        }
    }
}

fn unix(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if metadata.file_type().is_socket() => {
            match std::os::unix::net::UnixStream::connect(path) {
                Ok(_) => Err(io::ErrorKind::AddrInUse.into()),
                // Left behind: it is replaced, which its folder must allow.
                Err(_) => writable(folder_of(path)),
            }
        }
        Ok(_) => Err(io::Error::new(io::ErrorKind::AlreadyExists, "the path exists and is not a socket")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => writable(folder_of(path)),
        Err(error) => Err(error),
    }
}

/// Checks that the programs that serve connections, or are clients, can be executed.
fn programs(config: &Config, found: &mut Report) {
    for service in &config.services {
        let sets = service.backend_sets();
        let targets = sets.iter().flat_map(|set| set.backends.iter()).map(|backend| &backend.target);
        let backends = targets.filter_map(|target| match target {
            Target::Program(program) => Some(program),
            _ => None,
        });
        let client = service.only_client.iter().filter_map(|client| match client {
            OnlyClient::Program { program, .. } => Some(program),
            OnlyClient::Stdin => None,
        });
        for program in backends.chain(client) {
            if let Err(error) = access(&program.path, Access::EXEC_OK) {
                let (path, name) = (program.path.display(), &service.name);
                found.warn(format!(
                    "{path}: cannot be executed: {error}; the connections of service {name} would fail"
                ));
            }
        }
    }
}

/// Files that are made with the rights of the user that starts the program.
fn made_before_the_user_is_changed(config: &Config, user: &ServiceUser, found: &mut Report) {
    for tls in config.services.iter().filter_map(|service| service.tls.as_ref()) {
        if let Some(file) = tls.tickets.key_source.file().filter(|file| !file.exists())
            && let Err(error) = user.try_on(file, || writable(folder_of(file)))
        {
            found.error(cannot("create the ticket-key file", file, &error));
        }
        for source in &tls.certificates {
            if let CertificateEntry::Throwaway { ca_file } = source
                && let Err(error) = user.try_on(ca_file, || writable(folder_of(ca_file)))
            {
                found.error(cannot("write the throwaway CA to", ca_file, &error));
            }
        }
    }
}

/// Checks that the access log can be opened. As root, an existing file that only root can replace is handed over to the user first.
fn access_log(config: &Config, has_user: bool, found: &mut Report) {
    let path = match &config.access_log {
        AccessLog::File(path) => path,
        AccessLog::Syslog(path) | AccessLog::Journald(path) => {
            // The peer notices nothing of it.
            let connected = UnixDatagram::unbound().and_then(|socket| socket.connect(path));
            return found.errors.extend(connected.err().map(|error| no_daemon(path, &error)));
        }
        AccessLog::Off | AccessLog::Stdout => return,
    };
    let folder = writable(folder_of(path));
    let is_handed_over = has_user && trusted_path::resolve(path).is_ok();
    let opened = match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Ok(metadata) if is_handed_over && metadata.permissions().mode() & 0o200 != 0 => Ok(()),
        Ok(_) if is_handed_over => Err(io::ErrorKind::PermissionDenied.into()),
        Ok(_) => access(path, Access::WRITE_OK).map_err(io::Error::from),
        Err(error) if error.kind() == io::ErrorKind::NotFound => match folder {
            Ok(()) => Ok(()),
            Err(error) => return found.error(cannot("open the access log", path, &error)),
        },
        Err(error) => Err(error),
    };
    match (opened, folder) {
        (Err(error), _) => found.error(cannot("open the access log", path, &error)),
        (Ok(()), Err(error)) => found.warn(format!(
            "{}: its folder: {error}; the log is written, but can be reopened after a rotation only if something else \
             creates the file",
            path.display()
        )),
        (Ok(()), Ok(())) => {}
    }
}

fn writable(folder: &Path) -> io::Result<()> {
    if !std::fs::metadata(folder)?.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    Ok(access(folder, Access::WRITE_OK | Access::EXEC_OK)?)
}

/// Checks that the folders for the store of ordered certificates and for caches are writable, or can be created.
fn stores(config: &Config, found: &mut Report) {
    let ordered = config.acme.iter().map(|acme| ("ordered certificates", acme.folder.as_path()));
    let caches = cache::folders(config).map(|folder| ("the cache of a service", folder));
    let state = config
        .process
        .state_folder
        .iter()
        .map(|folder| ("which services are in maintenance", folder.as_path()));
    for (what, folder) in ordered.chain(caches).chain(state) {
        // A start creates missing folders in the first existing folder above.
        let there = folder.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("."));
        if let Err(error) = writable(there) {
            let place = config.places.suffix(folder);
            let what = format!("keep {what} in {}{place}: {}: {error}", folder.display(), there.display());
            found.error(format!("{what}\n  hint: make the folder, and give it to the user that serves"));
        }
    }
}

/// No process reads the lines of the access log.
fn no_daemon(socket: &Path, error: &io::Error) -> String {
    let socket = socket.display();
    format!(
        "cannot open the access log at the socket {socket}: {error}\n  hint: start the daemon that listens there, or name a file in \
         [access-log]"
    )
}

/// Describes an operation on `file` that fails because of its folder or itself.
fn cannot(act: &str, file: &Path, error: &io::Error) -> String {
    let folder = folder_of(file).display();
    let hint = match error.kind() {
        io::ErrorKind::NotFound => format!("\n  hint: create its folder: mkdir -p {folder}"),
        io::ErrorKind::PermissionDenied => {
            format!("\n  hint: give the folder to the user that serves: see ls -ld {folder}")
        }
        _ => String::new(),
    };
    format!("{act} {}: {error}{hint}", file.display())
}

#[cfg(test)]
mod tests;
