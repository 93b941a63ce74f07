//! A frontend, backend or `listen`, and the defaults that it has.

use super::grammar::{Line, Section};

/// One of them.
#[derive(Clone, Debug)]
pub(super) struct Proxy<'d> {
    pub(super) section: &'d Section,
    /// The defaults, the nearest ones first.
    defaults: Vec<&'d Section>,
}

/// All proxies of the files, in their order.
pub(super) fn proxies(sections: &[Section]) -> Vec<Proxy<'_>> {
    let mut all = Vec::new();
    // Each section of defaults with those that it is based on, in the order of the files.
    let mut chains: Vec<(&Section, Vec<&Section>)> = Vec::new();
    for section in sections {
        let named = |name: &str| chains.iter().rev().find(|(known, _)| known.name() == name);
        let chain = |name: &str| {
            named(name)
                .map(|(known, rest)| std::iter::once(*known).chain(rest.iter().copied()).collect::<Vec<_>>())
                .unwrap_or_default()
        };
        match section.kind() {
            "defaults" => {
                let rest = section.from().map(chain).unwrap_or_default();
                chains.push((section, rest));
            }
            "frontend" | "backend" | "listen" => {
                let defaults = match section.from() {
                    Some(name) => chain(name),
                    None => chains
                        .last()
                        .map(|(known, rest)| std::iter::once(*known).chain(rest.iter().copied()).collect())
                        .unwrap_or_default(),
                };
                all.push(Proxy { section, defaults });
            }
            _ => {}
        }
    }
    all
}

impl<'d> Proxy<'d> {
    pub(super) fn name(&self) -> &'d str {
        self.section.name()
    }

    pub(super) fn kind(&self) -> &'d str {
        self.section.kind()
    }

    /// Its own lines, then those of its defaults.
    pub(super) fn lines(&self) -> impl Iterator<Item = &'d Line> {
        let defaults: Vec<_> = self.defaults.clone();
        self.section.lines.iter().chain(defaults.into_iter().flat_map(|section| section.lines.iter()))
    }

    /// The lines that begin with these words, of the defaults first, then its own.
    pub(super) fn all(&self, words: &[&str]) -> Vec<&'d Line> {
        let levels = self.defaults.iter().rev().copied().chain([self.section]);
        levels.flat_map(|section| section.lines.iter()).filter(|line| line.begins(words)).collect()
    }

    /// The line that decides about a setting: the last one, its own before those of its defaults; `None` also where that turns it off.
    pub(super) fn last(&self, words: &[&str]) -> Option<&'d Line> {
        let levels = [self.section].into_iter().chain(self.defaults.iter().copied());
        let mut found = levels.map(|section| section.lines.iter().rev().find(|line| line.begins(words)));
        found.find_map(|line| line).filter(|line| !line.is_off)
    }

    pub(super) fn has(&self, words: &[&str]) -> bool {
        self.last(words).is_some()
    }

    pub(super) fn is_http(&self) -> bool {
        self.last(&["mode"]).is_some_and(|mode| mode.word(1) == "http")
    }

    /// The lines of a condition with this name; its own before those of its defaults.
    pub(super) fn acls(&self, name: &str) -> Vec<&'d Line> {
        let levels = [self.section].into_iter().chain(self.defaults.iter().copied());
        let of = |section: &'d Section| {
            section.lines.iter().filter(|line| line.begins(&["acl", name])).collect::<Vec<_>>()
        };
        levels.map(of).find(|lines| !lines.is_empty()).unwrap_or_default()
    }

    /// The rules that begin with these words, of its defaults first.
    pub(super) fn own(&self, words: &[&str]) -> Vec<&'d Line> {
        self.all(words)
    }

    /// Its servers.
    pub(super) fn servers(&self) -> Vec<&'d Line> {
        self.section.lines.iter().filter(|line| line.begins(&["server"])).collect()
    }

    /// Returns true if no server takes requests: each is disabled or has the weight 0.
    pub(super) fn is_empty(&self) -> bool {
        let is_off = |line: &&Line| {
            line.words.iter().any(|word| word == "disabled")
                || line.words.windows(2).any(|words| words[0] == "weight" && words[1] == "0")
        };
        self.servers().iter().all(is_off)
    }
}
