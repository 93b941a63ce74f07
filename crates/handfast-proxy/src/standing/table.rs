//! The standings of one service's backends by name, and what an operator wants of them, whether they are known now or not.

#![expect(clippy::disallowed_types, reason = "locked when threads take over a state, never on the path")]

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::{Handed, Standing, Wish};

/// The standings of one service's backends, shared by the states of the process that have the service.
#[derive(Debug)]
pub(crate) struct Standings {
    service: Box<str>,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// Kept by those who use them, so that addresses of long ago take no room.
    by_name: HashMap<Box<str>, Weak<Standing>>,
    /// With so many, those of long ago are looked for.
    full: usize,
    /// By a backend's name, or by the name in the configuration that stands for several.
    wishes: BTreeMap<Box<str>, Wish>,
}

impl Known {
    /// What an operator wants of a backend: by its own name, or else by the one that it was resolved from.
    fn wish(&self, name: &str) -> Option<Wish> {
        let by_source = || self.wishes.get(&*resolved_from(name)?);
        self.wishes.get(name).or_else(by_source).copied()
    }
}

/// `db.example:5432` of `db.example=10.0.0.9:5432`: what stands in the configuration.
fn resolved_from(name: &str) -> Option<Box<str>> {
    let (source, address) = name.split_once('=')?;
    let (_, port) = address.rsplit_once(':')?;
    Some(format!("{source}:{port}").into())
}

impl Standings {
    pub(crate) fn new(service: &str) -> Arc<Self> {
        Arc::new(Self { service: service.into(), known: Mutex::default() })
    }

    /// The standing of a backend, made when nobody has it.
    ///
    /// For when a state is taken over or a name resolves to something else: it takes a lock.
    pub(crate) fn of(&self, name: &str) -> Arc<Standing> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(standing) = known.by_name.get(name).and_then(Weak::upgrade) {
            return standing;
        }
        if known.by_name.len() >= known.full {
            known.by_name.retain(|_, standing| standing.strong_count() > 0);
            known.full = known.by_name.len() * 2 + 16;
        }
        let standing = Arc::new(Standing::new(&self.service, name));
        standing.set_wish(known.wish(name));
        known.by_name.insert(name.into(), Arc::downgrade(&standing));
        standing
    }

    /// Takes an operator's word about a backend, or about all that a name of the configuration stands for, now and later.
    pub(crate) fn set_wish(&self, name: &str, wish: Wish) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        // Said of all, it counts for each, whatever was said of that one before.
        known.wishes.retain(|said, _| resolved_from(said).as_deref() != Some(name));
        known.wishes.remove(name);
        // What is as by default needs no word, unless it contradicts one about all.
        if wish != Wish::Up || known.wish(name).is_some() {
            known.wishes.insert(name.into(), wish);
        }
        for (name, standing) in &known.by_name {
            if let Some(standing) = standing.upgrade() {
                standing.set_wish(known.wish(name));
            }
        }
    }

    /// Forgets what an operator said of backends that are not configured any more; what is left of it.
    pub(crate) fn keep_wishes(&self, is_configured: impl Fn(&str) -> bool) -> Vec<(String, Wish)> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.wishes.retain(|name, _| {
            is_configured(name) || resolved_from(name).is_some_and(|source| is_configured(&source))
        });
        known.wishes.iter().map(|(name, wish)| (name.to_string(), *wish)).collect()
    }

    /// What an operator wants of backends, by name and word; and those that are not up.
    pub(crate) fn handed(&self) -> (Vec<(String, String)>, Vec<Handed>) {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let wishes = known.wishes.iter().map(|(name, wish)| (name.to_string(), wish.name().to_owned()));
        let standings = known.by_name.values().filter_map(Weak::upgrade);
        (wishes.collect(), standings.filter_map(|standing| standing.handed()).collect())
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).by_name.len()
    }
}
