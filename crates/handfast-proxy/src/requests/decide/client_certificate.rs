//! A client's certificate in fields for applications, in the forms that they read.
//!
//! In: the certificates that a client sent, of which the first was verified. Out: values of fields, in ASCII.

use std::borrow::Cow;

use data_encoding::BASE64;
use handfast_config::model::Variable;
use handfast_wire::proxy_header::certificate_pem;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// All but the unreserved characters of RFC 3986 §2.3, as nginx writes `$ssl_client_escaped_cert`.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The certificates that a client sent, in DER: its own first, which was verified. Empty: none, or no route forwards or reads them.
pub(crate) type ClientChain = [Box<[u8]>];

/// Returns the value of a variable; empty without a certificate.
pub(super) fn value(variable: Variable, chain: &ClientChain) -> Cow<'static, [u8]> {
    let Some((own, others)) = chain.split_first() else { return Cow::Borrowed(b"") };
    let text = match variable {
        Variable::ClientCertificate => byte_sequence(own),
        Variable::ClientCertificateChain => {
            others.iter().map(|other| byte_sequence(other)).collect::<Vec<_>>().join(", ")
        }
        Variable::ClientCertificateDer => BASE64.encode(own),
        Variable::ClientCertificatePem => {
            utf8_percent_encode(&certificate_pem("CERTIFICATE", own), RESERVED).to_string()
        }
        _ => String::new(),
    };
    Cow::Owned(text.into_bytes())
}

/// A byte sequence of structured fields (RFC 9651 §3.3.5), as RFC 9440 §2.1 has certificates.
fn byte_sequence(der: &[u8]) -> String {
    format!(":{}:", BASE64.encode(der))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_is_as_its_readers_expect() {
        let chain: [Box<[u8]>; 3] = [(*b"\xfb\xff\x00").into(), (*b"ca").into(), (*b"root").into()];
        for (variable, expected) in [
            (Variable::ClientCertificate, ":+/8A:"),
            (Variable::ClientCertificateChain, ":Y2E=:, :cm9vdA==:"),
            (Variable::ClientCertificateDer, "+/8A"),
            (
                Variable::ClientCertificatePem,
                "-----BEGIN%20CERTIFICATE-----%0A%2B%2F8A%0A-----END%20CERTIFICATE-----%0A",
            ),
        ] {
            assert_eq!(value(variable, &chain), expected.as_bytes());
            assert_eq!(value(variable, &[]), b"".as_slice(), "{variable:?} without a certificate");
        }
        assert_eq!(value(Variable::ClientCertificateChain, &chain[..1]), b"".as_slice());
    }
}
