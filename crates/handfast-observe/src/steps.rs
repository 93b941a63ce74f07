//! Steps in a connection's life, and its sides: the words for both.

use crate::words::words;

words! {
    /// One of the seven steps of a connection's life, in their order.
    Step
    /// The beginning of a sentence: `while carrying bytes`.
    fn while_doing {
        Accept = "accept", "at accept";
        Hello = "hello", "before the ClientHello was complete";
        Handshake = "handshake", "during the handshake";
        Route = "route", "while choosing a backend";
        Connect = "connect", "while connecting to the backend";
        Relay = "relay", "while carrying bytes";
        Close = "close", "while closing";
    }
}

words! {
    /// Side that ended it. `Operator` is a stop or a limit in the configuration; `Local` is this program or the machine it runs on.
    Side
    /// The side in a sentence: `the client`.
    fn in_words {
        Client = "client", "the client";
        Backend = "backend", "the backend";
        Operator = "operator", "the operator";
        Local = "local", "this machine";
    }
}

impl From<handfast_leg::Side> for Side {
    fn from(side: handfast_leg::Side) -> Self {
        match side {
            handfast_leg::Side::Client => Self::Client,
            handfast_leg::Side::Backend => Self::Backend,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_its_own_and_is_found() {
        for step in Step::ALL {
            assert_eq!(Step::named(step.name()), Some(step));
        }
        for side in Side::ALL {
            assert_eq!(Side::named(side.name()), Some(side));
        }
        assert_eq!((Step::named("overflow"), Side::named("ourselves")), (None, None));
    }
}
