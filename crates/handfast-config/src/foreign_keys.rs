//! Keys of other programs that have no other word here, and what to write instead.

pub(crate) fn hint(word: &str) -> Option<&'static str> {
    let word = handfast_text::suggest::plain(word);
    KEYS.iter().find(|(words, _)| has_word(words, &word)).map(|(_, hint)| *hint)
}

/// Returns true if `words`, separated by spaces, include this one.
pub(crate) fn has_word(words: &str, word: &str) -> bool {
    words.split(' ').any(|known| known == word)
}

const KEYS: [(&str, &str); 6] = [
    (
        "send-proxy send-proxy-v2 accept-proxy write-proxy write-proxy-v1 write-proxy-v2 read-proxy proxy-proxy",
        "PROXY headers have their own section: [service.proxy-protocol] with `accept-from` and `send`",
    ),
    (
        "client",
        "for clients in plain text and TLS towards the backends, write `client-tls = false` and `backend-tls = {}` in [[service]]",
    ),
    (
        "tls-backend ssl-backend proxy-ssl backend-ca verify-backend",
        "TLS towards backends has a separate section: [service.backend-tls] with `ca`, `name` and others",
    ),
    (
        "ocsp ocsp-stapling ssl-stapling",
        "an OCSP response is stapled from the file beside the certificate that has `.ocsp` behind its name; nothing is fetched",
    ),
    ("crl crl-file crlfile ssl-crl", "revocation lists are `crl` in [service.client-certificates]"),
    (
        "acme letsencrypt lets-encrypt",
        "certificates are ordered with a section [acme] and `certificate = \"acme\"` in [[service]]; docs/proxy/acme.md shows both. Those of certbot \
         and others are files: name their folder in `certificate`",
    ),
];
