//! The state that an operator has requested for a backend.

use crate::words::words;

words! {
    /// The state that an operator has requested for a backend.
    OperatorState
    /// Its effect, as a clause.
    fn in_words {
        Up = "up", "used as checks and connections find it";
        Drain = "drain", "no new connections, open ones go on, checks go on";
        Down = "down", "no new connections, open ones go on, no checks";
    }
}
