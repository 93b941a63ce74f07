//! The text of a configuration. The only place in these tests that knows how sections nest and what a test's proxy needs:
//! two threads, the log on standard output, an admin page, ports from the kernel.

use std::fmt::{self, Display};
use std::path::Path;

use super::certificates::localhost;
use super::folder::Folder;

/// A configuration being written.
#[derive(Clone)]
pub(crate) struct Config {
    sections: Vec<Section>,
}

#[derive(Clone)]
struct Section {
    header: String,
    lines: Vec<(String, String)>,
}

impl Config {
    /// Without a service yet.
    pub(crate) fn empty() -> Self {
        Self { sections: Vec::new() }.set("process", "threads", 2).text("access-log", "to", "stdout").text(
            "admin",
            "listen",
            "127.0.0.1:0",
        )
    }

    /// One service named `web` with a certificate for localhost, written to the folder.
    pub(crate) fn to(folder: &Folder, backend: impl Display) -> Self {
        Self::empty().service("web", backend).certificate(&folder.write("web.pem", localhost().combined()))
    }

    /// Adds a service; what is set in `service…` from here on is set in this one.
    pub(crate) fn service(mut self, name: &str, backend: impl Display) -> Self {
        self.add("[[service]]");
        self.text("service", "name", name)
            .text("service", "listen", "127.0.0.1:0")
            .append("service", "backend", backend)
    }

    /// Adds a backend to the last service.
    pub(crate) fn backend(self, backend: impl Display) -> Self {
        self.append("service", "backend", backend)
    }

    /// Adds a certificate (a file with its key, or a folder) to the last service.
    pub(crate) fn certificate(self, path: &Path) -> Self {
        self.append("service", "certificate", path.display())
    }

    /// Adds an exception for a name to the last service.
    pub(crate) fn rule(mut self, name: &str) -> Self {
        self.add("[[service.rule]]");
        self.append("service.rule", "names", name)
    }

    /// Sets a key to a text.
    pub(crate) fn text(self, section: &str, key: &str, value: impl Display) -> Self {
        self.set(section, key, format!("{:?}", value.to_string()))
    }

    /// Adds a text to a list.
    fn append(mut self, section: &str, key: &str, item: impl Display) -> Self {
        let item = format!("{:?}", item.to_string());
        let list = match self.value(section, key) {
            Some(list) => format!("{}, {item}]", list.trim_end_matches(']')),
            None => format!("[{item}]"),
        };
        self.set(section, key, list)
    }

    /// Sets a key to a value as it is written in TOML, in the last section of that name.
    pub(crate) fn set(mut self, section: &str, key: &str, value: impl Display) -> Self {
        let value = value.to_string();
        let lines = &mut self.section(section).lines;
        match lines.iter_mut().find(|(known, _)| known == key) {
            Some((_, old)) => *old = value,
            None => lines.push((key.to_owned(), value)),
        }
        self
    }

    fn value(&mut self, section: &str, key: &str) -> Option<String> {
        self.section(section).lines.iter().find(|(known, _)| known == key).map(|(_, value)| value.clone())
    }

    fn add(&mut self, header: &str) -> &mut Section {
        self.sections.push(Section { header: header.into(), lines: Vec::new() });
        self.sections.last_mut().expect("one was just added")
    }

    /// The last section of a name, inside the last service for names that begin so; made when it is not there.
    fn section(&mut self, name: &str) -> &mut Section {
        let service = self.sections.iter().rposition(|section| section.header == "[[service]]");
        let start = if name.starts_with("service") { service.unwrap_or(0) } else { 0 };
        let headers = [format!("[{name}]"), format!("[[{name}]]")];
        let found = self.sections[start..].iter().rposition(|section| headers.contains(&section.header));
        match found {
            Some(at) => &mut self.sections[start + at],
            None => self.add(&headers[0]),
        }
    }
}

impl Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for section in &self.sections {
            writeln!(f, "{}", section.header)?;
            for (key, value) in &section.lines {
                writeln!(f, "{key} = {value}")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
