//! `handfast completions`, as it is typed.

use clap::{Args, ValueEnum};
use clap_complete::Shell;

/// `handfast completions`.
#[derive(Args, Debug)]
pub(crate) struct CompletionsWords {
    /// The shell that completes
    pub(crate) shell: CompletionShell,
}

/// Shells that are known.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum CompletionShell {
    Bash,
    Zsh,
    Fish,
}

impl From<CompletionShell> for Shell {
    fn from(shell: CompletionShell) -> Self {
        match shell {
            CompletionShell::Bash => Self::Bash,
            CompletionShell::Zsh => Self::Zsh,
            CompletionShell::Fish => Self::Fish,
        }
    }
}
