//! Mistakes on the command line of `handfast load`.

use std::fmt::Display;

use handfast_report::ToolError;

/// All mistakes, in the order of the options.
#[derive(Debug, Default)]
pub(crate) struct Mistakes(pub(super) Vec<String>);

impl Mistakes {
    /// Notes a mistake of an option.
    pub(crate) fn note(&mut self, option: &str, what: impl Display) {
        self.0.push(format!("{option}: {what}"));
    }

    /// Notes a mistake of several options together.
    pub(crate) fn add(&mut self, what: String) {
        self.0.push(what);
    }

    /// Reads a value if it was given.
    pub(super) fn read<T, E: Display>(
        &mut self,
        option: &str,
        text: Option<&String>,
        read: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        match read(text?) {
            Ok(value) => Some(value),
            Err(what) => {
                self.note(option, what);
                None
            }
        }
    }

    /// The values that could be parsed; each mistake is noted.
    pub(super) fn read_all<T, E: Display>(&mut self, option: &str, read: Result<Vec<T>, Vec<E>>) -> Vec<T> {
        read.unwrap_or_else(|wrong| {
            wrong.iter().for_each(|what| self.note(option, what));
            Vec::new()
        })
    }

    /// Notes each given option that has no meaning here.
    pub(super) fn forbid(&mut self, why: &str, options: &[(&str, bool)]) {
        for (option, given) in options {
            if *given {
                self.note(option, why);
            }
        }
    }

    /// Returns true if there are no mistakes.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them, for the operator.
    pub(crate) fn refusal(&self) -> ToolError {
        let lines: String = self.0.iter().map(|mistake| format!("\n  {mistake}")).collect();
        let count =
            if self.0.len() == 1 { "this is".to_owned() } else { format!("these {} are", self.0.len()) };
        ToolError::wrong_use(format!("{count} wrong on the command line of `handfast load`:{lines}"))
            .hint("`handfast load --help` lists all options")
    }
}
