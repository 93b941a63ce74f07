//! Contents of one file, PEM or PKCS#12: certificates, keys, and everything else.
//!
//! In: a file's bytes. Out: [`Contents`], with a finding for each section that is not used.

use std::path::Path;

use rustls_pki_types::pem::SectionKind;

use crate::finding::{Finding, Reason, Severity};
use crate::key::{self, Key, Unusable};
use crate::parsed::Parsed;
use crate::pem::{self, Section};
use crate::pkcs12;
use crate::signed;

/// A file's certificates and keys, in their order.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    pub(crate) certificates: Vec<Parsed>,
    pub(crate) keys: Vec<Key>,
    pub(crate) findings: Vec<Finding>,
    /// Kind of the content, if it has no PEM section.
    pub(crate) not_pem: Option<NotPem>,
}

/// Kind of a file without PEM sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotPem {
    Der,
    Utf16,
    Other,
}

impl NotPem {
    fn of(bytes: &[u8]) -> Self {
        match bytes {
            [0x30, 0x81..=0x83, ..] => Self::Der,
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Self::Utf16,
            _ => Self::Other,
        }
    }

    /// Returns the error of a file that should be PEM, with the command that converts it.
    pub(crate) fn finding(self, file: &Path) -> Finding {
        let path = file.display();
        let finding = |words: &str| Finding::error(Reason::NotPem, file, words);
        match self {
            Self::Der => finding("is DER, expected PEM")
                .hint(format!("openssl x509 -inform der -in {path} (or openssl pkey, if it is a key)")),
            Self::Utf16 => finding("is text in UTF-16, expected plain PEM")
                .hint(format!("iconv -f utf-16 -t ascii {path}")),
            Self::Other => finding("holds no PEM section"),
        }
    }
}

impl Contents {
    /// Reads `bytes`. Errors in the findings mean that what was found is not all that was meant.
    pub(crate) fn of(bytes: &[u8], file: &Path) -> Self {
        let mut contents = Self::default();
        if bytes.is_empty() {
            contents.findings.push(Finding::error(Reason::Empty, file, "is empty, expected PEM"));
            return contents;
        }
        if pkcs12::is_one(bytes) {
            contents.take_pkcs12(bytes, file);
            return contents;
        }
        let sections = match pem::sections(bytes) {
            Ok(sections) => sections,
            Err(broken) => {
                contents.findings.push(broken_pem(&broken, file));
                return contents;
            }
        };
        contents.not_pem = sections.is_empty().then(|| NotPem::of(bytes));
        for section in &sections {
            if let Err(finding) = contents.take(section, file) {
                contents.findings.push(finding);
            }
        }
        contents
    }

    /// Notes which of the certificates are signed by others of them.
    pub(crate) fn check_signatures(mut self) -> Self {
        signed::check_all(&mut self.certificates);
        self
    }

    fn take(&mut self, section: &Section<'_>, file: &Path) -> Result<(), Finding> {
        let line = section.line;
        if section.encrypted || section.label == "ENCRYPTED PRIVATE KEY" {
            let message = format!("line {line}: the key is encrypted, expected one without a pass phrase");
            let hint = format!("openssl pkey -in {} -out plain.key, and chmod 600 it", file.display());
            return Err(Finding::error(Reason::EncryptedKey, file, message).hint(hint));
        }
        match section.label {
            "CERTIFICATE" | "X509 CERTIFICATE" | "X.509 CERTIFICATE" | "PRIVATE KEY" | "EC PRIVATE KEY"
            | "RSA PRIVATE KEY" => {}
            // `openssl ecparam -genkey` writes it in front of each key, which names the curve itself.
            "EC PARAMETERS" => return Ok(()),
            "DSA PRIVATE KEY" => {
                let message = format!("line {line}: a DSA key, which TLS no longer uses");
                return Err(Finding::error(Reason::BadKey, file, message));
            }
            _ => return Err(unused(section.name(), line, file)),
        }
        let Some((kind, der)) = section.der() else {
            let message = format!("line {line}: the text of this {} is not base64", section.name());
            return Err(Finding::error(Reason::BadPem, file, message));
        };
        if kind == SectionKind::Certificate {
            let parsed = Parsed::from_der(&der).map_err(|what| {
                let message = format!("line {line}: the certificate cannot be parsed: {what}");
                Finding::error(Reason::BadCertificate, file, message)
            })?;
            self.certificates.push(parsed);
            return Ok(());
        }
        match key::from_section(kind, &der) {
            Some(Ok(key)) => self.keys.push(key),
            Some(Err(why)) => return Err(bad_key(why, &at(line), file)),
            None => {}
        }
        Ok(())
    }

    /// Takes what a PKCS#12 file holds.
    fn take_pkcs12(&mut self, bytes: &[u8], file: &Path) {
        let entries = match pkcs12::read(bytes) {
            Ok(entries) => entries,
            Err(fault) => {
                self.findings.push(bad_pkcs12(&fault, file));
                return;
            }
        };
        for der in &entries.certificates {
            match Parsed::from_der(der) {
                Ok(parsed) => self.certificates.push(parsed),
                Err(what) => {
                    let message = format!("the certificate cannot be parsed: {what}");
                    self.findings.push(Finding::error(Reason::BadCertificate, file, message));
                }
            }
        }
        for der in &entries.keys {
            match key::from_section(SectionKind::PrivateKey, der) {
                Some(Ok(key)) => self.keys.push(key),
                Some(Err(why)) => self.findings.push(bad_key(why, "", file)),
                None => {}
            }
        }
        if entries.others > 0 {
            let message = format!(
                "{} entries of the PKCS#12 file are neither a certificate nor a key, and are not used",
                entries.others
            );
            self.findings.push(Finding::note(Reason::UnusedSection, file, message));
        }
        // The order in such a file has no meaning: some programs write the CA first.
        let has_key = |parsed: &Parsed| self.keys.iter().any(|key| key.public_key == parsed.public_key);
        self.certificates.sort_by_key(|parsed| !has_key(parsed));
    }
}

fn at(line: usize) -> String {
    format!("line {line}: ")
}

fn bad_pkcs12(fault: &pkcs12::Fault, file: &Path) -> Finding {
    let hint = format!("openssl pkcs12 -in {0} -nodes -out {0}.pem, and chmod 600 it", file.display());
    Finding::error(Reason::BadPkcs12, file, fault.to_string()).hint(hint)
}

fn broken_pem(broken: &pem::Broken, file: &Path) -> Finding {
    let finding = match broken {
        pem::Broken::NoEnd { .. } => {
            Finding::error(Reason::Truncated, file, format!("is cut short: {broken}"))
        }
        _ => Finding::error(Reason::BadPem, file, broken.to_string()),
    };
    Finding { hint: broken.hint(file), ..finding }
}

/// Adds the finding that a file has no certificate: what it has in place of one, or this message.
pub(crate) fn no_certificate(findings: &mut Vec<Finding>, otherwise: Finding) {
    // Those in place of a certificate have a hint.
    let instead = |found: &&mut Finding| {
        found.reason == Reason::UnusedSection && found.hint.is_some() && found.file == otherwise.file
    };
    match findings.iter_mut().find(instead) {
        Some(found) => found.severity = Severity::Error,
        None => findings.push(otherwise),
    }
}

/// `at`: where in the file.
fn bad_key(why: Unusable, at: &str, file: &Path) -> Finding {
    match why {
        Unusable::Weak(weakness) => {
            let message = format!("{at}the RSA key {weakness}: {}", weakness.why());
            Finding::error(Reason::WeakKey, file, message)
                .hint("make an ECDSA P-256 or an RSA-2048 key, and a certificate for it")
        }
        Unusable::NotUnderstood => {
            let message = format!(
                "{at}the key is broken or of a kind that cannot be used, expected RSA of 2048 to 8192 bits, \
                 ECDSA on P-256, P-384 or P-521, Ed25519 or ML-DSA"
            );
            Finding::error(Reason::BadKey, file, message)
        }
    }
}

fn unused(name: &str, line: usize, file: &Path) -> Finding {
    let message = match name {
        "DH PARAMETERS" | "X9.42 DH PARAMETERS" => {
            format!("line {line}: {name} are not used: key exchange is on elliptic curves")
        }
        "TRUSTED CERTIFICATE" => {
            let message =
                format!("line {line}: {name} is OpenSSL's own form and is not used, expected CERTIFICATE");
            let hint = format!("openssl x509 -in {0} -out {0}.pem", file.display());
            return Finding::warning(Reason::UnusedSection, file, message).hint(hint);
        }
        "CERTIFICATE REQUEST" | "NEW CERTIFICATE REQUEST" => {
            let message = format!("line {line}: {name} is not used, expected CERTIFICATE");
            let hint = "the authority that receives the request answers with the certificate: name that file";
            return Finding::note(Reason::UnusedSection, file, message).hint(hint);
        }
        "PKCS7" | "CMS" => {
            let message = format!("line {line}: {name} is not used, expected CERTIFICATE");
            let hint = format!("openssl pkcs7 -in {0} -print_certs -out {0}.pem", file.display());
            return Finding::note(Reason::UnusedSection, file, message).hint(hint);
        }
        _ => format!("line {line}: {name} is neither a certificate nor a key, and is not used"),
    };
    Finding::note(Reason::UnusedSection, file, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_pem_is_distinguished() {
        assert_eq!(NotPem::of(&[0x30, 0x82, 9, 9, 2, 1, 0, 0]), NotPem::Der);
        assert_eq!(NotPem::of(&[0x30, 0x81, 9]), NotPem::Der);
        assert_eq!(NotPem::of(&[0xff, 0xfe, b'-']), NotPem::Utf16);
        assert_eq!(NotPem::of(b"hello"), NotPem::Other);
    }
}
