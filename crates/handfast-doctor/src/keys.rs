//! Keys and certificates: in files, below folders, and from servers.
//!
//! In: paths and `HOST:PORT`, lists of known keys. Out: a [`Report`]. `handfast-tls` decides what is weak or invalid, with the
//! same code as in the proxy.

use std::io;
use std::net::ToSocketAddrs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use handfast_leg::blocking::{Connection, Failed, Hello, Line, Problem};
use handfast_net::clock::Moment;
use handfast_pki::load::{Inspected, Inspection};
use handfast_pki::weak::{self, Lists};
use handfast_pki::{Finding as Seen, Reason, Severity as Badness};
use handfast_text::calendar::Utc;
use handfast_text::units::counted;
use handfast_tls::client::{Client, ClientSession, ClientSettings, Verification};

use crate::report::{Finding, Report, Severity};

/// Timeout for connecting to an address of a server, and for a handshake with it.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Folder of the lists of Debian's package openssl-blacklist.
const USUAL_LISTS: &str = "/usr/share/openssl-blacklist";
/// The settings of an examination.
#[derive(Clone, Debug)]
pub struct KeyExamSettings {
    /// Files, folders, and servers as `HOST:PORT`.
    pub what: Vec<String>,
    /// Lists of compromised keys.
    pub lists: Vec<PathBuf>,
    /// A certificate with fewer days left is a finding.
    pub days: u32,
    /// Name and version of the program, for the report.
    pub program: String,
}

/// Arguments that cannot be used; a line for each.
#[derive(Debug, thiserror::Error)]
pub enum WrongUse {
    /// Places that are none.
    #[error("{}", lines_of(.0.iter()))]
    Places(Vec<UnknownPlace>),
    /// Lists of compromised keys that cannot be used.
    #[error("{}", lines_of(.0.iter().map(|finding| format!("--weak-keys {finding}"))))]
    Lists(Vec<handfast_pki::Finding>),
}

fn lines_of(all: impl Iterator<Item = impl ToString>) -> String {
    all.map(|one| one.to_string()).collect::<Vec<_>>().join("\n")
}

/// An argument that is neither a file, a folder nor a server.
#[derive(Debug, thiserror::Error)]
#[error("{0}: no such file or folder, and not HOST:PORT")]
pub struct UnknownPlace(String);

/// Examines all places.
///
/// **Errors**: something that is neither a file, a folder nor `HOST:PORT`; a list that cannot be used.
///
/// **Cost**: a millisecond for each key; up to ten seconds for each server.
pub fn examine(settings: &KeyExamSettings) -> Result<Report, WrongUse> {
    let now = SystemTime::now();
    let subject = match settings.what.len() {
        1 => format!("keys and certificates of {}", settings.what[0]),
        many => format!("keys and certificates of {}", counted(many as u64, "place")),
    };
    let mut report = Report::new(&settings.program, Utc::of(now).to_seconds().to_string(), subject);
    let lists = lists(settings, &mut report)?;
    let targets = settings.what.iter().map(|text| Target::of(text));
    let (targets, wrong): (Vec<_>, Vec<_>) = targets.partition(Result::is_ok);
    if !wrong.is_empty() {
        return Err(WrongUse::Places(wrong.into_iter().filter_map(Result::err).collect()));
    }
    let inspection = Inspection { known_keys: &lists, now, days: settings.days };
    let mut seen = Inspected::default();
    for target in targets.into_iter().flatten() {
        match target {
            Target::Path(path) => inspection.path(&path, &mut seen),
            Target::Server(host, port) => server(&inspection, &host, port, &mut seen, &mut report),
        }
    }
    inspection.compare(&mut seen);
    report_findings(seen, &mut report);
    report.sort();
    Ok(report)
}

/// A place to examine.
enum Target {
    Path(PathBuf),
    Server(String, u16),
}

impl Target {
    fn of(text: &str) -> Result<Self, UnknownPlace> {
        let path = Path::new(text);
        if path.exists() {
            return Ok(Self::Path(path.to_path_buf()));
        }
        let server = text.rsplit_once(':').and_then(|(host, port)| {
            let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
            Some((host, port.parse::<u16>().ok().filter(|port| *port != 0)?))
        });
        match server {
            Some((host, port)) if !host.is_empty() && !host.contains('/') => {
                Ok(Self::Server(host.to_owned(), port))
            }
            _ => Err(UnknownPlace(text.to_owned())),
        }
    }
}

/// The given lists, and those that Debian's package installs.
fn lists(settings: &KeyExamSettings, report: &mut Report) -> Result<std::sync::Arc<Lists>, WrongUse> {
    let mut files = settings.lists.clone();
    let usual = std::fs::read_dir(USUAL_LISTS).into_iter().flatten().flatten().map(|entry| entry.path());
    files.extend(usual.filter(|path| {
        path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"blacklist."))
    }));
    let loaded = weak::load(&files, None);
    if !loaded.findings.is_empty() {
        return Err(WrongUse::Lists(loaded.findings));
    }
    if loaded.lists.is_empty() {
        let why = "no list was given; --weak-keys FILE takes those of CVE-2008-0166 (see docs/diagnose/doctor-keys.md), what is wrong with a key's \
                   numbers is found without";
        report.not_seen("compromised keys, such as Debian's of 2006 to 2008", why);
    }
    Ok(loaded.lists)
}

/// Reason why a server's certificates are unknown.
#[derive(Debug)]
enum Unreached {
    Resolve(io::Error),
    Failed(Failed),
}

impl From<Failed> for Unreached {
    fn from(failed: Failed) -> Self {
        Self::Failed(failed)
    }
}

impl std::fmt::Display for Unreached {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Resolve(error) => write!(f, "resolve its name: {error}"),
            Self::Failed(failed) => failed.fmt(f),
        }
    }
}

fn server(inspection: &Inspection<'_>, host: &str, port: u16, seen: &mut Inspected, report: &mut Report) {
    let name = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    match presented(host, port) {
        Ok(chain) => inspection.presented(&name, &chain, seen),
        Err(error) => {
            let consequence = "its certificates were not examined";
            let finding = Finding::critical("unreachable", format!("{name}: {error}"), consequence);
            report.find(match error {
                Unreached::Failed(Failed { problem: Problem::Session(_) | Problem::NotTls, .. }) => {
                    finding.change("check that the server speaks TLS on this port from the first byte")
                }
                _ => finding,
            });
        }
    }
}

/// The chain that a server presents. Nothing is verified; only a hello and an end are sent.
fn presented(host: &str, port: u16) -> Result<Vec<Vec<u8>>, Unreached> {
    let is_name = host.parse::<std::net::IpAddr>().is_err();
    let settings = ClientSettings {
        verification: Verification::Off,
        server_name: is_name.then(|| host.to_owned()),
        ..ClientSettings::default()
    };
    let client = Client::new(&settings, host).map_err(Failed::session)?;
    let hello = Hello::new(&client, false, &[])?;
    let mut line = dial(host, port)?;
    let end = Moment::now() + TIMEOUT;
    line.send(hello.bytes.filled(), end)?;
    let mut connection = Connection::new(line, Some(hello.session));
    let shaken = connection.shake(end);
    let chain = |session: &ClientSession| session.chain().map(<[u8]>::to_vec).collect();
    let presented: Vec<Vec<u8>> = connection.session.as_ref().map(chain).unwrap_or_default();
    match shaken {
        // The chain is complete; whether the server receives the end does not matter.
        Ok(()) => drop(connection.close(end)),
        // A server that requests a client certificate has sent its own before.
        Err(Failed { problem: Problem::Session(_), .. }) if !presented.is_empty() => {}
        Err(failed) => return Err(failed.into()),
    }
    Ok(presented)
}

fn dial(host: &str, port: u16) -> Result<Line, Unreached> {
    let mut last = Unreached::Resolve(io::Error::other("the name has no address"));
    for address in (host, port).to_socket_addrs().map_err(Unreached::Resolve)? {
        match Line::connect(address, Moment::now() + TIMEOUT) {
            Ok(line) => return Ok(line),
            Err(failed) => last = failed.into(),
        }
    }
    Err(last)
}

fn report_findings(seen: Inspected, report: &mut Report) {
    let looked = format!(
        "{} and {} in {}",
        counted(seen.certificates as u64, "certificate"),
        counted(seen.keys as u64, "private key"),
        counted(seen.files as u64, "file")
    );
    report.fact("looked at", looked);
    if let Some((name, until)) = &seen.first_to_expire {
        let until = Utc::of_seconds(*until).for_people();
        report.fact("first to expire", format!("{name}, on {until}"));
    }
    for (what, why) in seen.unseen {
        report.not_seen(what.display().to_string(), why);
    }
    report.findings.extend(seen.findings.into_iter().filter_map(finding));
}

/// Converts a finding of `handfast-tls`; notes are omitted.
pub(crate) fn finding(seen: Seen) -> Option<Finding> {
    let severity = match seen.severity {
        Badness::Error => Severity::Critical,
        Badness::Warning => Severity::Warning,
        Badness::Note => return None,
    };
    let (topic, consequence) = meaning(seen.reason);
    let title = format!("{}: {}", seen.file.display(), seen.message);
    let mut finding = Finding::new(severity, topic, title, consequence);
    finding.change.extend(seen.hint);
    Some(finding)
}

/// Its topic, and its consequence if the message does not contain one.
const fn meaning(reason: Reason) -> (&'static str, &'static str) {
    match reason {
        Reason::WeakKey => ("weak-key", "an attacker with the private key can impersonate this server"),
        Reason::SharedKey => ("shared-key", ""),
        Reason::Expired => ("certificate-expiry", "from then on clients refuse the connection"),
        Reason::NotYetValid => ("certificate-expiry", "clients refuse the connection until then"),
        Reason::ChainOrder => (
            "chain-order",
            "some clients, most of them old, cannot build the chain and refuse the connection",
        ),
        Reason::ChainIncomplete => (
            "chain-incomplete",
            "browsers may fetch the missing certificate; other programs do not, and refuse the connection",
        ),
        Reason::BadSignature => ("chain-signature", "clients refuse the connection"),
        Reason::BrokenHash => {
            ("signature-hash", "browsers refuse the connection, and so does OpenSSL from 3.0 on")
        }
        Reason::LongValidity => {
            ("certificate-validity", "browsers, or Apple's systems, refuse the connection")
        }
        Reason::Permissions => ("key-permissions", "a user who can read the key can impersonate this server"),
        Reason::KeyDoesNotFit => ("key-does-not-fit", "no server starts with this pair"),
        Reason::NoNames => ("certificate-names", "clients refuse it for every name"),
        Reason::BadKey => ("key-kind", "clients refuse the connection"),
        _ => ("unreadable", "it cannot be served, and its content is unknown"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_is_a_path_or_a_server_or_wrong() {
        let target = |text: &str| match Target::of(text) {
            Ok(Target::Path(path)) => path.display().to_string(),
            Ok(Target::Server(host, port)) => format!("{host} {port}"),
            Err(wrong) => wrong.to_string(),
        };
        assert_eq!(target("/"), "/");
        assert_eq!(target("example.org:443"), "example.org 443");
        assert_eq!(target("[::1]:8443"), "::1 8443");
        for wrong in ["/none.pem", "example.org", "example.org:0", ":443", "a/b:443", "example.org:https"] {
            assert!(target(wrong).contains("no such file or folder, and not HOST:PORT"), "{wrong}");
        }
    }

    #[test]
    fn notes_are_no_findings_and_every_finding_keeps_its_cure() {
        let seen = |severity| Seen {
            severity,
            reason: Reason::Expired,
            file: PathBuf::from("a.pem"),
            message: "expired".to_owned(),
            hint: Some("renew it".to_owned()),
        };
        assert_eq!(finding(seen(Badness::Note)), None);
        let found = finding(seen(Badness::Error)).expect("a finding");
        assert_eq!(
            (found.severity, found.topic, found.title.as_str()),
            (Severity::Critical, "certificate-expiry", "a.pem: expired")
        );
        assert_eq!(found.change, ["renew it"]);
    }
}
