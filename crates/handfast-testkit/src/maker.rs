//! Certificates for the tests of the crates that read them: made by rcgen for speed, by the openssl program for the forms that others write.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};

/// Time within the validity of everything that [`Maker`] makes by default.
pub const NOW: i64 = 1_793_534_400; // 2026-11-01 12:00:00 UTC

/// Properties of the certificate to make.
pub struct Maker {
    /// DNS names and addresses.
    pub names: Vec<String>,
    /// The common name.
    pub subject: &'static str,
    /// First day of its validity.
    pub from: (i32, u8, u8),
    /// Day on which it ends.
    pub to: (i32, u8, u8),
    /// Algorithm of its key.
    pub algorithm: &'static rcgen::SignatureAlgorithm,
    /// True for a CA.
    pub is_authority: bool,
}

/// A certificate and its key.
pub struct Made {
    /// Its description.
    pub params: CertificateParams,
    /// Its key.
    pub key: KeyPair,
    /// The certificate.
    pub certificate: rcgen::Certificate,
}

impl Maker {
    /// An ECDSA certificate for these names, valid at [`NOW`].
    pub fn new(names: &[&str]) -> Self {
        Self {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            subject: "a test",
            from: (2026, 1, 1),
            to: (2027, 1, 1),
            algorithm: &rcgen::PKCS_ECDSA_P256_SHA256,
            is_authority: false,
        }
    }

    /// A CA of this name.
    pub fn authority(subject: &'static str) -> Self {
        Self { subject, is_authority: true, ..Self::new(&[]) }
    }

    /// The same with another validity.
    pub fn valid(self, from: (i32, u8, u8), to: (i32, u8, u8)) -> Self {
        Self { from, to, ..self }
    }

    /// The same with a key for another algorithm.
    pub fn algorithm(self, algorithm: &'static rcgen::SignatureAlgorithm) -> Self {
        Self { algorithm, ..self }
    }

    fn params(&self) -> CertificateParams {
        let mut params =
            CertificateParams::new(self.names.clone()).expect("names that a certificate can have");
        params.distinguished_name.push(DnType::CommonName, self.subject);
        params.not_before = date_time_ymd(self.from.0, self.from.1, self.from.2);
        params.not_after = date_time_ymd(self.to.0, self.to.1, self.to.2);
        if self.is_authority {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        }
        params
    }

    /// Makes it, signed by its own key.
    pub fn self_signed(&self) -> Made {
        let key = KeyPair::generate_for(self.algorithm).expect("a key");
        let params = self.params();
        let certificate = params.self_signed(&key).expect("a certificate");
        Made { params, key, certificate }
    }

    /// Makes it, signed by `issuer`.
    pub fn signed_by(&self, issuer: &Made) -> Made {
        let key = KeyPair::generate_for(self.algorithm).expect("a key");
        let params = self.params();
        let certificate =
            params.signed_by(&key, &Issuer::from_params(&issuer.params, &issuer.key)).expect("a certificate");
        Made { params, key, certificate }
    }
}

impl Made {
    /// The certificate in PEM.
    pub fn pem(&self) -> String {
        self.certificate.pem()
    }

    /// The key in PEM.
    pub fn key_pem(&self) -> String {
        self.key.serialize_pem()
    }

    /// Both in one.
    pub fn both(&self) -> String {
        self.pem() + &self.key_pem()
    }
}

/// A folder with files that only their owner can read.
#[derive(Debug)]
pub struct Folder(tempfile::TempDir);

impl Default for Folder {
    fn default() -> Self {
        Self::new()
    }
}

impl Folder {
    /// Makes an empty one.
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// The path of `name` in it.
    pub fn at(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Writes a file with mode 0600, in the place of an older one.
    pub fn put(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.at(name);
        let _ = fs::remove_file(&path);
        let mut file =
            File::options().write(true).create_new(true).mode(0o600).open(&path).expect("a new file");
        file.write_all(content.as_ref()).expect("a writable file");
        path
    }

    /// Runs openssl in the folder. Files it makes get mode 0600.
    pub fn openssl(&self, arguments: &str) {
        let output = Command::new("sh")
            .current_dir(self.path())
            .args(["-c", &format!("umask 077; exec openssl {arguments}")])
            .output()
            .expect("openssl is installed");
        assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// The PEM section under this heading of a text.
pub fn section_under<'t>(text: &'t str, heading: &str) -> &'t str {
    let start = format!("{heading}\n-----BEGIN");
    let from = match text.starts_with(&start) {
        true => 0,
        false => text.find(&format!("\n{start}")).expect("a known heading") + 1,
    };
    let section = &text[from + heading.len() + 1..];
    let end = section.find("-----END ").expect("its end");
    let line = section[end..].find('\n').expect("a line end");
    &section[..=end + line]
}
