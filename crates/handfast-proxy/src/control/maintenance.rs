//! Maintenance of services: by their key, or by the command of an operator, which wins until its end.
//!
//! In: the configuration, requests of the admin listener, what a file or the previous process has. Out: the services in maintenance, for the
//! workers and the status; a line of the log for each change. Commands outlive reloads; `state_file.rs` keeps them over a restart, and an
//! upgrade passes them on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use handfast_admin::MaintenanceRefusal;
use handfast_config::model::{Config, Maintenance, Service};
use handfast_observe::metrics::MaintenanceSnapshot;
use handfast_text::calendar::Utc;

use crate::admission::maintenance::MaintenanceTable;
use state_file::StateFile;

mod state_file;

pub(crate) use state_file::{CommandRecord, StateError};

/// Checks that a start could read the file of commands.
///
/// **Errors**: it is damaged.
pub(crate) fn check_file(config: &Config) -> Result<(), StateError> {
    let file = config.process.state_folder.as_deref().map(StateFile::of);
    file.map_or(Ok(()), |file| file.read().map(drop))
}

/// The maintenance of all services of a process.
#[derive(Debug, Default)]
pub(crate) struct MaintenanceState {
    /// Commands, by service. Those for a service that a reload removed stay: it may come back.
    commands: BTreeMap<String, Command>,
    /// The services in maintenance.
    in_effect: BTreeMap<String, InEffect>,
    /// `None`: a restart ends all commands.
    file: Option<StateFile>,
}

/// A command that put a service in maintenance.
#[derive(Clone, Debug, PartialEq)]
struct Command {
    since: SystemTime,
    maintenance: Maintenance,
}

/// The maintenance of a service that is in effect.
#[derive(Clone, Debug, PartialEq)]
struct InEffect {
    by: By,
    since: SystemTime,
    maintenance: Maintenance,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Key,
    Command,
}

impl By {
    fn name(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Command => "command",
        }
    }
}

impl InEffect {
    fn in_words(&self) -> String {
        let (since, by) = (Utc::of(self.since).for_people(), self.by.name());
        format!("in maintenance since {since} by {by}: {}", self.maintenance.in_words())
    }
}

impl MaintenanceState {
    /// Begins with the commands of the previous process, or else with those of the file. Commands for unknown services are logged.
    ///
    /// Call it as the user that serves, outside of the sandbox: the folder is made if it does not exist.
    ///
    /// **Errors**: the folder cannot be used, or the file is damaged.
    pub(crate) fn begin(config: &Config, given: Option<Vec<CommandRecord>>) -> Result<Self, StateError> {
        let file = StateFile::prepare(config)?;
        let is_given = given.is_some();
        let records = match (given, &file) {
            (Some(given), _) => given,
            (None, Some(file)) => file.read()?,
            (None, None) => Vec::new(),
        };
        let commands = records.into_iter().map(|record| {
            let CommandRecord { service, since, allow, retry_after } = record;
            let retry_after = Duration::from_secs(retry_after)
                .clamp(*Maintenance::RETRY_AFTER.start(), *Maintenance::RETRY_AFTER.end());
            let since = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(since));
            let since = since.unwrap_or(SystemTime::UNIX_EPOCH);
            (service, Command { since, maintenance: Maintenance { allow, retry_after } })
        });
        let state = Self { commands: commands.collect(), in_effect: BTreeMap::new(), file };
        // The previous process may have had no folder, or another one.
        if is_given && let Err(problem) = state.store() {
            tracing::warn!("{problem}; a restart forgets which services are in maintenance");
        }
        for service in state.commands.keys().filter(|service| find_http(config, service).is_none()) {
            tracing::warn!(
                "a command put the service {service} in maintenance, and there is no such service in HTTP mode\n  hint: `handfast maintenance \
                 off {service}` removes this"
            );
        }
        Ok(state)
    }

    /// The commands, for a file or the next process.
    pub(crate) fn records(&self) -> Vec<CommandRecord> {
        let record = |(service, command): (&String, &Command)| {
            let since = command.since.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            CommandRecord {
                service: service.clone(),
                since: since.as_secs(),
                allow: command.maintenance.allow.clone(),
                retry_after: command.maintenance.retry_after.as_secs(),
            }
        };
        self.commands.iter().map(record).collect()
    }

    /// Brings this configuration into effect, and logs what changes.
    pub(crate) fn follow(&mut self, config: &Config) {
        let before = std::mem::take(&mut self.in_effect);
        let now = SystemTime::now();
        for service in &config.services {
            let Some(http) = &service.http else { continue };
            let in_effect = match (self.commands.get(&service.name), &http.maintenance) {
                (Some(Command { since, maintenance }), _) => {
                    InEffect { by: By::Command, since: *since, maintenance: maintenance.clone() }
                }
                (None, Some(maintenance)) => {
                    let known = before.get(&service.name).filter(|known| known.by == By::Key);
                    let since = known.map_or(now, |known| known.since);
                    InEffect { by: By::Key, since, maintenance: maintenance.clone() }
                }
                (None, None) => continue,
            };
            if before.get(&service.name) != Some(&in_effect) {
                tracing::info!("service {}: {}", service.name, in_effect.in_words());
            }
            self.in_effect.insert(service.name.clone(), in_effect);
        }
        for service in before.keys().filter(|service| !self.in_effect.contains_key(*service)) {
            tracing::info!("service {service}: not in maintenance any more");
        }
    }

    /// The same for the workers.
    pub(crate) fn table(&self) -> Arc<MaintenanceTable> {
        let services = self.in_effect.iter();
        let services = services.map(|(name, in_effect)| (name.as_str(), &in_effect.maintenance));
        Arc::new(MaintenanceTable::new(services))
    }

    /// The same for metrics and status.
    pub(crate) fn snapshot(&self, service: &str) -> Option<MaintenanceSnapshot> {
        self.in_effect.get(service).map(|in_effect| MaintenanceSnapshot {
            by: in_effect.by.name().into(),
            since: in_effect.since,
            allow: in_effect.maintenance.allow.iter().map(ToString::to_string).collect(),
            retry_after_seconds: in_effect.maintenance.retry_after.as_secs(),
        })
    }

    /// Puts a service in maintenance by command, or ends that (`None`); returns its state for a person. `source`: the configuration's name.
    ///
    /// **Errors**: there is no such service in HTTP mode, and nothing has changed; or its key keeps it in maintenance, or the change cannot
    /// be stored: then the change is in effect.
    pub(crate) fn change(
        &mut self,
        config: &Config,
        source: &str,
        service: &str,
        requested: Option<Maintenance>,
    ) -> Result<String, MaintenanceRefusal> {
        let before = self.commands.get(service);
        // A command for a service that is gone can be ended.
        if before.is_none() || requested.is_some() {
            check_service(config, service)?;
        }
        match requested {
            Some(maintenance) => {
                let since = before.map_or_else(SystemTime::now, |before| before.since);
                self.commands.insert(service.to_owned(), Command { since, maintenance });
            }
            None => drop(self.commands.remove(service)),
        }
        self.follow(config);
        let state = match self.in_effect.get(service) {
            Some(InEffect { by: By::Key, .. }) => {
                let (service, configuration) = (service.to_owned(), source.to_owned());
                Err(MaintenanceRefusal::ByKey { service, configuration })
            }
            Some(in_effect) => Ok(format!("service {service}: {}", in_effect.in_words())),
            None => Ok(format!("service {service}: not in maintenance")),
        };
        // Also where nothing changes: the last attempt may have failed.
        if let Err(problem) = self.store() {
            let state = state.unwrap_or_else(|refusal| refusal.to_string());
            return Err(MaintenanceRefusal::NotStored { state, problem: problem.to_string() });
        }
        match self.file {
            None if self.commands.contains_key(service) => Ok(format!(
                "{}\nA reload and `handfast upgrade` keep this, a restart ends it\n  hint: name a folder with `state-folder` in [process]",
                state?
            )),
            _ => state,
        }
    }

    fn store(&self) -> Result<(), StateError> {
        self.file.as_ref().map_or(Ok(()), |file| file.write(&self.records()))
    }
}

/// Finds a service in HTTP mode.
fn find_http<'c>(config: &'c Config, name: &str) -> Option<&'c Service> {
    config.services.iter().find(|service| service.name == name && service.http.is_some())
}

fn check_service(config: &Config, name: &str) -> Result<(), MaintenanceRefusal> {
    if find_http(config, name).is_some() {
        return Ok(());
    }
    if config.services.iter().any(|service| service.name == name) {
        return Err(MaintenanceRefusal::NoHttp { service: name.to_owned() });
    }
    let in_http = config.services.iter().filter(|service| service.http.is_some());
    let known = in_http.map(|service| service.name.clone()).collect();
    Err(MaintenanceRefusal::NoService { service: name.to_owned(), known })
}

#[cfg(test)]
mod tests;
