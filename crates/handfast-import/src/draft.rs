//! Builds a configuration of Handfast.

use crate::imported::{Imported, NewFiles, ServiceCounts};
use crate::note::{Notes, Outcome};
use crate::toml::{Section, Value};

/// The sections of a service, in the order in which they are written. The first is the service itself.
const SECTIONS: [&str; 11] = [
    "",
    "http",
    "client-certificates",
    "backend-tls",
    "connect-through",
    "check",
    "handshake-rate",
    "proxy-protocol",
    "limits",
    "tickets",
    "cache",
];

/// Reason why a service is refused.
pub(crate) const MIXED: &str = "all certificates of an address are ordered, or all are files";

/// A section `acme` with what must be written.
pub(crate) fn acme_section(accepts_terms: bool) -> Section {
    let mut section = Section::default();
    section.put("accept-terms-of-service", accepts_terms);
    section.put("folder", "/var/lib/handfast/acme");
    section
}

/// A service, or a rule of one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Draft {
    sections: [Section; SECTIONS.len()],
    /// The comment in front of it.
    pub(crate) comments: Vec<String>,
    /// Routes in the order in which they are compared.
    pub(crate) routes: Vec<Draft>,
    /// Exceptions by name.
    pub(crate) rules: Vec<Draft>,
}

impl Draft {
    /// A section by its name: `limits`; nothing is the service itself. Names that are not in the list are a mistake of ours.
    pub(crate) fn of(&mut self, section: &str) -> &mut Section {
        let at = SECTIONS.iter().position(|name| *name == section);
        debug_assert!(at.is_some(), "no section {section:?}");
        &mut self.sections[at.unwrap_or(0)]
    }

    pub(crate) fn put(&mut self, section: &str, key: &str, value: impl Into<Value>) {
        self.of(section).put(key, value);
    }

    /// Orders its certificates, besides those of its routes for these names. Returns false if it has some from files.
    pub(crate) fn order<'n>(&mut self, names: impl IntoIterator<Item = &'n str>) -> bool {
        let is_free = self.is_ordered() || !self.of("").has("certificate");
        self.put("", "certificate", "acme");
        names.into_iter().for_each(|name| self.of("").append("acme-names", name));
        is_free
    }

    /// Returns true if its certificates are ordered.
    pub(crate) fn is_ordered(&self) -> bool {
        self.sections[0].text("certificate").as_deref() == Some("\"acme\"")
    }

    /// As it is written, for comparison with another one.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        self.write("", &mut text);
        text
    }

    fn write(&self, header: &str, text: &mut String) {
        for comment in &self.comments {
            text.push_str("\n# ");
            text.push_str(comment);
        }
        for (name, section) in SECTIONS.iter().zip(&self.sections) {
            if name.is_empty() {
                section.write(&format!("[[{header}]]"), text);
            } else if !section.is_empty() {
                section.write(&format!("[{header}.{name}]"), text);
            }
        }
        for rule in &self.rules {
            rule.write(&format!("{header}.rule"), text);
        }
        for route in &self.routes {
            route.write(&format!("{header}.route"), text);
        }
    }
}

/// All of it.
#[derive(Debug, Default)]
pub(crate) struct WholeDraft {
    /// Sections before the services: `process`, `access-log`.
    pub(crate) process: Section,
    pub(crate) access_log: Section,
    pub(crate) admin: Section,
    /// Written if a service orders its certificates.
    pub(crate) acme: Section,
    pub(crate) services: Vec<Draft>,
    /// Names of services that something refused needs.
    left_out: Vec<String>,
    counts: ServiceCounts,
}

impl WholeDraft {
    /// Adds a service, or its name if it was refused.
    pub(crate) fn add(&mut self, name: String, service: Draft, outcome: Outcome) {
        self.counts.count(outcome);
        if outcome == Outcome::Refused { self.left_out.push(name) } else { self.services.push(service) }
    }

    /// Adds the name of a service that was refused.
    pub(crate) fn leave_out(&mut self, name: String) {
        self.count(Outcome::Refused);
        self.left_out.push(name);
    }

    /// Counts a service that is not added whole.
    pub(crate) fn count(&mut self, outcome: Outcome) {
        self.counts.count(outcome);
    }

    /// The result of an import. `from`: what it was made of.
    pub(crate) fn imported(&self, from: &str, notes: Notes, files: NewFiles) -> Imported {
        Imported {
            config: self.write(from),
            notes: notes.into_list(),
            files: files.into_list(),
            services: self.counts,
        }
    }

    /// The text of a `handfast.toml`. `from`: what it was made of.
    fn write(&self, from: &str) -> String {
        let mut text = format!("# Made of {from} by `handfast import`; {}.\n", self.counts);
        let sections = [
            ("[process]", &self.process),
            ("[access-log]", &self.access_log),
            ("[admin]", &self.admin),
            ("[acme]", &self.acme),
        ];
        let is_used = |header: &str| header != "[acme]" || self.services.iter().any(Draft::is_ordered);
        for (header, section) in sections {
            if !section.is_empty() && is_used(header) {
                section.write(header, &mut text);
            }
        }
        for service in &self.services {
            service.write("service", &mut text);
        }
        for name in &self.left_out {
            text.push_str(&format!("\n# The service {name} is not here: something it needs was refused.\n"));
        }
        text
    }
}
