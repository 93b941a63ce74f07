//! Consequence of one answer of our end as a server.

use super::problem::Problem;

/// Effect of the answer to one line or packet on the dialogue.
#[derive(Debug)]
pub(super) enum DialogueStep {
    /// The client goes on.
    Continue,
    /// The client requested TLS, and the answer accepts that.
    Upgrade,
    /// The dialogue is over; the answer is its last message.
    End(Problem),
}
