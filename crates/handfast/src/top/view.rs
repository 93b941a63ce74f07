//! What is looked at: a proxy, or a run of `handfast load`, each with its tables.

use handfast_report::run::Run;

use super::run_tables;
use super::table::Table;
use super::tables::{self, Pair};
use crate::screen::Look;

/// Tables that either has at most.
pub(super) const MOST: usize = tables::TABLES.len();

/// What is shown.
pub(super) enum View<'m> {
    Proxy(Pair<'m>),
    Run(&'m Run),
}

impl View<'_> {
    /// The names of the tables in the order of their keys, and shorter ones.
    pub(super) fn names(&self) -> Vec<(&'static str, &'static str)> {
        match self {
            Self::Proxy(_) => tables::TABLES.iter().map(|(name, short, _)| (*name, *short)).collect(),
            Self::Run(_) => run_tables::TABLES.iter().map(|(name, short, _)| (*name, *short)).collect(),
        }
    }

    /// One of them.
    pub(super) fn table(&self, place: usize, look: Look) -> Table {
        match self {
            Self::Proxy(pair) => (tables::TABLES[place].2)(pair, look),
            Self::Run(run) => (run_tables::TABLES[place].2)(run, look),
        }
    }
}
