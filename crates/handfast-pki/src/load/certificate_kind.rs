//! The kind of key of a certificate file, for programs that serve nothing from it.
//!
//! In: a path. Out: the kind of the key of its first certificate, or the finding for the operator.

use std::path::Path;

use crate::finding::{Finding, Reason};
use crate::key_kind::KeyKind;
use crate::read::{self, failed};
use crate::sections::Contents;

/// Kind of the key in the first certificate of a PEM file; the private key is not needed.
///
/// **Errors**: why the file cannot be used; that is for the operator to fix.
pub fn certificate_kind(path: &Path) -> Result<KeyKind, Box<Finding>> {
    // The cures of findings speak of a configuration's files.
    let plain = |finding: Finding| Box::new(Finding { hint: None, ..finding });
    let content = read::whole(path).map_err(|failure| plain(failed(path, &failure)))?;
    let mut contents = Contents::of(&content.bytes, path);
    if let Some(first) = contents.certificates.first() {
        return Ok(first.kind);
    }
    if !contents.findings.is_empty() {
        return Err(plain(contents.findings.swap_remove(0)));
    }
    Err(Box::new(match contents.not_pem {
        Some(instead) => instead.finding(path),
        None => Finding::error(Reason::NoCertificate, path, "holds no certificate, expected one in PEM"),
    }))
}

#[cfg(test)]
mod tests {
    use handfast_testkit::maker::{Folder, Maker};

    use super::*;

    #[test]
    fn a_certificates_kind_is_read_without_its_key() {
        let folder = Folder::new();
        let made = Maker::new(&["a.example.org"]).algorithm(&rcgen::PKCS_ECDSA_P384_SHA384).self_signed();
        assert_eq!(certificate_kind(&folder.put("a.pem", made.pem())).unwrap(), KeyKind::EcdsaP384);
        assert_eq!(certificate_kind(&folder.put("b.pem", made.both())).unwrap(), KeyKind::EcdsaP384);
        let wrong = |name: &str, content: &[u8]| certificate_kind(&folder.put(name, content)).unwrap_err();
        let message = |name: &str, content: &[u8]| wrong(name, content).to_string();
        assert!(message("c", made.key_pem().as_bytes()).contains("holds no certificate"));
        assert!(message("d", b"hello").contains("holds no PEM section"));
        assert!(wrong("e", made.certificate.der()).hint.unwrap().contains("openssl x509"));
        assert!(message("f", &made.pem().as_bytes()[..60]).contains("cut short"));
        assert!(certificate_kind(&folder.at("g")).unwrap_err().to_string().contains("is not there"));
    }
}
