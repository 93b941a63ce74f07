//! What an operator has requested for a backend.

/// The state that an operator has requested for a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperatorState {
    /// Used as checks and connections find it.
    Up,
    /// No new connections; open ones go on; it is still checked.
    Drain,
    /// The same, and it is not checked: it may be switched off.
    Down,
}

impl OperatorState {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Up, Self::Drain, Self::Down];

    /// The word for it in requests to the admin listener.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Drain => "drain",
            Self::Down => "down",
        }
    }

    /// The state with this word.
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|requested| requested.name() == word)
    }

    /// Its effect, as a clause.
    pub const fn in_words(self) -> &'static str {
        match self {
            Self::Up => "used as checks and connections find it",
            Self::Drain => "no new connections, open ones go on, checks go on",
            Self::Down => "no new connections, open ones go on, no checks",
        }
    }
}
