//! Findings about certificate files: severity, file, description, and a hint.
//!
//! In: the observations of `load`, `store` and `client_certificates`. Out: lines for an operator, and two decisions for
//! a reload: whether this state may be used, and whether a file may be only partially written.

use std::fmt;
use std::path::{Path, PathBuf};

/// Bytes of a message.
const MAX_MESSAGE_BYTES: usize = 2_000;

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The configuration must not be used: something in it cannot be served.
    Error,
    /// It can be used, and an operator should look at it.
    Warning,
    /// For completeness: what was seen and deliberately not used.
    Note,
}

impl Severity {
    /// The word used in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

/// The kind of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The file or folder is not there.
    Missing,
    /// The system refused to let it be opened or read.
    Unreadable,
    /// Not a regular file where one was expected: a FIFO, a device, a socket, a folder.
    NotAFile,
    /// Larger than any certificate file needs to be.
    TooLarge,
    /// It changed each time while it was being read.
    Changing,
    /// It has no bytes.
    Empty,
    /// It holds no PEM section.
    NotPem,
    /// A PEM section begins and does not end.
    Truncated,
    /// A PEM section's text is not base64, or its beginning or end line is broken.
    BadPem,
    /// A PKCS#12 file that cannot be read.
    BadPkcs12,
    /// A certificate that cannot be parsed.
    BadCertificate,
    /// A certificate that its issuer did not sign.
    BadSignature,
    /// A certificate whose signature has a hash that can be forged.
    BrokenHash,
    /// A certificate that is valid for longer than clients accept.
    LongValidity,
    /// A key that cannot be parsed, or of a kind TLS cannot use.
    BadKey,
    /// A key behind a pass phrase.
    EncryptedKey,
    /// A key that is known to be weak, or too short to be accepted by clients.
    WeakKey,
    /// One key for unrelated names.
    SharedKey,
    /// A list of known keys that is none.
    BadList,
    /// Nothing that could be served was found.
    NoCertificate,
    /// A certificate without its key.
    NoKey,
    /// A key without its certificate.
    KeyAlone,
    /// More than one key where one was expected.
    SeveralKeys,
    /// The key and the certificate do not belong together.
    KeyDoesNotFit,
    /// Group or others can read the key.
    Permissions,
    /// The certificate's time is over.
    Expired,
    /// The certificate's time has not come.
    NotYetValid,
    /// The chain's order was wrong and has been put right.
    ChainOrder,
    /// A certificate in the chain that leads nowhere; it is not sent.
    NotInChain,
    /// The chain sent lacks a certificate that is at hand.
    ChainIncomplete,
    /// The chain sends what no client needs.
    ChainNeedless,
    /// The certificate names no host that a client could ask for.
    NoNames,
    /// A name that no client can request: only in the subject, or not a DNS name.
    UnusableName,
    /// The same certificate was found before.
    Duplicate,
    /// Another certificate for the same names and kind of key is served instead.
    Shadowed,
    /// A revocation list that cannot be used.
    BadRevocationList,
    /// A CA without a revocation list, where others have one; or a file without any.
    NoRevocationList,
    /// A CA's certificate that nothing here uses.
    UnusedAuthority,
    /// A PEM section that is neither certificate nor key.
    UnusedSection,
    /// An OCSP response that cannot be stapled: broken, or signed by a certificate without that permission.
    BadStaple,
    /// An OCSP response about another certificate.
    StapleOfOther,
    /// An OCSP response whose time is over.
    StapleExpired,
    /// An OCSP response whose time has not come.
    StapleNotYetValid,
    /// An OCSP response that is stapled although its signature could not be checked.
    StapleUnverified,
    /// No OCSP response for a certificate that demands one.
    StapleMissing,
    /// An OCSP response that does not confirm the certificate as good.
    Revoked,
    /// A hidden file.
    Hidden,
    /// A folder inside the folder.
    SubFolder,
}

/// One thing noticed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Severity of the finding.
    pub severity: Severity,
    /// Kind of problem.
    pub reason: Reason,
    /// The file it is about.
    pub file: PathBuf,
    /// Problem and expected state; lower case, no full stop, without the file's name in front.
    pub message: String,
    /// The cure, when there is one.
    pub hint: Option<String>,
}

impl Finding {
    /// A finding without a hint.
    pub fn new(
        severity: Severity,
        reason: Reason,
        file: impl AsRef<Path>,
        message: impl Into<String>,
    ) -> Self {
        let file = file.as_ref().to_path_buf();
        let mut message = handfast_text::units::plain(&message.into());
        // A certificate's names have no bound but that of its file.
        if message.len() > MAX_MESSAGE_BYTES {
            message.truncate(message.floor_char_boundary(MAX_MESSAGE_BYTES));
            message.push('…');
        }
        Self { severity, reason, file, message, hint: None }
    }

    /// An error.
    pub fn error(reason: Reason, file: impl AsRef<Path>, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, reason, file, message)
    }

    /// A warning.
    pub fn warning(reason: Reason, file: impl AsRef<Path>, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, reason, file, message)
    }

    /// A note.
    pub fn note(reason: Reason, file: impl AsRef<Path>, message: impl Into<String>) -> Self {
        Self::new(Severity::Note, reason, file, message)
    }

    /// Adds the cure.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Returns true if a certificate looks like this while it is being written, so that another attempt in 100 ms may
    /// help: a pair that does not fit, a file cut short, empty, missing or changing.
    pub fn may_be_half_written(&self) -> bool {
        matches!(
            self.reason,
            Reason::KeyDoesNotFit
                | Reason::NoKey
                | Reason::KeyAlone
                | Reason::NoCertificate
                | Reason::Truncated
                | Reason::BadPem
                | Reason::BadPkcs12
                | Reason::BadCertificate
                | Reason::BadSignature
                | Reason::BadKey
                | Reason::BadRevocationList
                | Reason::NoRevocationList
                | Reason::Empty
                | Reason::NotPem
                | Reason::Missing
                | Reason::Changing
                | Reason::BadStaple
                | Reason::StapleOfOther
        )
    }
}

/// Returns true if one of the findings is an error.
pub fn has_error(findings: &[Finding]) -> bool {
    findings.iter().any(|finding| finding.severity == Severity::Error)
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file.display(), self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn severities_have_words() {
        let words = [Severity::Error, Severity::Warning, Severity::Note].map(Severity::name);
        assert_eq!(words, ["error", "warning", "note"]);
    }
}
