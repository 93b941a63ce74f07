//! The types of values that name programs to start.
//!
//! In: one value of the parsed tree. Out: a program's path and arguments; nothing is looked up.

use std::time::Duration;

use handfast_text::duration;
use toml::de::DeValue;

use crate::keys::client_values as keys;
use crate::kind::Span;
use crate::model::{OnlyClient, Program};
use crate::problem::Fault;
use crate::reading::{Item, Reading};
use crate::schema::{Shape, ValueKind};
use crate::table::Table;

/// A program, or a list of it and its arguments. No shell reads it.
pub(crate) struct CommandLine;

impl ValueKind for CommandLine {
    type Value = Program;
    const FORM: &'static str = "path of a program, or a list of it and its arguments";

    fn shape(&self) -> Shape {
        Shape::one_or_list(Shape::Text)
    }

    fn parse(&self, item: &Item<'_>, reading: &Reading<'_>) -> Result<Program, Fault> {
        let words = match item.value {
            DeValue::Array(list) => list.iter().map(|word| self.text(&Item::new(word))).collect(),
            _ => self.text(item).map(|path| vec![path]),
        }?;
        let Some((path, arguments)) = words.split_first().filter(|(path, _)| !path.is_empty()) else {
            return Err(Fault::new("there is no program to start"));
        };
        if words.iter().any(|word| word.contains('\0')) {
            return Err(Fault::new("an argument of a program contains no NUL"));
        }
        if !path.contains('/') {
            let fault = Fault::new(format!("`{path}` is no path, and programs are not looked for"));
            return Err(fault.hint(format!("write `/usr/bin/{path}`, or where it is")));
        }
        let (path, _) = reading.path(path, item);
        reading.names(&path, &item.span);
        Ok(Program { path, arguments: arguments.iter().map(|&argument| argument.to_owned()).collect() })
    }
}

/// The delay of a program's next start: none (it is started once), a second, or a duration.
pub(crate) struct Again;

impl Again {
    /// The delay of `true`. stunnel's `retry = yes` has the same.
    const USUAL: Duration = Duration::from_secs(1);
    const DELAY: Span = Span { range: Duration::from_millis(1)..=Duration::from_hours(1), zero: None };
}

impl ValueKind for Again {
    type Value = Option<Duration>;
    const FORM: &'static str = "`true`, `false`, or a duration, such as `\"10s\"`";

    fn shape(&self) -> Shape {
        Shape::OneOf(vec![Shape::Switch, Shape::Text])
    }

    fn allowed(&self) -> String {
        let (least, most) = (Self::DELAY.range.start(), Self::DELAY.range.end());
        format!("`true`, `false`, {} to {}", duration::written(*least), duration::written(*most))
    }

    fn parse(&self, item: &Item<'_>, reading: &Reading<'_>) -> Result<Option<Duration>, Fault> {
        match item.value {
            DeValue::Boolean(again) => Ok(again.then_some(Self::USUAL)),
            _ => Self::DELAY.parse(item, reading).map(Some),
        }
    }
}

/// The one client of a service.
pub(crate) struct ClientEntry;

impl ValueKind for ClientEntry {
    type Value = OnlyClient;
    const FORM: &'static str =
        "text `\"stdin\"`, or `{ program = [\"/usr/bin/fetch\", \"-v\"], again = true }`";

    fn shape(&self) -> Shape {
        Shape::text_or(&keys::CLIENT_TABLE)
    }

    fn parse(&self, item: &Item<'_>, _: &Reading<'_>) -> Result<OnlyClient, Fault> {
        match self.text(item)? {
            "stdin" => Ok(OnlyClient::Stdin),
            _ => Err(self.wrong_type(item)),
        }
    }

    fn read(&self, item: &Item<'_>, reading: &Reading<'_>) -> Option<OnlyClient> {
        let DeValue::Table(entries) = item.value else {
            return self.parse(item, reading).map_err(|fault| reading.error(&item.span, fault)).ok();
        };
        let table = Table::open(&keys::CLIENT_TABLE, entries, item.span.clone(), reading);
        let program = table.required(&keys::CLIENT_PROGRAM);
        let again = table.or_default(&keys::CLIENT_AGAIN);
        Some(OnlyClient::Program { program: program?, again })
    }
}
