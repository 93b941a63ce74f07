//! A hostile chain costs little: a peer that is asked for a certificate chooses what is to be checked, before it has proved
//! anything, and a path among many CAs of one name can be sought forever.

use std::sync::Arc;
use std::time::Duration;

use rustls::{AlertDescription, ClientConfig};

use super::support::certificates::{Authority, KeyKind};
use super::support::*;

/// CPU time that four such clients may cost the proxy in all. It was thirty seconds.
const COST: Duration = Duration::from_millis(500);

/// A service that requires client certificates, and a plain one beside it.
fn stage() -> Stage {
    let backend = Backend::echo();
    let address = backend.address;
    Stage::with(backend, |config, folder| {
        let ca = folder.write("ca.pem", &authority().pem);
        config
            .text("service.client-certificates", "mode", "require")
            .text("service.client-certificates", "ca", ca.display())
            .service("plain", address)
            .certificate(&folder.write("plain.pem", certificates::localhost().combined()))
    })
}

/// The alert that a client gets who shows this.
fn alert(stage: &Stage, config: &Arc<ClientConfig>) -> Option<AlertDescription> {
    match Client::try_connect(stage.proxy.address_of("web"), config, "localhost") {
        // In TLS 1.3 the client is content with itself before the proxy has looked.
        Ok(mut client) => client.read_to_end().alert,
        Err(Refusal::Alert(alert)) => Some(alert),
        Err(other) => panic!("{other:?}"),
    }
}

/// The alerts that four clients get who show this at the same time, and what they cost the proxy in all. Clients of another
/// service do not wait for that.
fn four_at_once(stage: &Stage, config: &Arc<ClientConfig>) -> ([Option<AlertDescription>; 4], Duration) {
    let before = stage.proxy.process().cpu_precisely();
    let alerts = std::thread::scope(|scope| {
        let hostile = [(); 4].map(|()| scope.spawn(|| alert(stage, config)));
        let plain = Trust::version(Version::Tls13).config();
        let mut client = Client::connect(stage.proxy.address_of("plain"), &plain);
        client.echo(b"meanwhile");
        client.finish();
        hostile.map(|hostile| hostile.join().expect("an alert"))
    });
    (alerts, stage.proxy.process().cpu_precisely() - before)
}

#[test]
fn to_a_proxy_that_asks_for_certificates() {
    let stage = stage();
    // As many as fit into a message, and as many as are looked at; of a name that is not trusted, and of one that is.
    for (name, count) in [("nobody", 150), ("Handfast tests", 150), ("Handfast tests", 10), ("nobody", 10)] {
        let (identity, above) = Authority::tangle(name, count);
        for version in Version::BOTH {
            let config = Trust::version(version).showing(&identity).sending(above.clone()).config();
            let (alerts, spent) = four_at_once(&stage, &config);
            assert!(spent < COST, "{version:?}, {count} of {name}: {spent:?}");
            assert_eq!(alerts, [Some(AlertDescription::BadCertificate); 4], "{version:?}, {count} of {name}");
        }
    }
    let record = stage.proxy.record_of("handshake/client/client-certificate");
    assert!(record.detail().contains("150 CA certificates came with it"), "{record:?}");
    // A client with a certificate of the trusted authority is served.
    let identity = authority().identity(&["client.example"], KeyKind::Ecdsa);
    let config = Trust::version(Version::Tls13).showing(&identity).config();
    let mut client = Client::connect(stage.proxy.address_of("web"), &config);
    client.echo(b"and this one is served");
    client.finish();
    stage.is_quiet();
}

/// Chains that are what they claim to be, and too long, or full of names that constrain each other.
#[test]
fn whose_every_signature_is_good() {
    let stage = stage();
    // As high as chains are in practice, and constrained: it is served.
    for constraints in [0, 20] {
        let (identity, above) = authority().ladder(4, constraints);
        for version in Version::BOTH {
            let config = Trust::version(version).showing(&identity).sending(above.clone()).config();
            let mut client = Client::connect(stage.proxy.address_of("web"), &config);
            client.echo(b"this one is served");
            client.finish();
        }
    }
    // A hundred CAs; and few, of which each asks each name whether it is one of hundreds.
    for (height, constraints) in [(100, 0), (100, 10), (6, 300), (3, 600)] {
        let (identity, above) = authority().ladder(height, constraints);
        for version in Version::BOTH {
            let config = Trust::version(version).showing(&identity).sending(above.clone()).config();
            let (alerts, spent) = four_at_once(&stage, &config);
            let what = format!("{version:?}, {height} CAs, {constraints} names: {spent:?}");
            assert!(spent < COST, "{what}");
            assert!(alerts.iter().all(Option::is_some), "{what}: {alerts:?}");
        }
    }
    stage.is_quiet();
}

#[test]
fn a_message_longer_than_any_may_be_is_answered() {
    let stage = stage();
    let (identity, above) = Authority::tangle("nobody", 10);
    let above = above.iter().cycle().take(3000).cloned().collect();
    // In TLS 1.3 the alert is encrypted by a library that has only this one for it.
    let reason_for = |version| match version {
        Version::Tls12 => AlertDescription::IllegalParameter,
        Version::Tls13 => AlertDescription::DecodeError,
    };
    for version in Version::BOTH {
        let config = Trust::version(version).showing(&identity).sending(Vec::clone(&above)).config();
        assert_eq!(alert(&stage, &config), Some(reason_for(version)), "{version:?}");
    }
    let record = stage.proxy.record_of("handshake/client/tls");
    assert!(record.detail().contains("handshake payload too large"), "{record:?}");
}
