//! Counts agree with the server's own, to the last one: connections (the rehearsal and those for tickets included),
//! transactions, and how many of them were resumed, as nginx, HAProxy, stunnel and OpenSSL count them.

use super::support::certificates::{KeyKind, authority};
use super::support::folder::Folder;
use super::support::load::{Ended, Load};
use super::support::servers::{ClientRequirements, Counted, Haproxy, Nginx, Openssl, Stunnel};
use super::support::skip::needs;

/// Duration of each run; what counts is that it ends with counts that agree, not how many there are.
const SHORT: &str = "-d 300ms -c 4";

const OLD: ClientRequirements = ClientRequirements { old_version: true, certificate: false };
const NEW: ClientRequirements = ClientRequirements { old_version: false, certificate: false };
const MUTUAL: ClientRequirements = ClientRequirements { old_version: false, certificate: true };
const OLD_MUTUAL: ClientRequirements = ClientRequirements { old_version: true, certificate: true };

/// Shows a certificate, if one is asked for.
fn shown(load: Load, required: ClientRequirements, folder: &Folder) -> Load {
    if !required.certificate {
        return load;
    }
    let identity = authority().identity(&["client"], KeyKind::Ecdsa);
    load.file("--client-certificate", &folder.write("client.pem", identity.combined()))
}

/// Nothing failed, and the server counted the same.
fn agree(ended: &Ended, counted: Counted, required: ClientRequirements) {
    let (all, warm_up) = (ended.count("/totals/connections"), ended.count("/totals/warm_up_connections"));
    assert_eq!(ended.count("/totals/failed"), 0, "{}", ended.all());
    assert!(all > warm_up, "{}", ended.all());
    assert_eq!(counted.connections, all, "connections: {counted:?}\n{}", ended.all());
    // Each connection before the run is a whole transaction too.
    let done = ended.count("/totals/exchanges").max(ended.count("/totals/transactions"));
    assert_eq!(counted.requests, done + warm_up, "requests: {counted:?}\n{}", ended.all());
    if required.certificate {
        assert_eq!(
            counted.certified,
            all - counted.resumed.min(all),
            "certificates: {counted:?}\n{}",
            ended.all()
        );
    }
    let version = if required.old_version { "TLSv1.2 " } else { "TLSv1.3 " };
    let agreed = ended.value("/mix/agreed").as_object().expect("a table");
    assert!(agreed.keys().all(|agreed| agreed.starts_with(version)), "{agreed:?}");
}

/// No handshake was resumed, on either side's count.
fn all_full(ended: &Ended, counted: Counted) {
    let transactions = ended.count("/totals/connections") - ended.count("/totals/warm_up_connections");
    assert_eq!((ended.count("/mix/full"), ended.count("/mix/resumed")), (transactions, 0), "{}", ended.all());
    assert_eq!(counted.resumed, 0, "{counted:?}");
}

/// Nearly all were, and both counts say the same number.
fn all_resumed(ended: &Ended, counted: Counted) {
    let (full, resumed) = (ended.count("/mix/full"), ended.count("/mix/resumed"));
    assert!(full * 99 <= resumed, "{full} full and {resumed} resumed\n{}", ended.all());
    assert_eq!(counted.resumed, resumed, "{counted:?}\n{}", ended.all());
}

fn nginx(required: ClientRequirements, words: &str) -> (Ended, Counted) {
    let (server, folder) = (Nginx::start(required), Folder::new());
    let load = Load::at(format!("https://{}/", server.address)).with(SHORT).with(words);
    let ended = shown(load, required, &folder).run_well();
    let counted = server.counted();
    agree(&ended, counted, required);
    (ended, counted)
}

#[test]
fn nginx_counts_kept_connections_and_requests() {
    needs!("nginx");
    let (ended, counted) = nginx(NEW, "");
    all_full(&ended, Counted { resumed: 0, ..counted });
    assert_eq!(ended.count("/totals/connections"), 4 + ended.count("/totals/warm_up_connections"));
    assert!(counted.requests > 4 * counted.connections, "{counted:?}");
}

#[test]
fn nginx_counts_full_handshakes() {
    needs!("nginx");
    for required in [NEW, OLD] {
        let (ended, counted) = nginx(required, "-n 1");
        all_full(&ended, counted);
    }
}

#[test]
fn nginx_counts_resumed_handshakes() {
    needs!("nginx");
    for required in [NEW, OLD] {
        let (ended, counted) = nginx(required, "-n 1 --resume 1");
        all_resumed(&ended, counted);
    }
}

#[test]
fn nginx_sees_half_of_them_resumed() {
    needs!("nginx");
    let (ended, counted) = nginx(NEW, "-n 1 --resume 50% --rate 700 --arrivals fixed");
    assert_eq!(counted.resumed, ended.count("/mix/resumed"), "{}", ended.all());
    // Throws of a coin, about 210 unless other tests had the processors: seven deviations more or less than half.
    let all = counted.resumed + ended.count("/mix/full");
    let deviations = (counted.resumed as f64 - all as f64 / 2.0).abs() / ((all as f64).sqrt() / 2.0);
    assert!(all > 0 && deviations < 7.0, "{counted:?}, {deviations}");
}

#[test]
fn nginx_verifies_our_certificate() {
    needs!("nginx");
    for required in [MUTUAL, OLD_MUTUAL] {
        let (ended, counted) = nginx(required, "-n 1");
        all_full(&ended, counted);
    }
}

#[test]
fn haproxy_counts_connections_and_sessions() {
    needs!("haproxy");
    for (required, resumed) in [(NEW, false), (OLD, false), (NEW, true), (OLD, true), (MUTUAL, false)] {
        let (server, folder) = (Haproxy::start(required), Folder::new());
        let load = Load::at(server.address).with(SHORT).with(if resumed { "--resume 1" } else { "" });
        let ended = shown(load, required, &folder).run_well();
        let counted = server.counted();
        agree(&ended, counted, required);
        if resumed { all_resumed(&ended, counted) } else { all_full(&ended, counted) }
    }
}

#[test]
fn stunnel_counts_connections_and_sessions() {
    needs!("stunnel4");
    for (required, resumed) in [(NEW, false), (OLD, false), (NEW, true), (OLD, true), (MUTUAL, false)] {
        let (server, folder) = (Stunnel::start(required), Folder::new());
        let load = Load::at(server.address).with(SHORT).with(if resumed { "--resume 1" } else { "" });
        let ended = shown(load, required, &folder).run_well();
        let counted = server.counted();
        agree(&ended, counted, required);
        if resumed { all_resumed(&ended, counted) } else { all_full(&ended, counted) }
    }
}

#[test]
fn openssl_counts_accepts_and_hits() {
    needs!("openssl");
    for (required, resumed) in [(NEW, false), (OLD, false), (NEW, true), (OLD, true)] {
        let server = Openssl::start(if required.old_version { "-www -tls1_2" } else { "-www -tls1_3" });
        // It serves one after the other.
        let load = Load::at(format!("https://{}/", server.address)).with("-d 300ms -c 1 -n 1");
        let ended = load.with(if resumed { "--resume 1" } else { "" }).run_well();
        let counted = server.counted();
        agree(&ended, counted, required);
        if resumed { all_resumed(&ended, counted) } else { all_full(&ended, counted) }
    }
}
