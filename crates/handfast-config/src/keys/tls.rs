//! The keys of TLS that services and their backends share.

use crate::kind::*;
use crate::model::MissingCloseNotify;
use crate::schema::section;

section! {
    keys alone;

    /// Protocol of clients before they ask for TLS on the same connection. Handfast answers in that protocol, lets nothing through but
    /// the request for TLS, and takes the backend's own greeting for itself. The backend is spoken to as without it. Clients of `ldap`,
    /// `postgresql` and `xmpp` may also begin TLS at once; `postgresql` answers ALPN for them.
    STARTTLS: StarttlsProtocol = "starttls", StarttlsProtocol,
        absent "clients speak TLS from the first byte",
        why "TLS from the first byte is simpler and safer (RFC 8314); this is for clients that cannot do it",
        example "\"smtp\"", elsewhere "protocol start-tls stls upgrade opportunistic-tls";

    /// Versions, suites and groups as a named policy. A policy never changes after its date; see the list at the end.
    POLICY: Text = "policy", Text("text"),
        default "\"2026-11\"",
        why "safe with every client of the last ten years",
        example "\"2026-11-modern\"", elsewhere "tls-policy security-policy security-level profile";

    /// TLS versions, instead of the policy's.
    VERSIONS: List<Text> = "versions", List { bare: false, unique: false, ..List::of(Text("text, such as `\"1.3\"`")) },
        absent "those of the policy",
        why "the policy decides",
        example "[\"1.3\"]", elsewhere "tls-versions tls-protos ssl-protocols ssl-version min-version protocols";

    /// Cipher suites by their IANA names, best first, instead of the policy's.
    SUITES: List<Text> = "suites",
        List { bare: false, unique: false, ..List::of(Text("text, such as `\"TLS_AES_128_GCM_SHA256\"`")) },
        absent "those of the policy",
        why "the policy decides",
        example "[\"TLS_AES_256_GCM_SHA384\", \"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384\"]",
        elsewhere "ciphers ciphersuites cipher-suites ssl-ciphers";

    /// Key exchange groups by their IANA names, best first, instead of the policy's.
    GROUPS: List<Text> = "groups", List { bare: false, unique: false, ..List::of(Text("text, such as `\"X25519\"`")) },
        absent "those of the policy",
        why "the policy decides",
        example "[\"X25519\", \"secp256r1\"]", elsewhere "curves ecdh-curve ssl-ecdh-curve curve";

    /// Meaning of a client's FIN without close_notify. `abort`: the backend is reset, and an answer that is still to come is lost. `end`:
    /// it is passed on as a clean end, and the answer is delivered; but then anyone on the network path can cut a client's upload short,
    /// and the backend takes the part for the whole, unless its protocol says by itself where a message ends. A FIN in the middle of a
    /// TLS record is an abort in both cases. For `mode = "tcp"`: messages of HTTP show where they end.
    MISSING_CLOSE_NOTIFY: Choice<MissingCloseNotify> = "missing-close-notify",
        Choice(&[("abort", MissingCloseNotify::Abort), ("end", MissingCloseNotify::End)]),
        default "\"abort\"",
        why "only close_notify proves that the stream was not cut (RFC 9846 §6.1), and a proxy does not know the protocol",
        example "\"end\"", elsewhere "close-notify ignore-unexpected-eof unexpected-eof ssl-unclean-shutdown tls-eof";
}
