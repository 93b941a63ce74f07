//! The combined limit: the least CPU time of a proxy with this library and these sockets.
//!
//! In: keys. Out: a limit for standard transactions, for exchanges, and for bulk data. It is the sum of two times: the TLS
//! library's in memory (the server's side, this build), and a bare TCP relay's CPU time for the same sockets. Everything above
//! that is the proxy's overhead.

use std::time::SystemTime;

use handfast_report::speed::{Limit, Relay, Time, Transaction};

use super::operations::handshake::{Flow, Pair};
use super::operations::{Group, Keys, Signature};
use super::relay::{self, EXCHANGE, Needed, Work};
use super::subject::kind;
use super::timing;
use handfast_report::ToolError;
use timing::Watch;

/// Transactions that have a limit; `None`: resumed.
const TRANSACTIONS: [(Option<Signature>, Group); 3] = [
    (Some(Signature::EcdsaP256), Group::X25519),
    (Some(Signature::Rsa2048), Group::X25519),
    (None, Group::X25519),
];
/// Bytes of bulk data at a time.
const CHUNK: usize = 65_536;

/// Measures it.
///
/// **Errors**: a fault of the library; no loopback or no descriptors for the relay.
///
/// **Cost**: about ten seconds.
pub(super) fn measure(keys: &Keys) -> Result<Limit, ToolError> {
    let mut watch = Watch::default();
    let mut library = Vec::new();
    for (signature, group) in TRANSACTIONS {
        let kind = kind(signature, group, EXCHANGE);
        let pair = Pair::new(kind, keys, SystemTime::now()).map_err(timing::refusal)?;
        library.push(timing::one(timing::pair(pair), &mut watch)?.time);
    }
    let mut bytes = |size| {
        let flow = Flow::new(keys, SystemTime::now(), size).map_err(timing::refusal)?;
        Ok(timing::one(timing::flow(flow, size), &mut watch)?.time.ns)
    };
    let exchange = 2.0 * EXCHANGE as f64 * bytes(EXCHANGE)?;
    let byte = bytes(CHUNK)?;
    let relayed =
        [relay::measure(Work::Transactions)?, relay::measure(Work::Exchanges)?, relay::measure(Work::Bulk)?];
    Ok(combine(&library, (exchange, byte), relayed))
}

/// The sums.
fn combine(library: &[Time], (exchange, byte): (f64, f64), [relay, exchanges, bulk]: [Needed; 3]) -> Limit {
    let transaction = |((signature, group), library): (&(Option<Signature>, Group), &Time)| {
        let ns = library.ns + relay.time.ns;
        Transaction {
            certificate: signature.map(|kind| kind.name().to_owned()),
            group: group.name().into(),
            library: *library,
            ns,
            per_second: 1e9 / ns,
        }
    };
    let byte_ns = byte + bulk.time.ns;
    Limit {
        exchange_bytes: EXCHANGE as u32,
        relay: Relay { time: relay.time, busy: relay.busy, one_cpu: relay.one_cpu },
        transactions: TRANSACTIONS.iter().zip(library).map(transaction).collect(),
        relay_exchange_ns: exchanges.time.ns,
        library_exchange_ns: exchange,
        exchange_ns: exchange + exchanges.time.ns,
        relay_byte_ns: bulk.time.ns,
        library_byte_ns: byte,
        byte_ns,
        bytes_per_second: 1e9 / byte_ns,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_library_and_relay() {
        let time = |ns| Time { ns, spread: 0.01 };
        let needed = |ns| Needed { time: time(ns), busy: 0.9, one_cpu: true };
        let library = [time(95e3), time(700e3), time(90e3)];
        let limit = combine(&library, (2e3, 0.21), [needed(30e3), needed(8e3), needed(0.29)]);
        let sums: Vec<_> =
            limit.transactions.iter().map(|one| (one.certificate.as_deref(), one.ns)).collect();
        assert_eq!(sums, [(Some("ECDSA-P256"), 125e3), (Some("RSA-2048"), 730e3), (None, 120e3)]);
        assert!((limit.exchange_ns - 10e3).abs() < 1e-9);
        assert!((limit.transactions[0].per_second - 8_000.0).abs() < 1e-9);
        assert!((limit.byte_ns - 0.5).abs() < 1e-12 && (limit.bytes_per_second - 2e9).abs() < 1.0);
    }
}
