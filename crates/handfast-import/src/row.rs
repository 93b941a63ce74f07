//! A row of the tables of options: the option, its conversion, and an example. The documentation shows the tables, and tests run them.

use crate::note::Fate;

/// The scope of an option.
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
    /// Its scope.
    pub scope: Scope,
    /// Its usual conversion, which the example shows.
    pub fate: Fate,
    /// Lines or arguments to add to a valid configuration.
    pub example: &'static str,
    /// What the example becomes: lines of `handfast.toml`. Empty where nothing is written.
    pub gives: &'static str,
    /// The effect. For [`Fate::Same`]: a remark, or nothing.
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

/// The row of a name; one whose name ends with `*` is for all that begin so.
pub(crate) fn find(rows: &'static [Row], name: &str) -> Option<&'static Row> {
    let begins = |row: &&Row| row.name.strip_suffix('*').is_some_and(|start| name.starts_with(start));
    let family = || rows.iter().filter(begins).max_by_key(|row| row.name.len());
    rows.iter().find(|row| row.name == name).or_else(family)
}
