//! Programs that serve connections, and services that have one client: what contradicts what is around them.

use crate::check::warn_no_effect;
use crate::keys;
use crate::model::{AccessLog, Address, Config, OnlyClient, Service, Target};
use crate::problem::Fault;
use crate::reading::Written;
use crate::schema::Entry;
use crate::table::Table;

/// The one client of a service, if it has one instead of `listen`. `None` when something is wrong, which is then noted.
pub(super) fn only_client(section: &Table<'_>) -> Option<Option<OnlyClient>> {
    let Some(span) = section.written(&keys::ONLY_CLIENT) else { return Some(None) };
    if let Some(listen) = section.written(&keys::LISTEN) {
        let fault = Fault::new("a service with an `only-client` listens nowhere");
        let fault = fault.hint("remove `listen` or `only-client`").see(listen, "it would listen here");
        section.reading().error(&span, fault);
        return None;
    }
    section.optional(&keys::ONLY_CLIENT).map(Some)
}

/// Listen addresses of a service; none if it has an `only-client`.
pub(super) fn listen(section: &Table<'_>) -> Option<Vec<Written<Address>>> {
    match section.written(&keys::ONLY_CLIENT) {
        Some(_) => Some(Vec::new()),
        None => section.required(&keys::LISTEN),
    }
}

/// Reports settings that programs cannot fulfil. `targets`: all targets of connections or requests.
pub(super) fn check_backends(section: &Table<'_>, targets: &[&Target], serves_requests: bool) {
    let Some(program) = targets.iter().find(|target| target.is_program()) else { return };
    let refuse = |key: &dyn Entry, what: String, hint: &str| section.error(key, Fault::new(what).hint(hint));
    if serves_requests {
        let what =
            format!("requests cannot be forwarded to the {program}: it serves one connection and ends");
        refuse(&keys::MODE, what, "remove `mode`, or run an HTTP server and write its address");
    }
    if let Some(span) = section.span_of(&keys::CHECK) {
        let fault = Fault::new(format!("each check would start the {program}"));
        section
            .reading()
            .error(&span, fault.hint("remove the check, or put the program into its own service"));
    }
    let proxy_protocol = section.inner(&keys::PROXY_PROTOCOL);
    if targets.iter().all(|target| target.is_program()) {
        let why = "programs learn the client's address from REMOTE_HOST and REMOTE_PORT";
        warn_no_effect(&proxy_protocol, &keys::SEND, why);
    }
}

/// Address of the admin listener. A service at standard input has none by default, since there may be a process for each client.
pub(super) fn admin(section: &Table<'_>, admin: Option<Address>, services: &[Service]) -> Option<Address> {
    let is_default = section.written(&keys::ADMIN_LISTEN).is_none();
    admin.filter(|_| !(is_default && has_stdin(services)))
}

fn has_stdin(services: &[Service]) -> bool {
    services.iter().any(|service| service.only_client == Some(OnlyClient::Stdin))
}

/// The access log of a process whose standard output may be its client's.
pub(super) fn access_log(section: &Table<'_>, access_log: AccessLog, services: &[Service]) -> AccessLog {
    if !has_stdin(services) || access_log != AccessLog::Stdout {
        return access_log;
    }
    let fault = Fault::new("standard output is the client's, see `only-client`");
    section.error(&keys::LOG_TO, fault.hint("write `syslog`, `journald`, `off`, or a file's path"));
    AccessLog::Off
}

/// Reports settings that are impossible in a process that serves the client at its standard input.
pub(super) fn check_stdin(root: &Table<'_>, config: &Config) {
    if !has_stdin(&config.services) {
        return;
    }
    let others = root.inner_list(&keys::SERVICE);
    if config.services.len() > 1 {
        let what = "the process ends with the client at its standard input, so it can have no other service";
        let hint = "put this service into its own file";
        others.iter().for_each(|section| section.error(&keys::ONLY_CLIENT, Fault::new(what).hint(hint)));
    }
    let process = root.inner(&keys::PROCESS);
    let of_long_lives = [&keys::DRAIN as &dyn Entry, &keys::DRAIN_DELAY, &keys::UPGRADE_SOCKET];
    for key in of_long_lives.into_iter().chain([&keys::WATCH_INTERVAL as &dyn Entry, &keys::SANDBOX_FOLDERS])
    {
        warn_no_effect(&process, key, "the process ends when its one client has ended");
    }
}
