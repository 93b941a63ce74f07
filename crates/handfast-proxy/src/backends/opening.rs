//! First bytes on a new connection to a backend, before TLS begins there or the client's bytes follow: the dialogue with a proxy on the way
//! (`connect-through`), the PROXY header, and the backend's own protocol if TLS is requested in it (`backend-tls.starttls`).
//!
//! In: received bytes, however they were split. Out: bytes to send, until it is over. It waits for nothing and reads no clock: the
//! connector drives it.

use handfast_wire::starttls::{Client, Problem, Progress, Tunnel};

use crate::backends::tls::starttls_client;
use crate::backends::tunnel::{ProxyHop, TunnelDestination};
use handfast_config::model::BackendTls;
use handfast_observe::cause::Cause;
use handfast_observe::reason::{CloseReason, Side, Step};

#[derive(Debug)]
pub(crate) struct Opening {
    header: Vec<u8>,
    stage: Stage,
    starttls: Option<Client>,
    /// TLS follows.
    is_secured: bool,
    /// Bytes that the backend sent behind the tunnel's end, if no other dialogue follows. They are for the client.
    early: Vec<u8>,
}

#[derive(Debug)]
enum Stage {
    Tunnel(Box<Tunnel>),
    Starttls,
    Over,
}

/// Returns the close reason of an attempt whose backend did not begin TLS, or sent a wrong greeting.
pub(crate) fn of_problem(problem: &Problem) -> CloseReason {
    let cause = match problem {
        Problem::Injected { .. } => Cause::PlaintextInjected,
        Problem::Refused { .. } | Problem::NotOffered => Cause::StarttlsRefused,
        _ => Cause::Starttls,
    };
    reason(cause).because(problem.to_string())
}

/// A failure of a backend before it could serve.
pub(crate) fn reason(cause: Cause) -> CloseReason {
    CloseReason::new(Step::Connect, Side::Backend, cause)
}

impl Opening {
    /// Towards a backend. `through`: the proxy on the way, and the destination to request. `header`: the PROXY header, which is for the
    /// backend: it goes through the tunnel, in front of everything else. `tls`: what is spoken then.
    /// `host`: the backend's name, which is made only if it is sent.
    pub(crate) fn towards(
        (through, behind): (Option<&ProxyHop>, Option<&TunnelDestination>),
        header: Vec<u8>,
        tls: Option<&BackendTls>,
        host: impl FnOnce() -> Option<String>,
    ) -> Self {
        let tunnel = through.zip(behind).and_then(|(through, behind)| through.tunnel(behind));
        let starttls = tls.and_then(|model| starttls_client(model, host));
        Self { is_secured: tls.is_some(), ..Self::new(tunnel, header, starttls) }
    }

    fn new(tunnel: Option<Tunnel>, header: Vec<u8>, starttls: Option<Client>) -> Self {
        let stage = match (tunnel, &starttls) {
            (Some(tunnel), _) => Stage::Tunnel(Box::new(tunnel)),
            (None, Some(_)) => Stage::Starttls,
            (None, None) => Stage::Over,
        };
        Self { header, stage, is_secured: starttls.is_some(), starttls, early: Vec::new() }
    }

    /// Returns true if nothing is left but the dialogue of client and backend.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over)
    }

    /// Returns the first bytes to send once connected.
    pub(crate) fn begin(&mut self) -> Vec<u8> {
        let mut words = Vec::new();
        match &mut self.stage {
            Stage::Tunnel(tunnel) => tunnel.begin(&mut words),
            Stage::Starttls | Stage::Over => self.begin_with_backend(&mut words),
        }
        words
    }

    /// The same with a PROXY header that could only be made now.
    pub(crate) fn begin_with(&mut self, header: Vec<u8>) -> Vec<u8> {
        self.header = header;
        self.begin()
    }

    fn begin_with_backend(&mut self, words: &mut Vec<u8>) {
        words.append(&mut self.header);
        if let Some(client) = &mut self.starttls {
            client.begin(words);
        }
    }

    /// Processes received bytes; appends the next bytes to send to `words`.
    ///
    /// **Errors**: why it ends here. It must not be called again after that.
    pub(crate) fn take(&mut self, bytes: &[u8], words: &mut Vec<u8>) -> Result<(), CloseReason> {
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Tunnel(mut tunnel) => {
                let of_tunnel = |problem: Problem| reason(Cause::Tunnel).because(problem.to_string());
                if tunnel.take(bytes, words).map_err(of_tunnel)?.is_more() {
                    self.stage = Stage::Tunnel(tunnel);
                    return Ok(());
                }
                // Of a backend that speaks first the first words may have come together with the proxy's last ones.
                let early = tunnel.into_received();
                self.begin_with_backend(words);
                if self.starttls.is_none() {
                    self.early = early;
                    return Ok(());
                }
                self.stage = Stage::Starttls;
                if early.is_empty() { Ok(()) } else { self.take(&early, words) }
            }
            Stage::Starttls => {
                let Some(client) = &mut self.starttls else { return Ok(()) };
                if client.take(bytes, words).map_err(|problem| of_problem(&problem))? == Progress::More {
                    self.stage = Stage::Starttls;
                }
                Ok(())
            }
            Stage::Over => {
                self.early.extend_from_slice(bytes);
                Ok(())
            }
        }
    }

    /// Returns the bytes that the backend has already sent through an open tunnel.
    ///
    /// **Errors**: it sent bytes before TLS began.
    pub(crate) fn into_early_bytes(self) -> Result<Vec<u8>, CloseReason> {
        if self.is_secured && !self.early.is_empty() {
            return Err(reason(Cause::NotTls).because("it sent data before TLS began"));
        }
        Ok(self.early)
    }
}

#[cfg(test)]
mod tests {
    use handfast_wire::starttls::Protocol;

    use super::*;

    fn tunnel() -> Option<Tunnel> {
        Tunnel::http("db.example", 5432, None)
    }

    const CONNECT: &str = "CONNECT db.example:5432 HTTP/1.1\r\nHost: db.example:5432\r\n\r\n";
    const ESTABLISHED: &[u8] = b"HTTP/1.1 200 OK\r\n\r\n";

    #[test]
    fn with_nothing_to_send_it_is_over_at_once_and_sends_the_header() {
        let mut opening = Opening::new(None, b"PROXY UNKNOWN\r\n".to_vec(), None);
        assert!(opening.is_over());
        assert_eq!(opening.begin(), b"PROXY UNKNOWN\r\n");
        assert_eq!(opening.begin(), b"", "once");
    }

    /// The proxy on the way never sees the header, and the backend sees it before its own protocol.
    #[test]
    fn the_tunnel_comes_first_then_the_header_then_the_protocol() {
        let client = Client::new(Protocol::PostgreSql, "a.example");
        let mut opening = Opening::new(tunnel(), b"PROXY UNKNOWN\r\n".to_vec(), Some(client));
        assert_eq!(opening.begin(), CONNECT.as_bytes());
        let mut words = Vec::new();
        opening.take(&ESTABLISHED[..9], &mut words).expect("so far");
        assert_eq!((words.as_slice(), opening.is_over()), (&b""[..], false));
        opening.take(&ESTABLISHED[9..], &mut words).expect("it stands");
        assert_eq!(words, [b"PROXY UNKNOWN\r\n".as_slice(), &[0, 0, 0, 8, 4, 210, 22, 47]].concat());
        assert!(!opening.is_over());
        opening.take(b"S", &mut Vec::new()).expect("a yes");
        assert!(opening.is_over());
        assert_eq!(opening.into_early_bytes().expect("nothing"), b"");
    }

    #[test]
    fn a_greeting_that_came_with_the_tunnel_is_read() {
        let spoken = [ESTABLISHED, b"220 mx.example ESMTP\r\n"].concat();
        let mut words = Vec::new();
        let mut opening = Opening::new(tunnel(), Vec::new(), Some(Client::new(Protocol::Smtp, "a.example")));
        opening.take(&spoken, &mut words).expect("so far");
        assert_eq!(words, b"EHLO a.example\r\n");
        // Where no client of ours waits for it, it is the client's.
        let mut opening = Opening::new(tunnel(), Vec::new(), None);
        opening.take(&spoken, &mut Vec::new()).expect("it stands");
        assert!(opening.is_over());
        assert_eq!(opening.into_early_bytes().expect("all of it"), b"220 mx.example ESMTP\r\n");
        // Where TLS has to begin, it is dropped.
        let mut opening = Opening { is_secured: true, ..Opening::new(tunnel(), Vec::new(), None) };
        opening.take(&spoken, &mut Vec::new()).expect("it stands");
        assert_eq!(opening.into_early_bytes().expect_err("no TLS").cause, Cause::NotTls);
    }

    #[test]
    fn refusals_of_proxy_and_target_are_distinguished() {
        let mut opening = Opening::new(tunnel(), Vec::new(), None);
        let reason = opening.take(b"HTTP/1.1 407 Who are you\r\n\r\n", &mut Vec::new()).expect_err("a no");
        assert_eq!(reason.cause, Cause::Tunnel);
        assert!(reason.detail.as_deref().is_some_and(|detail| detail.contains("407")), "{reason:?}");
        let no = |bytes: &[u8]| {
            let client = Client::new(Protocol::PostgreSql, "a.example");
            let mut opening = Opening::new(None, Vec::new(), Some(client));
            opening.take(bytes, &mut Vec::new()).expect_err("a no").cause
        };
        assert_eq!(no(b"N"), Cause::StarttlsRefused);
        assert_eq!(no(b"S\x15\x03\x01"), Cause::PlaintextInjected);
        assert_eq!(no(b"E"), Cause::Starttls);
    }
}
