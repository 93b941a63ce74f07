//! Keys that are shown to backends are apart too (`process.private-keys = "separate-process"`): the keys of client certificates of a service and of
//! a rule, beside those of certificates for several names, are in the key process alone, and still after it was started again.

use rustix::process::Signal;

use super::support::certificates::{Identity, KeyKind, localhost};
use super::support::folder::Folder;
use super::support::key_process::both;
use super::support::secrets::{found_in, of_ec};
use super::support::secured::{Secured, server};
use super::support::skip::skipped;
use super::support::*;

/// A client's hello for a name; the certificate that the backend was shown comes back.
fn is_shown(proxy: &Proxy, name: &str, identity: &Identity) -> bool {
    let config = Trust::version(Version::Tls13).forgetful().config();
    let Ok(mut client) = Client::try_connect(proxy.address(), &config, name) else { return false };
    let ending = client.read_to_end();
    client.reset();
    ending.bytes == identity.certificate.as_ref()
}

#[test]
fn those_of_services_and_of_names() {
    if !rustix::process::geteuid().is_root() {
        skipped!("only root reads the memory of others");
    }
    let settings = server(Version::Tls13, true);
    let backend = Backend::start(move |peer| {
        let Ok(mut session) = Secured::accept(peer, &settings) else { return };
        let shown = session.shown();
        session.send(&shown);
        session.close_notify();
        session.read_to_close_notify();
    });
    let folder = Folder::new();
    let [other, own, of_rule] = ["other.example", "client.example", "rule.example"]
        .map(|name| authority().identity(&[name], KeyKind::Ecdsa));
    let ca = folder.write("ca.pem", &authority().pem).display().to_string();
    let mut config = Config::to(&folder, backend.address)
        .certificate(&folder.write("other.pem", other.combined()))
        .text("process", "private-keys", "separate-process");
    for (section, file, identity) in
        [("service.backend-tls", "own.pem", &own), ("service.rule.backend-tls", "of-rule.pem", &of_rule)]
    {
        if section.contains("rule") {
            config = config.rule("other.example");
        }
        let file = folder.write(file, identity.combined());
        config = config
            .text(section, "ca", &ca)
            .text(section, "name", "localhost")
            .set(section, "resumption", false)
            .text(section, "certificate", file.display());
    }
    let proxy = Proxy::start(config);
    assert!(is_shown(&proxy, "localhost", &own) && is_shown(&proxy, "other.example", &of_rule));
    let all =
        ["of another name", "of the rule, to backends", "of the service, to backends", "of the service"];
    let secrets: Vec<_> = all
        .into_iter()
        .zip([&other, &of_rule, &own, localhost()])
        .flat_map(|(name, of)| of_ec(name, of))
        .collect();
    let in_keys = |keys| {
        let mut found = found_in(keys, &secrets);
        // A file's text may be gone from its memory, or not.
        found.retain(|name| *name != "PEM text");
        found.sort_by_key(|name| all.iter().position(|known| known == name));
        found
    };
    let (supervisor, keys) = both(proxy.process());
    assert_eq!(in_keys(keys), all);
    assert_eq!(found_in(proxy.process(), &secrets), Vec::<&str>::new());
    assert_eq!(found_in(supervisor, &secrets), Vec::<&str>::new());
    keys.signal(Signal::KILL);
    for (name, identity) in [("localhost", &own), ("other.example", &of_rule)] {
        wait_until("the next key process to sign for backends", || {
            is_shown(&proxy, name, identity).then_some(())
        });
    }
    assert_eq!(in_keys(both(proxy.process()).1), all);
    assert_eq!(found_in(proxy.process(), &secrets), Vec::<&str>::new());
}
