//! A ticket never crosses a policy: offered to another service, to another name with another rule, or after a reload that
//! tightened the rule, it is worth nothing, and the client stays refused.

use std::sync::Arc;

use rustls::ClientConfig;

use super::support::certificates::{Identity, KeyKind};
use super::support::folder::Folder;
use super::support::*;

fn client_identity() -> Identity {
    authority().identity(&["client.example"], KeyKind::Ecdsa)
}

/// Connects, exchanges, ends: whether the session was resumed, or why there was no exchange.
///
/// In TLS 1.3 a client learns of the refusal of its certificate only after its own last flight, so the exchange decides.
fn exchange(proxy: &Proxy, service: &str, config: &Arc<ClientConfig>, name: &str) -> Result<bool, String> {
    let mut client = Client::try_connect(proxy.address_of(service), config, name)
        .map_err(|refusal| format!("{refusal:?}"))?;
    let mut buffer = [0; 1];
    client.try_send(b"x").map_err(|error| error.to_string())?;
    match client.read(&mut buffer) {
        Ok(1) => {
            let resumed = client.resumed();
            client.finish();
            Ok(resumed)
        }
        other => Err(format!("{other:?}")),
    }
}

/// Services `open` and `strict` (client certificates required) with one ticket-key file, so that keys alone separate nothing.
fn two_services(folder: &Folder, backend: &Backend) -> Config {
    let ca = folder.write("ca.pem", &authority().pem);
    let certificate = folder.write("web.pem", certificates::localhost().combined());
    Config::empty()
        .text("tickets", "key-file", folder.file("tickets.key").display())
        .service("open", backend.address)
        .certificate(&certificate)
        .service("strict", backend.address)
        .certificate(&certificate)
        .text("service.client-certificates", "mode", "require")
        .text("service.client-certificates", "ca", ca.display())
}

#[test]
fn from_a_service_without_client_certificates_to_one_with() {
    let (folder, backend) = (Folder::new(), Backend::echo());
    let proxy = Proxy::start(two_services(&folder, &backend));
    for version in Version::BOTH {
        let config = Trust::version(version).config();
        assert_eq!(exchange(&proxy, "open", &config, "localhost"), Ok(false));
        assert_eq!(
            exchange(&proxy, "open", &config, "localhost"),
            Ok(true),
            "the ticket is good where it was issued"
        );
        for _ in 0..4 {
            let refused = exchange(&proxy, "strict", &config, "localhost");
            assert!(
                refused.is_err(),
                "{version:?}: without a certificate every client is refused, with or without a ticket"
            );
        }
    }
    proxy.record("the refusal", |record| {
        record.text("service") == "strict" && record.reason() == "handshake/client/client-certificate"
    });
}

#[test]
fn from_one_service_to_another_even_with_a_certificate() {
    let (folder, backend) = (Folder::new(), Backend::echo());
    let proxy = Proxy::start(two_services(&folder, &backend));
    for version in Version::BOTH {
        let config = Trust::version(version).showing(&client_identity()).config();
        assert_eq!(exchange(&proxy, "strict", &config, "localhost"), Ok(false));
        assert_eq!(
            exchange(&proxy, "strict", &config, "localhost"),
            Ok(true),
            "{version:?}: resumed under one policy"
        );
        assert_eq!(
            exchange(&proxy, "open", &config, "localhost"),
            Ok(false),
            "{version:?}: not under another"
        );
        assert_eq!(exchange(&proxy, "strict", &config, "localhost"), Ok(false), "{version:?}: nor back");
    }
}

#[test]
fn from_one_name_to_another_with_a_stricter_rule() {
    let (folder, backend) = (Folder::new(), Backend::echo());
    let ca = folder.write("ca.pem", &authority().pem);
    let both = authority().identity(&["localhost", "strict.example"], KeyKind::Ecdsa);
    let config = Config::empty()
        .service("web", backend.address)
        .certificate(&folder.write("both.pem", both.combined()))
        .rule("strict.example")
        .text("service.rule.client-certificates", "mode", "require")
        .text("service.rule.client-certificates", "ca", ca.display());
    let proxy = Proxy::start(config);
    for version in Version::BOTH {
        let config = Trust::version(version).careless().config();
        assert_eq!(exchange(&proxy, "web", &config, "localhost"), Ok(false));
        assert_eq!(exchange(&proxy, "web", &config, "localhost"), Ok(true));
        let offered = proxy.metrics().sum("handfast_tickets_offered_total", &[]);
        let refused = exchange(&proxy, "web", &config, "strict.example");
        assert!(refused.is_err(), "{version:?}: the rule of the name that is asked for holds");
        let now = proxy.metrics().sum("handfast_tickets_offered_total", &[]);
        assert!(now > offered, "{version:?}: the ticket was offered, or nothing was tested");
    }
    proxy.record_of("handshake/client/client-certificate");
}

#[test]
fn not_across_a_reload_that_tightened_the_rule() {
    let (folder, backend) = (Folder::new(), Backend::echo());
    let ca = folder.write("ca.pem", &authority().pem);
    let stage = Stage::with(backend, |config, _| {
        config.text("tickets", "key-file", folder.file("tickets.key").display())
    });
    for version in Version::BOTH {
        let config = Trust::version(version).config();
        let loose = stage.config().text("tickets", "key-file", folder.file("tickets.key").display());
        stage.proxy.rewrite(&loose);
        assert!(stage.proxy.reload());
        assert_eq!(exchange(&stage.proxy, "web", &config, "localhost"), Ok(false));
        assert_eq!(exchange(&stage.proxy, "web", &config, "localhost"), Ok(true));
        let strict = loose.text("service.client-certificates", "mode", "require").text(
            "service.client-certificates",
            "ca",
            ca.display(),
        );
        stage.proxy.rewrite(strict);
        assert!(stage.proxy.reload());
        for _ in 0..4 {
            assert!(
                exchange(&stage.proxy, "web", &config, "localhost").is_err(),
                "{version:?}: the new rule holds"
            );
        }
    }
}

#[test]
fn not_across_a_reload_that_changed_who_may_sign() {
    let folder = Folder::new();
    let stranger = certificates::Authority::new("another authority");
    let (ours, theirs) = (folder.write("ca.pem", &authority().pem), folder.write("other.pem", &stranger.pem));
    let rule = |config: Config, ca: &std::path::Path| {
        config.text("service.client-certificates", "mode", "require").text(
            "service.client-certificates",
            "ca",
            ca.display(),
        )
    };
    let stage = Stage::with(Backend::echo(), |config, _| rule(config, &ours));
    for version in Version::BOTH {
        let config = Trust::version(version).showing(&client_identity()).config();
        stage.proxy.rewrite(rule(stage.config(), &ours));
        assert!(stage.proxy.reload());
        assert_eq!(exchange(&stage.proxy, "web", &config, "localhost"), Ok(false));
        assert_eq!(exchange(&stage.proxy, "web", &config, "localhost"), Ok(true));
        stage.proxy.rewrite(rule(stage.config(), &theirs));
        assert!(stage.proxy.reload());
        for _ in 0..4 {
            let refused = exchange(&stage.proxy, "web", &config, "localhost");
            assert!(refused.is_err(), "{version:?}: a client of an authority that was removed is refused");
        }
    }
}

#[test]
fn not_to_a_version_that_was_turned_off() {
    let stage = Stage::echo();
    let config = Trust::version(Version::Tls12).config();
    assert_eq!(exchange(&stage.proxy, "web", &config, "localhost"), Ok(false));
    assert_eq!(exchange(&stage.proxy, "web", &config, "localhost"), Ok(true));
    stage.proxy.rewrite(stage.config().set("service", "versions", "[\"1.3\"]"));
    assert!(stage.proxy.reload());
    let refused = exchange(&stage.proxy, "web", &config, "localhost");
    assert!(refused.as_ref().is_err_and(|why| why.contains("ProtocolVersion")), "{refused:?}");
}
