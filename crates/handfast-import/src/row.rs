//! Tables of options: the option, its conversion, and an example. The documentation shows the tables, and tests run them.
//!
//! In: a file of `tables`. Out: its rows. A line is a row, with tabs between its columns: name, scope, fate, marks, example, gives, effect, checked;
//! `\n` is the end of a line in an example. The first line has the names of the columns, and lines that start with `#` are comments.

use std::sync::LazyLock;

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
#[derive(Debug)]
pub struct Row {
    /// As its manual writes it; one that ends with `*` is for all that begin so.
    pub name: &'static str,
    /// Its scope.
    pub scope: Scope,
    /// Its usual conversion, which the example shows.
    pub fate: Fate,
    /// `code`: its notes come from the code that converts it. `flag`: it has no value. `unless=VALUE`: no note for this value.
    marks: &'static str,
    /// Lines or arguments to add to a valid configuration.
    pub example: String,
    /// Conversion of the example: lines of `handfast.toml`. Empty where nothing is written.
    pub converted: String,
    /// The effect. For [`Fate::Same`]: a remark, or nothing.
    pub effect: &'static str,
    /// The newest version of the program that the row was compared with.
    pub checked: &'static str,
}

impl Row {
    /// Parses a line of a table.
    fn parse(line: &'static str) -> Option<Self> {
        let columns: Vec<&'static str> = line.split('\t').collect();
        let [name, scope, fate, marks, example, gives, effect, checked] = columns[..] else { return None };
        let scope = match scope {
            "global" => Scope::Global,
            "service" => Scope::Service,
            _ => return None,
        };
        let fates = [Fate::Same, Fate::Approximated, Fate::Dropped, Fate::Refused];
        let fate = fates.into_iter().find(|known| known.word() == fate)?;
        let lines = |text: &str| text.replace("\\n", "\n");
        Some(Self {
            name,
            scope,
            fate,
            marks,
            example: lines(example),
            converted: lines(gives),
            effect,
            checked,
        })
    }

    fn has_mark(&self, mark: &str) -> bool {
        self.marks.split(' ').any(|word| word == mark)
    }

    /// Returns true if the option has no value.
    pub(crate) fn is_flag(&self) -> bool {
        self.has_mark("flag")
    }

    /// Returns true if the option is reported with this value: its meaning changes, and the code that converts it does not report it.
    pub(crate) fn is_reported(&self, value: &str) -> bool {
        let mut harmless = self.marks.split(' ').filter_map(|word| word.strip_prefix("unless="));
        self.fate != Fate::Same && !self.has_mark("code") && harmless.all(|known| known != value)
    }
}

/// The options of a program.
pub(crate) type Table = LazyLock<Vec<Row>>;

/// Parses a table.
pub(crate) fn rows(table: &'static str) -> Vec<Row> {
    let lines = table.lines().skip(1).filter(|line| !line.starts_with('#'));
    lines.map(|line| Row::parse(line).expect("a test parses every line")).collect()
}

/// Finds the row of a name; one whose name ends with `*` is for all that begin so.
pub(crate) fn find<'r>(rows: &'r [Row], name: &str) -> Option<&'r Row> {
    let begins = |row: &&Row| row.name.strip_suffix('*').is_some_and(|start| name.starts_with(start));
    let family = || rows.iter().filter(begins).max_by_key(|row| row.name.len());
    rows.iter().find(|row| row.name == name).or_else(family)
}

/// Returns the first two parts of a version, to compare it with another one.
pub(crate) fn numbers(version: &str) -> Vec<u32> {
    version.split('.').take(2).map_while(|part| part.parse().ok()).collect()
}

/// Returns the newest version that a row of a table was compared with.
pub(crate) fn checked(rows: &[Row]) -> &'static str {
    rows.iter().map(|row| row.checked).max_by_key(|version| numbers(version)).unwrap_or_default()
}
