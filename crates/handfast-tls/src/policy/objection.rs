//! Reasons why a client and a policy have nothing in common, as a message and as the alert of the standard.
//!
//! In: a ClientHello. Out: `None`, or why no handshake is possible. rustls would refuse it too, but with the first check that
//! fails: a client with only TLS 1.1 would get the error that it names no signature schemes.

use handfast_wire::{AlertDescription, ClientHello, registry};
use rustls::version::{TLS12, TLS13};

use super::Policy;

/// Reason why a hello is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objection {
    /// The alert for the client.
    pub alert: AlertDescription,
    /// The sentence for the operator.
    pub detail: String,
}

impl Policy {
    /// Returns the reason why this policy refuses a client.
    ///
    /// **Cost**: a few comparisons; allocates only for an objection. **Source**: RFC 9846 §4.3.1 (versions:
    /// protocol_version), RFC 9846 §4.2.2 (suites and groups: handshake_failure).
    pub fn objection(&self, hello: &ClientHello) -> Option<Objection> {
        let is_shared = |number, version| hello.offers_version(number) && self.versions.contains(&version);
        let tls13 = is_shared(registry::TLS_1_3, &TLS13);
        if !tls13 && !is_shared(registry::TLS_1_2, &TLS12) {
            return Some(self.no_version(hello));
        }
        let version = if tls13 { &TLS13 } else { &TLS12 };
        let refuse = |detail| Some(Objection { alert: AlertDescription::HANDSHAKE_FAILURE, detail });
        let suite_in_common = self.suites.iter().any(|suite| {
            suite.suite.version() == version && hello.cipher_suites.contains(&suite.suite.suite().into())
        });
        if !suite_in_common {
            let offered = names(&hello.cipher_suites, registry::cipher_suite_name);
            return refuse(format!("no cipher suite in common with the policy: the client offers {offered}"));
        }
        let group_in_common = self
            .groups
            .iter()
            .any(|group| (tls13 || group.in_tls12) && hello.groups.contains(&group.group.name().into()));
        // Below TLS 1.3 a client may leave the choice to us (RFC 8422 §4).
        let leaves_it_to_us = hello.groups.is_empty() && !tls13;
        if !group_in_common && !leaves_it_to_us {
            let offered = names(&hello.groups, registry::group_name);
            return refuse(format!(
                "no key exchange group in common with the policy: the client offers {offered}"
            ));
        }
        // RFC 7250 §4.2; rustls would send its certificate all the same, which such a client refuses without a reason.
        hello.accepts_raw_keys_only().then(|| Objection {
            alert: AlertDescription::UNSUPPORTED_CERTIFICATE,
            detail: "the client takes raw public keys only (RFC 7250), and there are X.509 certificates"
                .to_owned(),
        })
    }

    fn no_version(&self, hello: &ClientHello) -> Objection {
        let offered = if hello.versions.is_empty() { &[hello.legacy_version][..] } else { &hello.versions };
        let allowed = self.version_names().join(" and ");
        let offered = names(offered, registry::version_name);
        Objection {
            alert: AlertDescription::PROTOCOL_VERSION,
            detail: format!(
                "no TLS version in common with the policy: the client offers {offered}, allowed is {allowed}"
            ),
        }
    }
}

/// A list for people, bounded: a client may offer thousands. Values that only keep servers tolerant (RFC 8701) are left
/// out, as they have no name.
fn names(numbers: &[u16], name: fn(u16) -> Option<&'static str>) -> String {
    const MAX_LISTED: usize = 6;
    // Signalling values stand among the suites and are none.
    let named = |number: &u16| name(*number).filter(|name| !name.ends_with("_SCSV"));
    let known: Vec<_> = numbers.iter().filter_map(named).collect();
    match known.len() {
        0 => "nothing known here".into(),
        more if more > MAX_LISTED => {
            format!("{} and {} more", known[..MAX_LISTED].join(", "), more - MAX_LISTED)
        }
        _ => known.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{DEFAULT, resolve};

    fn hello(versions: &[u16], suites: &[u16], groups: &[u16]) -> ClientHello {
        ClientHello {
            legacy_version: 0x0303,
            versions: versions.to_vec(),
            cipher_suites: suites.to_vec(),
            groups: groups.to_vec(),
            ..ClientHello::default()
        }
    }

    fn objection(hello: &ClientHello) -> Option<(AlertDescription, String)> {
        let policy = resolve(DEFAULT, None, None, None).expect("the default policy");
        policy.objection(hello).map(|objection| (objection.alert, objection.detail))
    }

    #[test]
    fn a_usual_client_is_welcome() {
        assert_eq!(objection(&hello(&[0x0304, 0x0303], &[0x1301, 0xc02b], &[0x001d])), None);
        assert_eq!(objection(&hello(&[], &[0xc02b], &[0x0017])), None);
        assert_eq!(objection(&hello(&[], &[0xc02b], &[])), None, "TLS 1.2 without groups");
        let both =
            ClientHello { server_certificate_types: vec![2, 0], ..hello(&[0x0304], &[0x1301], &[0x001d]) };
        assert_eq!(objection(&both), None, "raw public keys, or X.509");
    }

    #[test]
    fn what_is_missing_is_named_with_the_right_alert() {
        let old = ClientHello { legacy_version: 0x0302, ..hello(&[], &[0xc02b], &[0x0017]) };
        let (alert, detail) = objection(&old).expect("TLS 1.1");
        assert_eq!(alert, AlertDescription::PROTOCOL_VERSION);
        assert!(detail.contains("TLSv1.1") && detail.contains("1.2"), "{detail}");

        let (alert, detail) = objection(&hello(&[], &[0x002f], &[0x0017])).expect("AES128-SHA");
        assert_eq!(alert, AlertDescription::HANDSHAKE_FAILURE);
        assert!(detail.contains("TLS_RSA_WITH_AES_128_CBC_SHA"), "{detail}");

        let raw = ClientHello { server_certificate_types: vec![2], ..hello(&[0x0304], &[0x1301], &[0x001d]) };
        let (alert, detail) = objection(&raw).expect("raw public keys alone");
        assert_eq!(alert, AlertDescription::UNSUPPORTED_CERTIFICATE);
        assert!(detail.contains("RFC 7250"), "{detail}");

        assert_eq!(objection(&hello(&[0x0304], &[0x1301], &[0x0019, 0x0018])), None, "secp384r1 is allowed");
        let (_, detail) = objection(&hello(&[0x0304], &[0x1301], &[0x0019])).expect("secp521r1 alone");
        assert!(detail.contains("secp521r1"), "{detail}");
        let (_, detail) = objection(&hello(&[], &[0xc02b], &[0x11ec])).expect("a hybrid group in TLS 1.2");
        assert!(detail.contains("X25519MLKEM768"), "{detail}");
    }

    #[test]
    fn six_names_are_reported_whole() {
        let six = [0x1301, 0x1302, 0x1303, 0xc02b, 0xc02c, 0xc02f];
        let listed = names(&six, registry::cipher_suite_name);
        assert!(
            !listed.contains(" more") && listed.contains("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
            "{listed}"
        );
        assert!(names(&[&six[..], &[0xc030]].concat(), registry::cipher_suite_name).contains(" more"));
    }

    #[test]
    fn a_client_that_offers_everything_does_not_fill_the_log() {
        let everything: Vec<u16> = (0..=u16::MAX).filter(|suite| *suite & 0xff00 == 0xc000).collect();
        let (_, detail) = objection(&hello(&[0x0304], &everything, &[0x001d])).expect("no suite of TLS 1.3");
        assert!(detail.len() < 400 && detail.contains(" more"), "{detail}");
    }
}
