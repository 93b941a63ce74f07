//! The table that the documentation shows and the tests go through: every option, what becomes of it, and an example.

use crate::note::Fate;

/// Where an option may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Once, for all services.
    Global,
    /// For a service; before the first one, for all of them.
    Service,
}

/// One option of another program.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// As its manual writes it.
    pub name: &'static str,
    /// Where it may stand.
    pub scope: Scope,
    /// What becomes of it in the usual case, which is that of the example.
    pub fate: Fate,
    /// Lines or arguments that a configuration which works otherwise may have.
    pub example: &'static str,
    /// What the example becomes: lines of `handfast.toml`. Empty where nothing is written.
    pub gives: &'static str,
    /// What changes. For [`Fate::Same`]: a word more, or nothing.
    pub effect: &'static str,
}

/// A row of the table.
pub(crate) const fn row(
    name: &'static str,
    scope: Scope,
    fate: Fate,
    example: &'static str,
    gives: &'static str,
    effect: &'static str,
) -> Row {
    Row { name, scope, fate, example, gives, effect }
}
