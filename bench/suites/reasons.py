"""Cases of the suites that fail with Handfast, by their numbers, and why."""

PSK = "TLS with pre-shared keys is refused: rustls has none; the file's note says to use client certificates"
CLIENT_OCSP = "OCSPaia for clients' certificates is refused: nothing is asked over the network during a handshake; the note names CRLfile"

STUNNEL = {"061": PSK, "062": PSK, "131": PSK, "272": CLIENT_OCSP, "274": CLIENT_OCSP}
HITCH = {
    "test14": "a staple is verified by the issuer in the chain, not by the machine's CAs: a private CA needs no SSL_CERT_FILE",
    "test15": "NPN is not supported: ALPN replaced it (RFC 7301)",
}
