//! `bind`: addresses, and what they have in common.

use super::grammar::Line;
use super::rows;
use super::state::Import;
use crate::address::Address;
use crate::note::Fate;

/// Maximum number of addresses for a range of ports.
const PORTS: u16 = 64;

/// One `bind`.
#[derive(Clone, Debug)]
pub(super) struct Bind<'d> {
    pub(super) line: &'d Line,
    /// Addresses as Handfast writes them, with their ports.
    pub(super) addresses: Vec<(String, Option<u16>)>,
    /// The options behind the address, with their values.
    pub(super) options: Vec<(String, String)>,
}

impl Bind<'_> {
    pub(super) fn has(&self, name: &str) -> bool {
        self.options.iter().any(|(option, _)| option == name)
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.options.iter().rev().find(|(option, _)| option == name).map(|(_, value)| value.as_str())
    }

    /// Returns the options that two addresses of one service must share, sorted.
    fn settings(&self) -> Vec<&(String, String)> {
        let is_local =
            |name: &str| ["name", "id", "interface", "process", "thread", "maxconn"].contains(&name);
        let mut settings: Vec<_> = self.options.iter().filter(|(name, _)| !is_local(name)).collect();
        settings.sort();
        settings.dedup();
        settings
    }
}

impl<'d> Import<'d> {
    /// The addresses of a proxy, those with the same settings together.
    pub(super) fn binds(&mut self, lines: &[&'d Line]) -> Vec<Vec<Bind<'d>>> {
        let mut groups: Vec<Vec<Bind<'d>>> = Vec::new();
        for line in lines {
            let Some(bind) = self.bind(line) else { continue };
            match groups.iter_mut().find(|group| group[0].settings() == bind.settings()) {
                Some(group) => group.push(bind),
                None => groups.push(vec![bind]),
            }
        }
        groups
    }

    fn bind(&mut self, line: &'d Line) -> Option<Bind<'d>> {
        if line.word(1).starts_with("quic") {
            let effect =
                "HTTP/3 is not served: clients use HTTP/2; remove the field alt-svc, where a rule sets it";
            self.note(line, Fate::Approximated, effect);
            return None;
        }
        let mut options = Vec::new();
        let mut words = line.from(2).iter();
        while let Some(word) = words.next() {
            let name = rows::option_of("bind", word);
            let Some(row) = rows::of(&name) else {
                self.notes.report_unknown(&rows::ROWS, &line.place, &format!("bind {} {word}", line.word(1)));
                continue;
            };
            let value = if row.is_flag() { None } else { words.next().cloned() };
            let text = value.as_ref().map_or_else(|| word.clone(), |value| format!("{word} {value}"));
            self.notes.report(row, &line.place, &format!("bind {} {text}", line.word(1)), "");
            options.push((word.clone(), value.unwrap_or_default()));
        }
        let mut bind = Bind { line, addresses: Vec::new(), options };
        for text in line.word(1).split(',') {
            match addresses(text) {
                Ok(found) => bind.addresses.extend(found),
                Err(error) => self.note_of(line, &format!("bind {text}"), Fate::Refused, error.to_string()),
            }
            if text.starts_with("[::]") && bind.has("v6only") {
                self.note_of(line, &format!("bind {text} v6only"), Fate::Approximated, "it takes IPv4 too");
            }
        }
        Some(bind)
    }
}

/// Reason why an address cannot be listened on.
#[derive(Debug, thiserror::Error)]
enum ListenError {
    #[error("expected an address and a port, or the path of a unix socket")]
    OtherNetwork,
    #[error("expected an address and a port")]
    NoPort,
    #[error("expected a port")]
    WrongPort,
    #[error("a range has at most {PORTS} ports here: write a service for it by hand")]
    LongRange,
    #[error("listeners need an IP address, and no name")]
    HostName,
}

/// Listeners. HAProxy listens on IPv4 alone where no host is written.
fn addresses(text: &str) -> Result<Vec<(String, Option<u16>)>, ListenError> {
    let text = text.strip_prefix("tcp@").unwrap_or(text);
    let (text, host) = match text.strip_prefix("ipv6@").or_else(|| text.strip_prefix("tcp6@")) {
        Some(text) => (text, "::"),
        None => {
            (text.strip_prefix("ipv4@").or_else(|| text.strip_prefix("tcp4@")).unwrap_or(text), "0.0.0.0")
        }
    };
    if let Some(path) = text.strip_prefix("unix@").or(text.starts_with('/').then_some(text)) {
        return Ok(vec![(format!("unix:{path}"), None)]);
    }
    if text.contains('@') {
        return Err(ListenError::OtherNetwork);
    }
    let (before, ports) = text.rsplit_once(':').ok_or(ListenError::NoPort)?;
    let (first, last) = ports.split_once('-').unwrap_or((ports, ports));
    let ports = first.parse::<u16>().ok().zip(last.parse::<u16>().ok());
    let (first, last) = ports.filter(|(first, last)| first <= last).ok_or(ListenError::WrongPort)?;
    if last - first >= PORTS {
        return Err(ListenError::LongRange);
    }
    let before = if before == "*" { "" } else { before };
    let listener = |port: u16| {
        let address = Address::parse(&format!("{before}:{port}")).and_then(|address| address.listener(host));
        let address = address.ok_or(ListenError::HostName)?;
        Ok((if address.starts_with("[::]") { format!("*:{port}") } else { address }, Some(port)))
    };
    (first..=last).map(listener).collect()
}
