//! `handfast check`: everything that is wrong with a configuration and its files, without serving it.

use std::sync::Arc;
use std::time::SystemTime;

use handfast_tls::throwaway;
use handfast_tls::ticket::KeySource;

use crate::backends::names;
use crate::control::preflight;
use crate::state::{self, Built, CarriedOver};
use handfast_config::explain;
use handfast_config::model::{CertificateEntry, Config};
use handfast_config::source::ConfigSource;

/// What a check found.
#[derive(Debug)]
pub struct CheckReport {
    /// Whether it could be served.
    pub good: bool,
    /// Every problem, ready to be shown.
    pub problems: String,
    /// What it would do, in sentences; empty when it cannot be served.
    pub explanation: String,
}

/// Reads a configuration and every file that it names, as a start would, and looks whether this machine and this user could
/// serve it: each address is bound for a moment, and nothing listens.
///
/// `host`: explain what becomes of a client that asks for this name, instead of everything.
///
/// A ticket-key file or a log that is not there yet is not made, and no throwaway certificate is written.
pub fn check(source: &ConfigSource, host: Option<&str>, color: bool) -> CheckReport {
    let (config, warnings) = match source.read(color) {
        Ok(read) => read,
        Err(error) => {
            return CheckReport { good: false, problems: error.to_string(), explanation: String::new() };
        }
    };
    let now = SystemTime::now();
    let mut carried = CarriedOver { threads: 1, ..CarriedOver::default() };
    let mut tried = config.clone();
    without_making(&mut tried);
    let mut problems = warnings;
    if has_throwaway(&config) {
        match throwaway::make(None, now) {
            Ok(throwaway) => carried.throwaway = Some(Arc::new(throwaway)),
            Err(error) => problems.push_str(&format!("error: {error}\n")),
        }
    }
    let Built { state, report, .. } = state::build(tried, 0, None, &mut carried, now);
    let files: Vec<_> =
        state.iter().flat_map(|state| state.files.iter().map(|(path, _)| path.clone())).collect();
    let mut found = preflight::look(&config, &files);
    found.warnings.extend(names::unresolvable(&config));
    problems.push_str(&format!("{report}{found}"));
    let facts = state.as_ref().map(|state| state.certificate_facts(now)).unwrap_or_default();
    let explanation = match (&state, host) {
        (None, _) => String::new(),
        (Some(state), Some(host)) => state.explain_host(host, now),
        (Some(_), None) => explain(&config, &facts),
    };
    CheckReport { good: state.is_some() && found.errors.is_empty(), problems, explanation }
}

/// Ticket keys that are not there yet are not made by looking.
fn without_making(config: &mut Config) {
    for service in &mut config.services {
        if let Some(tls) = &mut service.tls {
            let source = &mut tls.tickets.key_source;
            if source.file().is_some_and(|file| !file.exists()) {
                *source = KeySource::Memory;
            }
        }
    }
}

fn has_throwaway(config: &Config) -> bool {
    let throwaway = |source: &CertificateEntry| matches!(source, CertificateEntry::Throwaway { .. });
    config
        .services
        .iter()
        .filter_map(|service| service.tls.as_ref())
        .any(|tls| tls.certificates.iter().any(throwaway))
}
