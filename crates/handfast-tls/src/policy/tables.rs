//! The tables: the dated policies, and every version, suite and group that this program can do.
//!
//! In: a word from a configuration. Out: its meaning, a suggestion for a misspelt word, or nothing.

use rustls::crypto::SupportedKxGroup;
use rustls::crypto::aws_lc_rs::{cipher_suite, kx_group};
use rustls::version::{TLS12, TLS13};
use rustls::{SupportedCipherSuite, SupportedProtocolVersion, Tls13CipherSuite};

use super::hkdf::ExtractOnce;
use super::suite::with;
use super::transcript::AsSent;
use super::trial::WithTrial;

/// A policy as it was published; never changed after its date.
pub(super) struct Named {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) versions: &'static [&'static str],
    pub(super) suites: &'static [&'static str],
    pub(super) groups: &'static [&'static str],
}

/// Suites of TLS 1.3 and 1.2 in the order of the dated policies: AES-128 first, because it is secure and the
/// cheapest per byte with AES instructions; in 1.2 the certificate's key decides between ECDSA and RSA anyway.
pub(super) const ALL_SUITES: &[&str] = &[
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
];

pub(super) const MODERN_SUITES: &[&str] =
    &["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"];

pub(super) const NAMED: &[Named] = &[
    Named {
        name: "2026-11",
        about: "TLS 1.2 and 1.3, for clients of the last ten years; post-quantum key exchange first",
        versions: &["1.3", "1.2"],
        suites: ALL_SUITES,
        groups: &["X25519MLKEM768", "X25519", "secp256r1", "secp384r1"],
    },
    Named {
        name: "2026-11-modern",
        about: "TLS 1.3 only; post-quantum key exchange first",
        versions: &["1.3"],
        suites: MODERN_SUITES,
        groups: &["X25519MLKEM768", "X25519", "secp256r1", "secp384r1"],
    },
    Named {
        name: "2026-11-fast",
        about: "as 2026-11 with X25519 first: 2.3 KB less on the wire and about a third less key exchange time for each \
                handshake, but who records traffic today may read it with a quantum computer later",
        versions: &["1.3", "1.2"],
        suites: ALL_SUITES,
        groups: &["X25519", "secp256r1", "X25519MLKEM768", "secp384r1"],
    },
];

/// A suite this program can do.
pub(super) struct Suite {
    pub(super) name: &'static str,
    pub(super) suite: SupportedCipherSuite,
    pub(super) openssl: &'static str,
}

/// A group this program can do.
pub(super) struct Group {
    pub(super) name: &'static str,
    pub(super) group: &'static dyn SupportedKxGroup,
    /// True if TLS 1.2 can use it; hybrid groups came with 1.3.
    pub(super) in_tls12: bool,
    /// Names of the group in other programs.
    pub(super) also: &'static [&'static str],
}

static AES_128: Tls13CipherSuite =
    with(&cipher_suite::TLS13_AES_128_GCM_SHA256, &SHA256, &SHA256_HKDF, &AES_128_AEAD);
static AES_256: Tls13CipherSuite =
    with(&cipher_suite::TLS13_AES_256_GCM_SHA384, &SHA384, &SHA384_HKDF, &AES_256_AEAD);
static CHACHA20: Tls13CipherSuite =
    with(&cipher_suite::TLS13_CHACHA20_POLY1305_SHA256, &SHA256, &SHA256_HKDF, &CHACHA20_AEAD);
static SHA256: AsSent = AsSent::of(&cipher_suite::TLS13_AES_128_GCM_SHA256);
static SHA384: AsSent = AsSent::of(&cipher_suite::TLS13_AES_256_GCM_SHA384);
static SHA256_HKDF: ExtractOnce = ExtractOnce::of(&cipher_suite::TLS13_AES_128_GCM_SHA256);
static SHA384_HKDF: ExtractOnce = ExtractOnce::of(&cipher_suite::TLS13_AES_256_GCM_SHA384);
static AES_128_AEAD: WithTrial = WithTrial::of(&cipher_suite::TLS13_AES_128_GCM_SHA256);
static AES_256_AEAD: WithTrial = WithTrial::of(&cipher_suite::TLS13_AES_256_GCM_SHA384);
static CHACHA20_AEAD: WithTrial = WithTrial::of(&cipher_suite::TLS13_CHACHA20_POLY1305_SHA256);

pub(super) static SUITES: &[Suite] = &[
    Suite {
        name: "TLS_AES_128_GCM_SHA256",
        suite: SupportedCipherSuite::Tls13(&AES_128),
        openssl: "TLS13_AES_128_GCM_SHA256",
    },
    Suite {
        name: "TLS_AES_256_GCM_SHA384",
        suite: SupportedCipherSuite::Tls13(&AES_256),
        openssl: "TLS13_AES_256_GCM_SHA384",
    },
    Suite {
        name: "TLS_CHACHA20_POLY1305_SHA256",
        suite: SupportedCipherSuite::Tls13(&CHACHA20),
        openssl: "TLS13_CHACHA20_POLY1305_SHA256",
    },
    Suite {
        name: "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        suite: cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        openssl: "ECDHE-ECDSA-AES128-GCM-SHA256",
    },
    Suite {
        name: "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        suite: cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        openssl: "ECDHE-RSA-AES128-GCM-SHA256",
    },
    Suite {
        name: "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        suite: cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        openssl: "ECDHE-ECDSA-AES256-GCM-SHA384",
    },
    Suite {
        name: "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        suite: cipher_suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
        openssl: "ECDHE-RSA-AES256-GCM-SHA384",
    },
    Suite {
        name: "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        suite: cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        openssl: "ECDHE-ECDSA-CHACHA20-POLY1305",
    },
    Suite {
        name: "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        suite: cipher_suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
        openssl: "ECDHE-RSA-CHACHA20-POLY1305",
    },
];

/// Pure ML-KEM groups are left out: no client offers them without a classical half, and no user requested them.
pub(super) static GROUPS: &[Group] = &[
    Group {
        name: "X25519MLKEM768",
        group: kx_group::X25519MLKEM768,
        in_tls12: false,
        also: &["x25519_mlkem768", "X25519-MLKEM768"],
    },
    Group {
        name: "SecP256r1MLKEM768",
        group: kx_group::SECP256R1MLKEM768,
        in_tls12: false,
        also: &["p256_mlkem768", "P-256-MLKEM768"],
    },
    Group { name: "X25519", group: kx_group::X25519, in_tls12: true, also: &["curve25519", "X-25519"] },
    Group {
        name: "secp256r1",
        group: kx_group::SECP256R1,
        in_tls12: true,
        also: &["P-256", "P256", "prime256v1", "nistp256"],
    },
    Group {
        name: "secp384r1",
        group: kx_group::SECP384R1,
        in_tls12: true,
        also: &["P-384", "P384", "nistp384"],
    },
];

pub(super) static VERSIONS: &[(&str, &SupportedProtocolVersion, &[&str])] = &[
    ("1.3", &TLS13, &["TLSv1.3", "TLS1.3", "TLS 1.3", "13"]),
    ("1.2", &TLS12, &["TLSv1.2", "TLS1.2", "TLS 1.2", "12"]),
];

/// Words for versions that must not be used any more, and why.
const OLD_VERSIONS: &[(&[&str], &str)] = &[
    (
        &[
            "1.1", "TLSv1.1", "TLS1.1", "TLS 1.1", "11", "1.0", "1", "TLSv1", "TLSv1.0", "TLS1.0", "TLS 1.0",
            "10",
        ],
        "is not supported: it rests on SHA-1 and MD5, and RFC 8996 forbids it",
    ),
    (&["SSLv3", "SSL3", "3.0", "SSLv2", "SSL2"], "is not supported: it is broken, and RFC 7568 forbids it"),
];

/// The meaning of a word in a list.
pub(super) enum Found<T> {
    Exact(&'static str, T),
    Meant(&'static str),
    /// Known, and not served: why.
    Refused(&'static str),
    Nothing,
}

impl<T> Found<T> {
    pub(super) fn exact(self) -> Option<T> {
        match self {
            Self::Exact(_, found) => Some(found),
            Self::Meant(_) | Self::Refused(_) | Self::Nothing => None,
        }
    }
}

pub(super) fn find_version(word: &str) -> Found<&'static SupportedProtocolVersion> {
    for (name, version, also) in VERSIONS {
        if *name == word {
            return Found::Exact(name, version);
        }
        if also.iter().any(|also| also.eq_ignore_ascii_case(word)) {
            return Found::Meant(name);
        }
    }
    let old = OLD_VERSIONS.iter().find(|(words, _)| words.iter().any(|old| old.eq_ignore_ascii_case(word)));
    if let Some((_, why)) = old {
        return Found::Refused(why);
    }
    Found::Nothing
}

pub(super) fn find_suite(word: &str) -> Found<&'static Suite> {
    for suite in SUITES {
        if suite.name.eq_ignore_ascii_case(word) {
            return Found::Exact(suite.name, suite);
        }
        if suite.openssl.eq_ignore_ascii_case(word) {
            return Found::Meant(suite.name);
        }
    }
    Found::Nothing
}

pub(super) fn find_group(word: &str) -> Found<&'static Group> {
    for group in GROUPS {
        if group.name.eq_ignore_ascii_case(word) {
            return Found::Exact(group.name, group);
        }
        if group.also.iter().any(|also| also.eq_ignore_ascii_case(word)) {
            return Found::Meant(group.name);
        }
    }
    Found::Nothing
}
