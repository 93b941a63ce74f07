//! Costs of a connection in the proxy and in the kernel's tables: the figures that `fit.rs` and
//! `size.rs` compute with. Each figure has its source.

/// A figure and where it is from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure<T> {
    /// The figure.
    pub value: T,
    /// Its source, in a few words.
    pub source: &'static str,
}

/// Memory of the program for idle connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Idle {
    /// Once, independent of their number: memory that the first connections allocate. **Units**: bytes.
    pub once: u64,
    /// For each of them.
    pub each: u64,
    /// Its source.
    pub source: &'static str,
}

/// TLS with the client alone: 4.3 KiB each of 1,000 and 3.6 KiB each of 9,000 are a line of 3.51 KiB each and 788 KiB once.
pub const IDLE: Idle = Idle {
    once: 788 << 10,
    each: 3_596,
    source: "make bench WORK=idle1k,idle9k: 4.3 KiB each of 1,000, 3.6 KiB each of 9,000",
};
/// TLS with the client and with the backend: 7.0 KiB each of 4,000, with as much once.
pub const IDLE_BOTH: Idle =
    Idle { once: IDLE.once, each: 6_966, source: "make bench WORK=idle-reencrypt: 7.0 KiB each of 4,000" };
/// Resident memory of a proxy that has served a few connections and has one certificate. **Units**: bytes.
pub const EMPTY: Figure<u64> = Figure {
    value: 13 << 20,
    source: "make bench WORK=certificates: 12.9 MiB with up to 1,000 certificates",
};

/// Share of the limit (`handfast speed --limit`) that the proxy reaches with standard transactions: the rest is its overhead.
pub const SHARE: Figure<f64> = Figure {
    value: 0.75,
    source: "make bench WORK=limit: 75 % of the limit with ECDSA-P256, X25519, peers on the proxy's core",
};
/// The same for bytes in bulk.
pub const SHARE_BULK: Figure<f64> =
    Figure { value: 0.71, source: "make bench WORK=limit: 71 % of the limit, 4 streams, AES-128-GCM" };

/// Descriptors of a proxied connection: the client's and the backend's.
pub const FILES: u64 = 2;
/// Descriptors for everything else, where the limit is not a low one.
pub const FILES_BESIDE: u64 = 128;
/// Entries of the connection tracking that a proxied connection takes: the client's and the backend's.
pub const TRACKED: u64 = 2;
/// Time that an entry stays after the connection's end: `nf_conntrack_tcp_timeout_time_wait`. **Units**: seconds.
pub const TRACKED_AFTER: f64 = 120.0;
/// Time for which a worker may be blocked, by an RSA-4096 signature, a page fault or the hypervisor,
/// without the loss of a client. **Units**: seconds.
/// **Units**: seconds.
pub const AWAY: f64 = 0.1;
/// Memory of a buffer for each byte in it: the kernel counts as much again for its own structures (`tcp_adv_win_scale` = 1).
pub const BUFFERED: u64 = 2;

impl Idle {
    /// That of connections whose backends have TLS too, or not.
    pub const fn of(backend_tls: bool) -> Self {
        if backend_tls { IDLE_BOTH } else { IDLE }
    }

    /// Bytes of this number of connections.
    pub const fn bytes(self, connections: u64) -> u64 {
        self.once.saturating_add(self.each.saturating_mul(connections))
    }

    /// The number of connections that fit these bytes.
    pub const fn connections(self, bytes: u64) -> u64 {
        bytes.saturating_sub(self.once) / self.each
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// KiB for each of so many.
    fn each(idle: Idle, connections: u64) -> f64 {
        idle.bytes(connections) as f64 / connections as f64 / 1024.0
    }

    #[test]
    fn the_line_goes_through_what_was_measured() {
        for (idle, connections, measured) in [(IDLE, 1_000, 4.3), (IDLE, 9_000, 3.6), (IDLE_BOTH, 4_000, 7.0)]
        {
            let computed = each(idle, connections);
            assert!((computed - measured).abs() < 0.01, "{computed} for {measured}");
        }
        assert_eq!(IDLE.connections(IDLE.bytes(9_000)), 9_000);
        assert_eq!(IDLE.connections(0), 0);
    }
}
