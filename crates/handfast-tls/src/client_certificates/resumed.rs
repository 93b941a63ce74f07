//! Clients that resume are checked when their ticket is opened: one that is no longer accepted gets a full handshake, and in
//! it the alert with the reason.
//!
//! In: a ticket's content, as rustls writes it. Out: the same, or nothing; then rustls continues as without a
//! ticket. A resumed session can no longer be refused with the right alert, since rustls gives no access to the key.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use rustls::server::ProducesTickets;
use rustls_pki_types::CertificateDer;

use super::ClientCertificates;
use crate::side_channels::{self, OpenedTickets};

/// Opens tickets of clients that are still accepted.
pub(crate) struct Checked {
    pub(crate) tickets: Arc<dyn ProducesTickets>,
    pub(crate) rule: ClientCertificates,
}

impl fmt::Debug for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checked").finish_non_exhaustive()
    }
}

impl ProducesTickets for Checked {
    fn enabled(&self) -> bool {
        self.tickets.enabled()
    }

    fn lifetime(&self) -> u32 {
        self.tickets.lifetime()
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.tickets.encrypt(plain)
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        // A client may bring a hundred tickets; one that is bad is enough.
        if side_channels::opened_tickets() == OpenedTickets::Bad {
            return None;
        }
        let plain = self.tickets.decrypt(ticket)?;
        let is_good =
            chain(&plain).is_some_and(|chain| self.rule.check_again(&chain, SystemTime::now()).is_ok());
        // The full handshake that follows reports its own reason.
        drop(side_channels::take_refusal());
        side_channels::set_opened_tickets(if is_good { OpenedTickets::Good } else { OpenedTickets::Bad });
        is_good.then_some(plain)
    }
}

/// The client's chain in a session as rustls 0.23 encodes it (`ServerSessionValue`); empty when the client had none.
fn chain(session: &[u8]) -> Option<Vec<CertificateDer<'_>>> {
    let mut left = Bytes(session);
    if left.number(1)? == 1 {
        left.block(1)?; // server name
    }
    left.take(4)?; // version and suite
    left.block(1)?; // secret
    left.take(1)?; // extended master secret
    if left.number(1)? == 0 {
        return Some(Vec::new());
    }
    let mut list = Bytes(left.block(3)?);
    let mut chain = Vec::new();
    while !list.0.is_empty() {
        chain.push(CertificateDer::from(list.block(3)?));
    }
    Some(chain)
}

struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self, bytes: usize) -> Option<usize> {
        Some(self.take(bytes)?.iter().fold(0, |number, byte| number << 8 | usize::from(*byte)))
    }

    /// The content after a length field of this many bytes.
    fn block(&mut self, length_bytes: usize) -> Option<&'a [u8]> {
        let length = self.number(length_bytes)?;
        self.take(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client_certificates::Demand;
    use crate::client_certificates::tests::load;
    use crate::side_channels::{are_tickets_good, begin_step};
    use handfast_testkit::maker::{Folder, Maker};

    /// Tickets that are what they carry.
    #[derive(Debug)]
    struct Open;

    impl ProducesTickets for Open {
        fn enabled(&self) -> bool {
            false
        }

        fn lifetime(&self) -> u32 {
            77
        }

        fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
            Some([plain, b"!"].concat())
        }

        fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
            Some(ticket.to_vec())
        }
    }

    /// A session as rustls writes it, without a server name.
    fn session(chain: &[&[u8]]) -> Vec<u8> {
        let long = |length: usize| u32::try_from(length).unwrap().to_be_bytes()[1..].to_vec();
        let list: Vec<u8> = chain.iter().flat_map(|der| [long(der.len()), der.to_vec()].concat()).collect();
        let chain = if chain.is_empty() { vec![0] } else { [vec![1], long(list.len()), list].concat() };
        [&[0, 3, 4, 0x13, 1, 0, 1][..], &chain].concat()
    }

    #[test]
    fn a_ticket_is_for_who_would_be_let_in_and_a_bad_one_ends_the_trying() {
        let folder = Folder::new();
        let ca = Maker::authority("ca").self_signed();
        folder.put("ca.pem", ca.pem());
        let by = |ca| Maker::new(&["a.example"]).valid((2020, 1, 1), (2099, 1, 1)).signed_by(ca);
        let (own, strange) = (by(&ca), by(&Maker::authority("others").self_signed()));
        let (good, bad) = (session(&[own.certificate.der()]), session(&[strange.certificate.der()]));
        let asking = |demand| {
            let rule = load(&folder.at("ca.pem"), demand, &Arc::default(), SystemTime::now()).rule;
            Checked { tickets: Arc::new(Open), rule: rule.unwrap() }
        };
        let checked = asking(Demand::Require);
        assert_eq!((checked.enabled(), checked.lifetime()), (false, 77));
        assert_eq!(checked.encrypt(b"a"), Some(b"a!".to_vec()));
        for (tickets, taken) in [
            (vec![&good], vec![true]),
            (vec![&good, &good], vec![true, true]),
            (vec![&bad, &good], vec![false, false]),
            (vec![&good, &bad], vec![true, false]),
        ] {
            begin_step();
            assert!(!are_tickets_good(), "nothing has been opened yet");
            let seen: Vec<_> =
                tickets.iter().map(|ticket| checked.decrypt(ticket).as_ref() == Some(*ticket)).collect();
            assert_eq!(seen, taken);
            assert_eq!(are_tickets_good(), taken.iter().all(|taken| *taken));
        }
        // Without a certificate: accepted where none is required. Bytes that are no session belong to no client.
        let anonymous = session(&[]);
        for (demand, is_in) in [(Demand::Require, false), (Demand::Request, true)] {
            begin_step();
            assert_eq!(asking(demand).decrypt(&anonymous).is_some(), is_in, "{demand:?}");
            assert_eq!(are_tickets_good(), is_in);
        }
        begin_step();
        assert_eq!(checked.decrypt(&good[..good.len() - 1]), None);
        assert!(!are_tickets_good());
    }

    #[test]
    fn the_chain_of_a_session_is_found_and_no_cut_of_it_is_a_chain() {
        let head = [&[1, 3][..], b"a.b", &[3, 4, 0x13, 1, 2, 7, 7, 1]].concat();
        let with = [&head[..], &[1, 0, 0, 9, 0, 0, 2, 8, 8, 0, 0, 1, 9], &[0, 0, 0]].concat();
        let found = chain(&with).unwrap();
        assert_eq!(found.iter().map(|der| der.to_vec()).collect::<Vec<_>>(), [vec![8, 8], vec![9]]);
        for cut in 0..with.len() - 3 {
            assert_eq!(chain(&with[..cut]), None, "{cut}");
        }
        assert_eq!(chain(&[&head[..], &[0, 0]].concat()), Some(Vec::new()));
        assert_eq!(chain(&[0, 3, 4, 0x13, 1, 0, 1, 0]), Some(Vec::new()));
    }
}
