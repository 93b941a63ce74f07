//! Names of the numbers on the wire, as IANA registers them.
//!
//! In: a number. Out: its name, or `None` for those that are not kept here; [`label`] then writes the number itself.
//! Source: the IANA registries "TLS Cipher Suites", "TLS Supported Groups", "TLS SignatureScheme", "TLS Alerts" and
//! "TLS ExtensionType Values" (RFC 9847). Of the cipher suites: those of TLS 1.3, those with ECDHE and
//! authenticated encryption, and the older ones that clients still offer with RSA, DHE_RSA and ECDHE.

use std::borrow::Cow;

/// TLS 1.2 (RFC 5246).
pub const TLS_1_2: u16 = 0x0303;

/// TLS 1.3 (RFC 9846).
pub const TLS_1_3: u16 = 0x0304;

/// Name of a protocol version, in the form that logs use: `TLSv1.3`.
pub fn version_name(version: u16) -> Option<&'static str> {
    named16(VERSIONS, version)
}

/// Name of a cipher suite: `TLS_AES_128_GCM_SHA256`.
pub fn cipher_suite_name(cipher_suite: u16) -> Option<&'static str> {
    named16(CIPHER_SUITES, cipher_suite)
}

/// Name of a key exchange group: `X25519MLKEM768`.
pub fn group_name(group: u16) -> Option<&'static str> {
    named16(GROUPS, group)
}

/// Name of a signature scheme: `ecdsa_secp256r1_sha256`.
pub fn signature_scheme_name(scheme: u16) -> Option<&'static str> {
    named16(SIGNATURE_SCHEMES, scheme)
}

/// Name of an extension: `key_share`.
pub fn extension_name(extension: u16) -> Option<&'static str> {
    named16(EXTENSIONS, extension)
}

/// Name of an alert: `handshake_failure`.
pub fn alert_description_name(description: u8) -> Option<&'static str> {
    alert_description(description).map(|(_, name, _)| *name)
}

/// Returns the definition of an alert: `RFC 9846 §6.2`.
pub fn alert_description_source(description: u8) -> Option<&'static str> {
    alert_description(description).map(|(_, _, source)| *source)
}

/// A name, or where there is none the number: `label(cipher_suite_name(code), code)`.
pub fn label(name: Option<&'static str>, code: u16) -> Cow<'static, str> {
    name.map_or_else(|| format!("0x{code:04X}").into(), Cow::Borrowed)
}

/// Returns true if a number is one of those kept free so that servers learn to ignore unknown values.
///
/// Sixteen values of the form `0x?A?A`, the same in versions, cipher suites, groups, signature schemes and extensions.
///
/// **Source**: RFC 8701 §2.
pub const fn is_grease(code: u16) -> bool {
    let [high, low] = code.to_be_bytes();
    high == low && low & 0x0f == 0x0a
}

fn named16(table: &[(u16, &'static str)], code: u16) -> Option<&'static str> {
    if is_grease(code) {
        return Some("GREASE");
    }
    table.binary_search_by_key(&code, |(key, _)| *key).ok().map(|index| table[index].1)
}

fn alert_description(description: u8) -> Option<&'static (u8, &'static str, &'static str)> {
    let index = ALERT_DESCRIPTIONS.binary_search_by_key(&description, |(key, _, _)| *key).ok()?;
    Some(&ALERT_DESCRIPTIONS[index])
}

// The tables are sorted by number, for the binary search.

/// There is no registry of versions; these are the words of logs and of most tools.
const VERSIONS: &[(u16, &str)] = &[
    (0x0002, "SSLv2"),
    (0x0300, "SSLv3"),
    (0x0301, "TLSv1.0"),
    (0x0302, "TLSv1.1"),
    (0x0303, "TLSv1.2"),
    (0x0304, "TLSv1.3"),
];

/// IANA "TLS Cipher Suites".
const CIPHER_SUITES: &[(u16, &str)] = &[
    (0x0004, "TLS_RSA_WITH_RC4_128_MD5"),
    (0x0005, "TLS_RSA_WITH_RC4_128_SHA"),
    (0x000a, "TLS_RSA_WITH_3DES_EDE_CBC_SHA"),
    (0x0016, "TLS_DHE_RSA_WITH_3DES_EDE_CBC_SHA"),
    (0x002f, "TLS_RSA_WITH_AES_128_CBC_SHA"),
    (0x0033, "TLS_DHE_RSA_WITH_AES_128_CBC_SHA"),
    (0x0035, "TLS_RSA_WITH_AES_256_CBC_SHA"),
    (0x0039, "TLS_DHE_RSA_WITH_AES_256_CBC_SHA"),
    (0x003c, "TLS_RSA_WITH_AES_128_CBC_SHA256"),
    (0x003d, "TLS_RSA_WITH_AES_256_CBC_SHA256"),
    (0x0067, "TLS_DHE_RSA_WITH_AES_128_CBC_SHA256"),
    (0x006b, "TLS_DHE_RSA_WITH_AES_256_CBC_SHA256"),
    (0x009c, "TLS_RSA_WITH_AES_128_GCM_SHA256"),
    (0x009d, "TLS_RSA_WITH_AES_256_GCM_SHA384"),
    (0x009e, "TLS_DHE_RSA_WITH_AES_128_GCM_SHA256"),
    (0x009f, "TLS_DHE_RSA_WITH_AES_256_GCM_SHA384"),
    (0x00c6, "TLS_SM4_GCM_SM3"),
    (0x00c7, "TLS_SM4_CCM_SM3"),
    (0x00ff, "TLS_EMPTY_RENEGOTIATION_INFO_SCSV"),
    (0x1301, "TLS_AES_128_GCM_SHA256"),
    (0x1302, "TLS_AES_256_GCM_SHA384"),
    (0x1303, "TLS_CHACHA20_POLY1305_SHA256"),
    (0x1304, "TLS_AES_128_CCM_SHA256"),
    (0x1305, "TLS_AES_128_CCM_8_SHA256"),
    (0x5600, "TLS_FALLBACK_SCSV"),
    (0xc007, "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA"),
    (0xc008, "TLS_ECDHE_ECDSA_WITH_3DES_EDE_CBC_SHA"),
    (0xc009, "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA"),
    (0xc00a, "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA"),
    (0xc011, "TLS_ECDHE_RSA_WITH_RC4_128_SHA"),
    (0xc012, "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA"),
    (0xc013, "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA"),
    (0xc014, "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA"),
    (0xc023, "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256"),
    (0xc024, "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384"),
    (0xc027, "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256"),
    (0xc028, "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384"),
    (0xc02b, "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"),
    (0xc02c, "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"),
    (0xc02f, "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
    (0xc030, "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"),
    (0xc05c, "TLS_ECDHE_ECDSA_WITH_ARIA_128_GCM_SHA256"),
    (0xc05d, "TLS_ECDHE_ECDSA_WITH_ARIA_256_GCM_SHA384"),
    (0xc060, "TLS_ECDHE_RSA_WITH_ARIA_128_GCM_SHA256"),
    (0xc061, "TLS_ECDHE_RSA_WITH_ARIA_256_GCM_SHA384"),
    (0xc086, "TLS_ECDHE_ECDSA_WITH_CAMELLIA_128_GCM_SHA256"),
    (0xc087, "TLS_ECDHE_ECDSA_WITH_CAMELLIA_256_GCM_SHA384"),
    (0xc08a, "TLS_ECDHE_RSA_WITH_CAMELLIA_128_GCM_SHA256"),
    (0xc08b, "TLS_ECDHE_RSA_WITH_CAMELLIA_256_GCM_SHA384"),
    (0xc09c, "TLS_RSA_WITH_AES_128_CCM"),
    (0xc09d, "TLS_RSA_WITH_AES_256_CCM"),
    (0xc09e, "TLS_DHE_RSA_WITH_AES_128_CCM"),
    (0xc09f, "TLS_DHE_RSA_WITH_AES_256_CCM"),
    (0xc0a0, "TLS_RSA_WITH_AES_128_CCM_8"),
    (0xc0a1, "TLS_RSA_WITH_AES_256_CCM_8"),
    (0xc0a2, "TLS_DHE_RSA_WITH_AES_128_CCM_8"),
    (0xc0a3, "TLS_DHE_RSA_WITH_AES_256_CCM_8"),
    (0xc0ac, "TLS_ECDHE_ECDSA_WITH_AES_128_CCM"),
    (0xc0ad, "TLS_ECDHE_ECDSA_WITH_AES_256_CCM"),
    (0xc0ae, "TLS_ECDHE_ECDSA_WITH_AES_128_CCM_8"),
    (0xc0af, "TLS_ECDHE_ECDSA_WITH_AES_256_CCM_8"),
    (0xcca8, "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"),
    (0xcca9, "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"),
    (0xccaa, "TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256"),
];

/// IANA "TLS Supported Groups", and two drafts' numbers that were widely deployed.
const GROUPS: &[(u16, &str)] = &[
    (0x0013, "secp192r1"),
    (0x0015, "secp224r1"),
    (0x0016, "secp256k1"),
    (0x0017, "secp256r1"),
    (0x0018, "secp384r1"),
    (0x0019, "secp521r1"),
    (0x001a, "brainpoolP256r1"),
    (0x001b, "brainpoolP384r1"),
    (0x001c, "brainpoolP512r1"),
    // IANA writes it in lower case; the configuration, and X25519MLKEM768, write it like RFC 7748.
    (0x001d, "X25519"),
    (0x001e, "x448"),
    (0x001f, "brainpoolP256r1tls13"),
    (0x0020, "brainpoolP384r1tls13"),
    (0x0021, "brainpoolP512r1tls13"),
    (0x0029, "curveSM2"),
    (0x0100, "ffdhe2048"),
    (0x0101, "ffdhe3072"),
    (0x0102, "ffdhe4096"),
    (0x0103, "ffdhe6144"),
    (0x0104, "ffdhe8192"),
    (0x0200, "MLKEM512"),
    (0x0201, "MLKEM768"),
    (0x0202, "MLKEM1024"),
    (0x11eb, "SecP256r1MLKEM768"),
    (0x11ec, "X25519MLKEM768"),
    (0x11ed, "SecP384r1MLKEM1024"),
    (0x6399, "X25519Kyber768Draft00"),
    (0x639a, "SecP256r1Kyber768Draft00"),
];

/// IANA "TLS SignatureScheme".
const SIGNATURE_SCHEMES: &[(u16, &str)] = &[
    (0x0201, "rsa_pkcs1_sha1"),
    (0x0203, "ecdsa_sha1"),
    (0x0401, "rsa_pkcs1_sha256"),
    (0x0403, "ecdsa_secp256r1_sha256"),
    (0x0420, "rsa_pkcs1_sha256_legacy"),
    (0x0501, "rsa_pkcs1_sha384"),
    (0x0503, "ecdsa_secp384r1_sha384"),
    (0x0520, "rsa_pkcs1_sha384_legacy"),
    (0x0601, "rsa_pkcs1_sha512"),
    (0x0603, "ecdsa_secp521r1_sha512"),
    (0x0620, "rsa_pkcs1_sha512_legacy"),
    (0x0708, "sm2sig_sm3"),
    (0x0804, "rsa_pss_rsae_sha256"),
    (0x0805, "rsa_pss_rsae_sha384"),
    (0x0806, "rsa_pss_rsae_sha512"),
    (0x0807, "ed25519"),
    (0x0808, "ed448"),
    (0x0809, "rsa_pss_pss_sha256"),
    (0x080a, "rsa_pss_pss_sha384"),
    (0x080b, "rsa_pss_pss_sha512"),
    (0x081a, "ecdsa_brainpoolP256r1tls13_sha256"),
    (0x081b, "ecdsa_brainpoolP384r1tls13_sha384"),
    (0x081c, "ecdsa_brainpoolP512r1tls13_sha512"),
    (0x0904, "mldsa44"),
    (0x0905, "mldsa65"),
    (0x0906, "mldsa87"),
];

/// IANA "TLS ExtensionType Values".
const EXTENSIONS: &[(u16, &str)] = &[
    (0, "server_name"),
    (1, "max_fragment_length"),
    (5, "status_request"),
    (10, "supported_groups"),
    (11, "ec_point_formats"),
    (13, "signature_algorithms"),
    (14, "use_srtp"),
    (15, "heartbeat"),
    (16, "application_layer_protocol_negotiation"),
    (17, "status_request_v2"),
    (18, "signed_certificate_timestamp"),
    (19, "client_certificate_type"),
    (20, "server_certificate_type"),
    (21, "padding"),
    (22, "encrypt_then_mac"),
    (23, "extended_master_secret"),
    (24, "token_binding"),
    (25, "cached_info"),
    (27, "compress_certificate"),
    (28, "record_size_limit"),
    (34, "delegated_credential"),
    (35, "session_ticket"),
    (41, "pre_shared_key"),
    (42, "early_data"),
    (43, "supported_versions"),
    (44, "cookie"),
    (45, "psk_key_exchange_modes"),
    (47, "certificate_authorities"),
    (48, "oid_filters"),
    (49, "post_handshake_auth"),
    (50, "signature_algorithms_cert"),
    (51, "key_share"),
    (54, "connection_id"),
    (57, "quic_transport_parameters"),
    (58, "ticket_request"),
    (64768, "ech_outer_extensions"),
    (65037, "encrypted_client_hello"),
    (65281, "renegotiation_info"),
];

/// IANA "TLS Alerts", with the section that defines each; RESERVED are those no longer sent.
const ALERT_DESCRIPTIONS: &[(u8, &str, &str)] = &[
    (0, "close_notify", "RFC 9846 §6.1"),
    (10, "unexpected_message", "RFC 9846 §6.2"),
    (20, "bad_record_mac", "RFC 9846 §6.2"),
    (21, "decryption_failed_RESERVED", "RFC 5246 §7.2.2"),
    (22, "record_overflow", "RFC 9846 §6.2"),
    (30, "decompression_failure_RESERVED", "RFC 5246 §7.2.2"),
    (40, "handshake_failure", "RFC 9846 §6.2"),
    (41, "no_certificate_RESERVED", "RFC 5246 §7.2.2"),
    (42, "bad_certificate", "RFC 9846 §6.2"),
    (43, "unsupported_certificate", "RFC 9846 §6.2"),
    (44, "certificate_revoked", "RFC 9846 §6.2"),
    (45, "certificate_expired", "RFC 9846 §6.2"),
    (46, "certificate_unknown", "RFC 9846 §6.2"),
    (47, "illegal_parameter", "RFC 9846 §6.2"),
    (48, "unknown_ca", "RFC 9846 §6.2"),
    (49, "access_denied", "RFC 9846 §6.2"),
    (50, "decode_error", "RFC 9846 §6.2"),
    (51, "decrypt_error", "RFC 9846 §6.2"),
    (52, "too_many_cids_requested", "RFC 9147 §9"),
    (60, "export_restriction_RESERVED", "RFC 5246 §7.2.2"),
    (70, "protocol_version", "RFC 9846 §6.2"),
    (71, "insufficient_security", "RFC 9846 §6.2"),
    (80, "internal_error", "RFC 9846 §6.2"),
    (86, "inappropriate_fallback", "RFC 7507 §3"),
    (90, "user_canceled", "RFC 9846 §6.1"),
    (100, "no_renegotiation_RESERVED", "RFC 5246 §7.2.2"),
    (109, "missing_extension", "RFC 9846 §6.2"),
    (110, "unsupported_extension", "RFC 9846 §6.2"),
    (111, "certificate_unobtainable_RESERVED", "RFC 6066 §9"),
    (112, "unrecognized_name", "RFC 6066 §3"),
    (113, "bad_certificate_status_response", "RFC 6066 §8"),
    (114, "bad_certificate_hash_value_RESERVED", "RFC 6066 §9"),
    (115, "unknown_psk_identity", "RFC 9846 §6.2"),
    (116, "certificate_required", "RFC 9846 §6.2"),
    (117, "general_error", "RFC 9846 §6.2"),
    (120, "no_application_protocol", "RFC 7301 §3.2"),
    (121, "ech_required", "RFC 9849 §5"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_sorted_without_doubles() {
        for table in [VERSIONS, CIPHER_SUITES, GROUPS, SIGNATURE_SCHEMES, EXTENSIONS] {
            assert!(table.array_windows().all(|[one, next]| one.0 < next.0), "after {:?}", table[0]);
        }
        assert!(ALERT_DESCRIPTIONS.array_windows().all(|[one, next]| one.0 < next.0));
    }

    #[test]
    fn well_known_numbers_have_their_names() {
        assert_eq!(version_name(0x0304), Some("TLSv1.3"));
        assert_eq!(cipher_suite_name(0x1301), Some("TLS_AES_128_GCM_SHA256"));
        assert_eq!(cipher_suite_name(0xc02b), Some("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"));
        assert_eq!(cipher_suite_name(0xcca8), Some("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"));
        assert_eq!(group_name(0x001d), Some("X25519"));
        assert_eq!(group_name(0x11ec), Some("X25519MLKEM768"));
        assert_eq!(signature_scheme_name(0x0403), Some("ecdsa_secp256r1_sha256"));
        assert_eq!(extension_name(51), Some("key_share"));
        assert_eq!(alert_description_name(112), Some("unrecognized_name"));
        assert_eq!(alert_description_source(112), Some("RFC 6066 §3"));
        assert_eq!(alert_description_name(255), None);
    }

    #[test]
    fn numbers_without_a_name_are_written_out() {
        assert_eq!(label(cipher_suite_name(0xabcd), 0xabcd), "0xABCD");
        assert_eq!(label(group_name(0x001d), 0x001d), "X25519");
    }

    #[test]
    fn grease_is_sixteen_values() {
        assert_eq!((0..=u16::MAX).filter(|code| is_grease(*code)).count(), 16);
        assert!(is_grease(0x0a0a) && is_grease(0xfafa) && !is_grease(0x0a1a) && !is_grease(0x0b0b));
        assert_eq!(cipher_suite_name(0x1a1a), Some("GREASE"));
    }
}
