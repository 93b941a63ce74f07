//! Purpose of a bus, with its words in messages and subjects.

/// Purpose of a bus, in messages to people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Load tests: coordinators and workers.
    Load,
    /// Proxies that serve the same names.
    Fleet,
}

impl Purpose {
    /// Returns a text for the damage that an attacker with access to an open bus could do.
    pub(crate) fn danger(self) -> &'static str {
        match self {
            Self::Load => "have our workers make load against anybody",
            Self::Fleet => "keep this fleet's keys and certificates from its machines",
        }
    }

    /// The token of the subjects that its machines publish to.
    pub(crate) fn token(self) -> char {
        match self {
            Self::Load => 'w',
            Self::Fleet => 'm',
        }
    }

    /// The setting that starts TLS before the greeting.
    pub(crate) fn tls_first(self) -> &'static str {
        match self {
            Self::Load => "--bus-tls-first",
            Self::Fleet => "`tls-first = true` in [fleet]",
        }
    }

    /// The command that writes a safe configuration.
    pub(crate) fn command(self) -> &'static str {
        match self {
            Self::Load => "handfast worker setup --host NAME DIR",
            Self::Fleet => "handfast fleet setup --host NAME DIR",
        }
    }

    /// The hint for a server that others can reach.
    pub(crate) fn set_up(self) -> String {
        format!("`{}` writes a configuration with TLS, users and narrow permissions", self.command())
    }

    /// The hint for a server that others can reach although only this machine needs it.
    pub(crate) fn listen_here(self) -> String {
        format!("`nats-server -a 127.0.0.1` listens for this machine only; for others, {}", self.set_up())
    }
}
