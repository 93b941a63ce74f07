//! A client's observations of a server besides the negotiated parameters: each certificate, and its tickets.
//!
//! In: DER. Out: values for people and reports. Nothing is decided here.

use std::net::IpAddr;
use std::time::Duration;

use handfast_pki::parsed::Parsed;
use handfast_pki::weak::Lists;

/// A ticket, or a session of TLS 1.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// Its lifetime, as the server sent it; `None`: none was sent.
    pub lifetime: Option<Duration>,
    /// Most bytes of early data that go with it; 0: none may be sent.
    pub early_data: u32,
}

/// One certificate of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Its length in DER.
    pub bytes: usize,
    /// Its subject.
    pub subject: String,
    /// Kind of its key: `RSA-2048`, `ECDSA-P256`.
    pub key: &'static str,
    /// Seconds since 1970 from which on it is valid.
    pub not_before: i64,
    /// Seconds since 1970 up to which it is valid.
    pub not_after: i64,
    /// DNS names that it is for.
    pub dns_names: Vec<String>,
    /// Addresses that it is for.
    pub ip_names: Vec<IpAddr>,
    /// It is signed in its own name: a root, or a self-signed certificate.
    pub self_issued: bool,
    /// It was issued by the one that follows it; `None` for the last one.
    pub issued_by_next: Option<bool>,
    /// It demands a stapled OCSP response ("must-staple").
    pub demands_staple: bool,
    /// The known weaknesses of its key.
    pub weakness: Option<String>,
}

/// Reads a chain; what cannot be read is left out.
///
/// **Cost**: what is known to be weak by numbers is looked for in each key: milliseconds.
pub fn chain<'c>(chain: impl Iterator<Item = &'c [u8]>) -> Vec<Shown> {
    let nothing = Lists::default();
    let parsed: Vec<Parsed> = chain.filter_map(|der| Parsed::from_der(der).ok()).collect();
    let shown = |(place, one): (usize, &Parsed)| Shown {
        bytes: one.der.len(),
        subject: one.subject.to_string(),
        key: one.kind.name(),
        not_before: one.not_before,
        not_after: one.not_after,
        dns_names: one.dns_names.iter().map(ToString::to_string).collect(),
        ip_names: one.ip_names.clone(),
        self_issued: one.is_self_issued(),
        issued_by_next: parsed.get(place + 1).map(|next| one.issuer_der == next.subject_der),
        demands_staple: one.demands_staple,
        weakness: one.weakness(&nothing).map(|weakness| weakness.to_string()),
    };
    parsed.iter().enumerate().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_is_read_in_its_order_and_what_is_none_is_left_out() {
        let maker = |name: &str| {
            let mut params = rcgen::CertificateParams::new(vec![name.to_owned()]).expect("a name");
            params.distinguished_name.push(rcgen::DnType::CommonName, name);
            params
        };
        let root_key = rcgen::KeyPair::generate().expect("a key");
        let mut root = maker("root.example");
        root.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let root_made = root.self_signed(&root_key).expect("a root");
        let issuer = rcgen::Issuer::new(root, root_key);
        let key = rcgen::KeyPair::generate().expect("a key");
        let leaf = maker("a.example").signed_by(&key, &issuer).expect("a leaf");
        let read = chain([leaf.der().as_ref(), root_made.der().as_ref(), b"nothing"].into_iter());
        assert_eq!(read.len(), 2);
        assert_eq!((read[0].issued_by_next, read[1].issued_by_next), (Some(true), None));
        assert_eq!((read[0].self_issued, read[1].self_issued), (false, true));
        assert_eq!((read[0].key, read[0].bytes), ("ECDSA-P256", leaf.der().len()));
        assert_eq!(read[0].dns_names, ["a.example"]);
        let wrong = chain([root_made.der().as_ref(), leaf.der().as_ref()].into_iter());
        assert_eq!(wrong[0].issued_by_next, Some(false));
    }
}
