//! Explains the terms of a report. In: a topic. Out: some paragraphs.

use handfast_text::suggest::did_you_mean_or_all;

/// Name, title, text.
type Topic = (&'static str, &'static str, &'static str);

const TOPICS: [Topic; 15] = [
    ("round-trips", "Round trips", "\
A round trip is one wait for an answer from the other end. TCP takes one (SYN, SYN-ACK). A full TLS 1.3 handshake takes one more,
TLS 1.2 two, a resumed handshake of either one. The request takes one. Distance sets what each costs, about 1 ms for each 100 km and
more over real cables; no faster machine makes it shorter. So there are two cures: be nearer, or take fewer.
The probe counts a round trip where an answer had to be waited for, by the order of what was said, not by dividing times."),
    ("initial-window", "The initial window", "\
A server may send 10 segments (RFC 6928, about 14 kB) before the first acknowledgement comes back. A certificate chain that is longer
makes everybody wait one more round trip in the midst of the handshake. The probe sees it: the bytes of the first burst, then nothing for
one round trip, then the rest. Cures: leave the root out of the chain, use ECDSA certificates, compress certificates (RFC 8879), or
on Linux `ip route change default via GATEWAY initcwnd 16`."),
    ("nagle", "Nagle's algorithm", "\
A kernel does not send a segment that is not full while an earlier small one is not acknowledged (RFC 9293, section 3.7.4). A server that
writes its flight with two calls therefore sends the second part one round trip later. The probe sees it: less than a segment arrives one
round trip after the rest of the flight, although no window is full. A server that computes for exactly one round trip looks the same:
measure from another distance if you are not sure. Cures: TCP_NODELAY on accepted sockets, or one write for the whole flight."),
    ("rsa", "RSA signatures", "\
In a full handshake the server signs. RSA-2048 takes about 0.5 to 1 ms of a core, RSA-4096 five times that, ECDSA P-256 some 20 to 50 µs.
While it signs, everybody behind it waits. Resumed handshakes need no signature: where they are much quicker, and RTT is the same, the
signature is what takes the time. `handfast speed` shows what a CPU can do. Serve an ECDSA certificate, with RSA beside it for old clients."),
    ("think-time", "The server's own time", "\
From the moment at which the server's kernel acknowledged our bytes to the first byte of its answer. The network is in neither, so no
distance changes it. Where the acknowledgement travels with the answer it cannot be told, and the round trip of the SYN is taken off
instead. What is in it: waiting to be accepted, waiting for a core, looking up a certificate, signing, waiting for a key server."),
    ("early-termination", "TCP ends in front of TLS", "\
The SYN is answered by the nearest kernel: that of a load balancer, a CDN or a firewall. If it does not speak TLS itself, the ClientHello
goes on to a machine that may be far away, and TLS seems slow while TCP seems quick, in resumed handshakes too. The same is seen
where a server is so busy that its accept loop comes late."),
    ("tls13", "TLS 1.3", "\
A full handshake of TLS 1.2 takes two round trips, of TLS 1.3 one. Every server of the last years has it (OpenSSL since 1.1.1, 2018)."),
    ("hello-retry", "HelloRetryRequest", "\
A TLS 1.3 client guesses which key exchange the server will take and sends a share for it. If the server wants another one, it says so, and
the client begins again: one more round trip. Clients guess X25519, and X25519 together with ML-KEM. A server that takes
neither makes nearly everybody begin twice. `ssl_ecdh_curve X25519MLKEM768:X25519:prime256v1` (nginx), `curves` (HAProxy, stunnel)."),
    ("resumption", "Resumption", "\
After a handshake the server gives tickets. Who comes back with one needs no certificate and no signature, and in TLS 1.2 a round trip less.
It fails where several machines serve a name with keys of their own, where a restart forgets the keys, or where tickets are off. A
TLS 1.3 ticket should be used once, so a server gives two or more."),
    ("0-rtt", "0-RTT, early data", "\
With a ticket the request can travel with the ClientHello: one round trip less. Whoever sees the bytes can send them again, and
the server cannot always tell. So only requests that do no harm when repeated may go that way."),
    ("keep-alive", "Keep-alive", "\
A connection that stays open pays for its handshake once. With keep-alive off, a page of ten resources over 100 ms waits for three
seconds. `curl` with the same URL twice shows connect 0 and appconnect 0 for the second when it works."),
    ("starttls", "STARTTLS", "\
Some protocols begin in plain text, and ask for TLS on the way: two to four round trips before the handshake. Most have a port with TLS
from the first byte, which is quicker, and leaves nothing in plain text that somebody could change (RFC 8314)."),
    ("dns", "Resolving the name", "\
Before anything else the name becomes an address. A resolver nearby that remembers answers takes a millisecond; one that has to ask
around takes as long as the slowest server it asks. The probe asks as applications do, by getaddrinfo(3)."),
    ("loss", "Lost packets", "\
A packet that is lost comes again after a timeout of 200 ms or more (1 s for a SYN), or after a round trip if others follow it. A
handshake has few packets, so it is mostly the timeout. That shows as single slow runs, not as a slow median. The probe has the
kernel's counts: segments sent again, and segments that came out of order."),
    ("addresses", "Several addresses", "\
A name may have several, of IPv4 and IPv6. Clients try one, and the next when nothing came back for a while (250 ms in browsers, much
longer elsewhere; RFC 8305). One that is dead makes a part of all visitors wait. Tickets should be taken by all."),
];

/// The names, in order.
pub fn names() -> impl Iterator<Item = &'static str> {
    TOPICS.iter().map(|topic| topic.0)
}

/// No topic has this name.
#[derive(Debug, thiserror::Error)]
#[error("topic {topic:?}: unknown, {}", did_you_mean_or_all(.topic, &names().collect::<Vec<_>>()))]
pub struct UnknownTopic {
    topic: String,
}

/// Explains a topic.
///
/// **Errors**: there is no such topic; which one may be meant.
pub fn explain(topic: &str) -> Result<String, UnknownTopic> {
    match TOPICS.iter().find(|known| known.0 == topic) {
        Some((_, title, text)) => Ok(format!("{title}\n\n{text}\n")),
        None => Err(UnknownTopic { topic: topic.to_owned() }),
    }
}

/// All topics with their titles.
pub fn list() -> String {
    TOPICS.iter().map(|(name, title, _)| format!("  {name:<18} {title}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_found_or_suggested() {
        assert!(explain("rsa").expect("known").contains("ECDSA"));
        assert!(explain("rzz").expect_err("unknown").to_string().contains("rsa"));
        assert_eq!(list().lines().count(), names().count());
    }
}
