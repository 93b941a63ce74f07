//! PEM text cut into its sections, with the line of each.
//!
//! In: a file's bytes. Out: the sections in their order, or the first line that is wrong. Decoding is left to
//! `rustls-pki-types`, whose base64 for keys takes the same time for every key; what it lacks, and what an operator
//! needs, is here: sections it does not know, pass phrases, and lines to point at.
//!
//! **Source**: RFC 7468 §2 (text around sections is allowed), RFC 1421 §4.6 for `Proc-Type`.

use std::fmt;
use std::path::Path;

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::{Error as PemError, PemObject, SectionKind};
use zeroize::Zeroizing;

/// One section.
pub(crate) struct Section<'a> {
    /// The label after `BEGIN`, as the file has it. It may be anything, also a key whose line breaks are missing: messages use
    /// [`Section::name`].
    pub(crate) label: &'a str,
    /// Line of `BEGIN`, from 1.
    pub(crate) line: usize,
    /// Everything from `BEGIN` to `END`.
    text: &'a [u8],
    /// True if a header inside marks the content as encrypted.
    pub(crate) encrypted: bool,
}

/// Describes the library's error about a PEM text, without the parts of the text that its own message has.
pub fn fault(error: &PemError) -> String {
    match error {
        PemError::MissingSectionEnd { .. } => "a section begins and does not end".to_owned(),
        PemError::IllegalSectionStart { .. } => "a BEGIN line does not end in five dashes".to_owned(),
        PemError::Base64Decode(_) => "the text of a section is not base64".to_owned(),
        PemError::Io(error) => error.to_string(),
        PemError::NoItemsFound => "no section of this kind".to_owned(),
        PemError::SectionTooLarge => "a section is too large".to_owned(),
        _ => "it cannot be read".to_owned(),
    }
}

/// Fault of a PEM text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// A section that begins at `line` and does not end.
    NoEnd { name: &'static str, line: usize },
    /// `END` without `BEGIN`, or of another label.
    WrongEnd { line: usize },
    /// A `BEGIN` line that does not end in five dashes.
    BadBegin { line: usize },
    /// `BEGIN` behind `END`: two files joined without a line break.
    RunTogether { line: usize },
    /// `BEGIN` behind blanks.
    Indented { line: usize },
    /// `BEGIN` behind other text.
    Quoted { line: usize },
    /// `BEGIN` and `END` in one line.
    OneLine { line: usize },
    /// A certificate whose text is not base64.
    NotBase64 { line: usize },
    /// No certificate, but perhaps this section.
    NoCertificate(Option<&'static str>),
}

impl Broken {
    /// The repair of `file`.
    pub(crate) fn hint(&self, file: &Path) -> Option<String> {
        let file = file.display();
        match self {
            Self::RunTogether { .. } => {
                Some("the file before it was joined without a line break: insert one".to_owned())
            }
            Self::Indented { .. } => Some(format!(
                "remove the blanks at the beginning of lines: sed -i 's/^[[:blank:]]*//' {file}"
            )),
            Self::Quoted { .. } => {
                Some("remove what is in front of -----BEGIN, and of the lines below it".to_owned())
            }
            Self::OneLine { .. } => Some("its line breaks were lost: copy the file again".to_owned()),
            _ => None,
        }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoEnd { name, line } => write!(f, "line {line}: {name} begins and does not end"),
            Self::WrongEnd { line } => {
                write!(f, "line {line}: an END line without the BEGIN line it belongs to")
            }
            Self::BadBegin { line } => {
                write!(f, "line {line}: a BEGIN line that does not end in five dashes")
            }
            Self::RunTogether { line } => {
                write!(f, "line {line}: a BEGIN line that does not begin on a separate line")
            }
            Self::Indented { line } => write!(f, "line {line}: a BEGIN line that is indented"),
            Self::Quoted { line } => write!(f, "line {line}: text in front of BEGIN"),
            Self::OneLine { line } => write!(f, "line {line}: BEGIN and END in one line"),
            Self::NotBase64 { line } => write!(f, "line {line}: the text of a certificate is not base64"),
            Self::NoCertificate(Some(other)) => write!(f, "no certificate there, but {other}"),
            Self::NoCertificate(None) => f.write_str("no certificate there, expected PEM"),
        }
    }
}

/// Labels that a message may name. Any other text after `BEGIN` is content of the file: one without line breaks has its key there.
const LABELS: [&str; 22] = [
    "CERTIFICATE",
    "TRUSTED CERTIFICATE",
    "X509 CERTIFICATE",
    "X.509 CERTIFICATE",
    "X509 CRL",
    "CERTIFICATE REQUEST",
    "NEW CERTIFICATE REQUEST",
    "PRIVATE KEY",
    "ENCRYPTED PRIVATE KEY",
    "RSA PRIVATE KEY",
    "EC PRIVATE KEY",
    "DSA PRIVATE KEY",
    "OPENSSH PRIVATE KEY",
    "PUBLIC KEY",
    "RSA PUBLIC KEY",
    "EC PARAMETERS",
    "DSA PARAMETERS",
    "DH PARAMETERS",
    "X9.42 DH PARAMETERS",
    "PKCS7",
    "CMS",
    "OCSP RESPONSE",
];

/// Labels of a certificate (RFC 7468 §5.1).
const CERTIFICATE: [&str; 3] = ["CERTIFICATE", "X509 CERTIFICATE", "X.509 CERTIFICATE"];

const BEGIN: &[u8] = b"-----BEGIN ";
const END: &[u8] = b"-----END ";

/// Cuts `bytes` into sections.
///
/// **Cost**: one pass; one entry for each section.
pub(crate) fn sections(bytes: &[u8]) -> Result<Vec<Section<'_>>, Broken> {
    let mut sections: Vec<Section<'_>> = Vec::new();
    let mut open: Option<(usize, Section<'_>)> = None;
    let mut start = 0;
    for (index, raw) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let line = index + 1;
        let text = raw.trim_ascii_end();
        // A byte order mark, left by some editors.
        let text = if start == 0 { text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text) } else { text };
        let begin = start + (raw.trim_ascii_end().len() - text.len());
        start += raw.len();
        if let Some(label) = after(text, BEGIN) {
            if let Some((_, section)) = open {
                return Err(section.no_end());
            }
            if contains(label, END) {
                return Err(Broken::OneLine { line });
            }
            let label = label.strip_suffix(b"-----").ok_or(Broken::BadBegin { line })?;
            let label = std::str::from_utf8(label).map_err(|_| Broken::BadBegin { line })?;
            open = Some((begin, Section { label, line, text: &[], encrypted: false }));
        } else if let Some(label) = after(text, END) {
            let (begin, mut section) = open.take().ok_or(Broken::WrongEnd { line })?;
            match label.strip_prefix(section.label.as_bytes()) {
                Some(b"-----") => {}
                Some(rest) if contains(rest, BEGIN) => return Err(Broken::RunTogether { line }),
                _ => return Err(Broken::WrongEnd { line }),
            }
            section.text = &bytes[begin..start];
            sections.push(section);
        } else if contains(text, BEGIN) {
            return Err(before_begin(text, line));
        } else if start == bytes.len() && !text.is_empty() && BEGIN.starts_with(text) {
            // This line is still being written.
            return Err(Broken::NoEnd { name: "a section", line });
        } else if let Some((_, section)) = &mut open {
            section.encrypted |= text.starts_with(b"Proc-Type:") && contains(text, b"ENCRYPTED");
        }
    }
    match open {
        Some((_, section)) => Err(section.no_end()),
        None => Ok(sections),
    }
}

/// The rest of a line that starts with a marker. Dashes too many are tolerated: OpenSSL ignores such sections, and files with
/// them are in use. A certificate or a key with them is still an error, since its content cannot be decoded.
fn after<'a>(text: &'a [u8], marker: &[u8]) -> Option<&'a [u8]> {
    let dashes = text.iter().take_while(|byte| **byte == b'-').count();
    text[dashes.saturating_sub(5)..].strip_prefix(marker)
}

/// The fault of a line that has `BEGIN` and not at its beginning.
fn before_begin(text: &[u8], line: usize) -> Broken {
    if text.trim_ascii_start().starts_with(BEGIN) {
        return Broken::Indented { line };
    }
    if contains(text, END) { Broken::RunTogether { line } } else { Broken::Quoted { line } }
}

/// Reason why a PEM text does not consist of certificates.
#[derive(Debug, PartialEq, Eq)]
pub struct CertificatesError(Broken);

impl fmt::Display for CertificatesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl std::error::Error for CertificatesError {}

/// The certificates of a PEM text.
///
/// **Errors**: it is broken, or has none; for people.
pub fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, CertificatesError> {
    let sections = sections(pem).map_err(CertificatesError)?;
    let mut certificates = Vec::new();
    let mut others = Vec::new();
    for section in &sections {
        match section.der() {
            Some((SectionKind::Certificate, der)) => certificates.push(CertificateDer::from(der.to_vec())),
            None if section.is_certificate() => {
                return Err(CertificatesError(Broken::NotBase64 { line: section.line }));
            }
            _ => others.push(section.name()),
        }
    }
    match (certificates.is_empty(), others.first()) {
        (false, _) => Ok(certificates),
        (true, other) => Err(CertificatesError(Broken::NoCertificate(other.copied()))),
    }
}

fn contains(text: &[u8], what: &[u8]) -> bool {
    text.len() >= what.len() && text.windows(what.len()).any(|window| window == what)
}

impl Section<'_> {
    /// The label for a message: one of the known labels, or "an unknown section".
    pub(crate) fn name(&self) -> &'static str {
        LABELS.into_iter().find(|label| *label == self.label).unwrap_or("an unknown section")
    }

    /// Returns true if its label is that of a certificate.
    pub(crate) fn is_certificate(&self) -> bool {
        CERTIFICATE.contains(&self.label)
    }

    fn no_end(&self) -> Broken {
        Broken::NoEnd { name: self.name(), line: self.line }
    }

    /// The content in DER; `None` when it is not base64, or of a label that is neither certificate nor key.
    pub(crate) fn der(&self) -> Option<(SectionKind, Zeroizing<Vec<u8>>)> {
        if self.is_certificate() && self.label != CERTIFICATE[0] {
            return Some((SectionKind::Certificate, Zeroizing::new(self.base64()?)));
        }
        let (kind, der) = <(SectionKind, Vec<u8>)>::from_pem_slice(self.text).ok()?;
        Some((kind, Zeroizing::new(der)))
    }

    /// The content of a section with any label that holds nothing secret; `None` when it is not base64.
    pub(crate) fn base64(&self) -> Option<Vec<u8>> {
        // The decoder reads only labels that it knows, so it is given one.
        let text = std::str::from_utf8(self.text).ok()?;
        let known = text.replace(&format!(" {}-----", self.label), " CERTIFICATE-----");
        let (_, bytes) = <(SectionKind, Vec<u8>)>::from_pem_slice(known.as_bytes()).ok()?;
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "-----BEGIN CERTIFICATE-----\nAAEC\n-----END CERTIFICATE-----\n";

    #[test]
    fn sections_are_found_among_other_text_with_their_lines() {
        let text = format!(
            "Bag Attributes\n  friendlyName: x\n{ONE}\n-----BEGIN EC PARAMETERS-----\nBg==\n-----END EC PARAMETERS-----\n{ONE}"
        );
        let found = sections(text.as_bytes()).unwrap();
        let seen: Vec<_> = found.iter().map(|section| (section.label, section.line)).collect();
        assert_eq!(seen, [("CERTIFICATE", 3), ("EC PARAMETERS", 7), ("CERTIFICATE", 10)]);
        assert_eq!(*found[2].der().unwrap().1, [0, 1, 2]);
    }

    #[test]
    fn line_ends_of_other_systems_and_a_byte_order_mark_do_no_harm() {
        let text = format!("\u{feff}{}", ONE.replace('\n', "\r\n"));
        let found = sections(text.as_bytes()).unwrap();
        assert_eq!(*found[0].der().unwrap().1, [0, 1, 2]);
        // No line end after the last line.
        assert_eq!(sections(ONE.trim_end().as_bytes()).unwrap().len(), 1);
    }

    #[test]
    fn every_cut_of_a_section_is_noticed() {
        let whole = ONE.trim_end();
        for end in 1..whole.len() {
            assert!(sections(&whole.as_bytes()[..end]).is_err(), "cut at {end} went unnoticed");
            // The same behind a section that is whole.
            let second = format!("{ONE}{}", &whole[..end]);
            assert!(sections(second.as_bytes()).is_err(), "cut at {end} of the second went unnoticed");
        }
        let expected = Broken::NoEnd { name: "CERTIFICATE", line: 1 };
        assert_eq!(sections(&whole.as_bytes()[..40]).err(), Some(expected));
    }

    #[test]
    fn what_joins_wrongly_is_named_by_its_line() {
        let joined = format!("{}{ONE}", ONE.trim_end());
        assert_eq!(sections(joined.as_bytes()).err(), Some(Broken::RunTogether { line: 3 }));
        let wrong = "-----BEGIN CERTIFICATE-----\nAAEC\n-----END PRIVATE KEY-----\n";
        assert_eq!(sections(wrong.as_bytes()).err(), Some(Broken::WrongEnd { line: 3 }));
        assert_eq!(sections(b"\n-----END CERTIFICATE-----\n").err(), Some(Broken::WrongEnd { line: 2 }));
        assert_eq!(sections(b"-----BEGIN CERTIFICATE\n").err(), Some(Broken::BadBegin { line: 1 }));
        let moved = |before: &str| {
            sections(ONE.replace("-----BEGIN", &format!("{before}-----BEGIN")).as_bytes()).err()
        };
        assert_eq!(moved("    "), Some(Broken::Indented { line: 1 }));
        assert_eq!(moved("\t"), Some(Broken::Indented { line: 1 }));
        assert_eq!(moved("> "), Some(Broken::Quoted { line: 1 }));
        assert_eq!(sections(ONE.replace('\n', " ").as_bytes()).err(), Some(Broken::OneLine { line: 1 }));
        let inside = ONE.replace("-----END CERTIFICATE-----\n", ONE);
        let expected = Broken::NoEnd { name: "CERTIFICATE", line: 1 };
        assert_eq!(sections(inside.as_bytes()).err(), Some(expected));
    }

    #[test]
    fn a_dash_too_many_costs_no_other_section() {
        let dh = "------BEGIN DH PARAMETERS-----\nAAEC\n------END DH PARAMETERS-----\n";
        let text = format!("{ONE}{dh}{ONE}");
        let found = sections(text.as_bytes()).unwrap();
        let labels: Vec<_> = found.iter().map(|section| section.label).collect();
        assert_eq!(labels, ["CERTIFICATE", "DH PARAMETERS", "CERTIFICATE"]);
        let certificate = format!("-{}", ONE.replace("-----END", "------END"));
        assert!(
            sections(certificate.as_bytes()).unwrap()[0].der().is_none(),
            "it is not taken for a certificate"
        );
    }

    #[test]
    fn all_labels_of_a_certificate_are_read() {
        for label in CERTIFICATE {
            let text = ONE.replace("CERTIFICATE", label);
            let found = certificates(text.as_bytes()).expect(label);
            assert_eq!(*found[0], [0, 1, 2], "{label}");
        }
        for (label, reason) in [
            ("TRUSTED CERTIFICATE", "no certificate there, but TRUSTED CERTIFICATE"),
            ("SECRET", "no certificate there, but an unknown section"),
        ] {
            let text = ONE.replace("CERTIFICATE", label);
            assert_eq!(certificates(text.as_bytes()).expect_err(label).to_string(), reason);
        }
        let broken = ONE.replace("AAEC", "A*EC");
        assert_eq!(
            certificates(broken.as_bytes()).expect_err("no base64").to_string(),
            "line 1: the text of a certificate is not base64"
        );
    }

    #[test]
    fn a_pass_phrase_is_noticed() {
        let text = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\nAAEC\n-----END RSA PRIVATE KEY-----\n";
        assert!(sections(text.as_bytes()).unwrap()[0].encrypted);
        assert!(!sections(ONE.as_bytes()).unwrap()[0].encrypted);
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300)) {
            let _ = sections(&bytes).map(|found| found.iter().map(Section::der).count());
        }

        #[test]
        fn no_mixture_of_lines_panics(lines in proptest::collection::vec(
            proptest::sample::select(vec![
                "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----", "-----BEGIN ", "-----END ", "AAEC", "====",
                "-----BEGIN X-----", "-----END X-----", "", "\r", "Proc-Type: 4,ENCRYPTED",
            ]), 0..12)) {
            let text = lines.join("\n");
            let _ = sections(text.as_bytes()).map(|found| found.iter().map(Section::der).count());
        }
    }
}
