//! Where in a connection's life something happened, and on which side: the words for both.

/// One of the seven steps of a connection's life, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Step {
    /// Taking the socket from the kernel.
    Accept,
    /// Reading the ClientHello.
    Hello,
    /// From the hello to the client's last flight.
    Handshake,
    /// Choosing a backend.
    Route,
    /// Dialling the backend.
    Connect,
    /// Carrying bytes both ways.
    Relay,
    /// Ending it.
    Close,
}

impl Step {
    /// Every step, in the order of the path.
    pub const ALL: [Self; 7] =
        [Self::Accept, Self::Hello, Self::Handshake, Self::Route, Self::Connect, Self::Relay, Self::Close];

    /// The word used in logs, labels and documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::Hello => "hello",
            Self::Handshake => "handshake",
            Self::Route => "route",
            Self::Connect => "connect",
            Self::Relay => "relay",
            Self::Close => "close",
        }
    }

    /// The step that has this word.
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|step| step.name() == word)
    }

    /// The beginning of a sentence: `while carrying bytes`.
    pub const fn while_doing(self) -> &'static str {
        match self {
            Self::Accept => "at accept",
            Self::Hello => "before the ClientHello was complete",
            Self::Handshake => "during the handshake",
            Self::Route => "while choosing a backend",
            Self::Connect => "while connecting to the backend",
            Self::Relay => "while carrying bytes",
            Self::Close => "while closing",
        }
    }
}

/// Which side ended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Side {
    /// The peer that connected to us.
    Client,
    /// The peer that we connected to.
    Backend,
    /// The operator of this program: a stop, a limit in the configuration.
    Operator,
    /// This program or the machine it runs on.
    Local,
}

impl Side {
    /// Every side.
    pub const ALL: [Self; 4] = [Self::Client, Self::Backend, Self::Operator, Self::Local];

    /// The word used in logs, labels and documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Backend => "backend",
            Self::Operator => "operator",
            Self::Local => "local",
        }
    }

    /// The side that has this word.
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|side| side.name() == word)
    }

    /// The side in a sentence: `the client`.
    pub const fn in_words(self) -> &'static str {
        match self {
            Self::Client => "the client",
            Self::Backend => "the backend",
            Self::Operator => "the operator",
            Self::Local => "this machine",
        }
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
