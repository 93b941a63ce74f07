//! A renewal never serves another name's certificate, however its files are removed and written; and a file that is bad keeps
//! no other certificate from being renewed, is named, and stays an alarm until it is fixed.

use super::support::certificates::{Identity, KeyKind};
use super::support::crowd::Crowd;
use super::support::folder::Folder;
use super::support::*;

fn identity(name: &str) -> Identity {
    authority().identity(&[name], KeyKind::Ecdsa)
}

/// A service on a folder too; its default, and the first file of the folder, are other names'.
fn stage(more: impl FnOnce(&Folder), keep: &str) -> Stage {
    Stage::with(Backend::echo(), |config, folder| {
        let path = folder.folder("certificates");
        folder.write("certificates/a-first.pem", identity("first.example").combined());
        more(folder);
        config
            .text("process", "watch-interval", "100ms")
            .text("process", "keep-removed-certificates", keep)
            .certificate(&path)
    })
}

/// The certificate that a client gets who asks for `name` and trusts what it gets.
fn served(stage: &Stage, name: &str) -> Vec<u8> {
    let config = Trust::version(Version::Tls13).config();
    Client::try_connect(stage.proxy.address(), &config, name)
        .map_or_else(|refusal| format!("{refusal:?}").into_bytes(), |client| client.certificate().to_vec())
}

fn is_served(stage: &Stage, name: &str, identity: &Identity) -> bool {
    served(stage, name) == identity.certificate.as_ref()
}

fn problems(stage: &Stage, kind: &str) -> f64 {
    stage.proxy.metrics().sum("handfast_certificate_file_problems", &[("service", "web"), ("kind", kind)])
}

/// Returns true if monitoring sees that something is wrong with certificate files.
fn is_alarmed(stage: &Stage) -> bool {
    stage.proxy.metrics().sum("handfast_last_reload_successful", &[]) < 0.5
}

#[test]
fn removed_first_and_written_again_in_every_order() {
    let old = identity("www.example");
    let stage = stage(
        |folder| {
            folder.write("certificates/www.crt", &old.certificate_pem);
            folder.write("certificates/www.key", &old.key_pem);
        },
        "10m",
    );
    let remove = |name: &str| std::fs::remove_file(stage.folder.file(name)).expect("it is there");
    let (chain, key) = ("certificates/www.crt", "certificates/www.key");
    let (address, config) = (stage.proxy.address(), Trust::version(Version::Tls13).config());
    // Refused by the client unless the certificate has the name that it asks for.
    let crowd = Crowd::start(2, move |_| {
        Client::try_connect(address, &config, "www.example")
            .map(Client::finish)
            .map_err(|refusal| format!("not the name's own certificate: {refusal:?}"))
    });
    let mut last = old;
    for order in ["CKck", "KCkc", "CcKk"] {
        let new = identity("www.example");
        for (number, act) in order.chars().enumerate() {
            let generation = || stage.proxy.metrics().sum("handfast_configuration_generation", &[]);
            let before = generation();
            match act {
                'C' => remove(chain),
                'K' => remove(key),
                'c' => drop(stage.folder.write(chain, &new.certificate_pem)),
                _ => drop(stage.folder.write(key, &new.key_pem)),
            }
            // Taken note of, whatever it makes of it.
            wait_until("the change to be seen", || (generation() > before).then_some(()));
            if number < 3 {
                assert!(is_served(&stage, "www.example", &last), "{order}, after {number}");
                assert!(
                    problems(&stage, "removed") + problems(&stage, "broken") > 0.5,
                    "{order}, after {number}"
                );
            }
        }
        wait_until("the new pair", || is_served(&stage, "www.example", &new).then_some(()));
        assert!(problems(&stage, "removed") + problems(&stage, "broken") < 0.5, "{order}");
        assert!(!is_alarmed(&stage), "{order}");
        last = new;
    }
    crowd.finish();
    stage.proxy.talk.containing("www.crt: was removed");
}

#[test]
fn one_bad_file_keeps_nothing_from_the_others_and_is_named_until_it_is_mended() {
    let old = identity("www.example");
    let stage = stage(|folder| drop(folder.write("certificates/www.pem", old.combined())), "10m");
    let (new, first) = (identity("www.example"), identity("first.example"));
    stage.folder.replace("certificates/www.pem", &new.combined()[..300]);
    stage.folder.replace("certificates/a-first.pem", first.combined());
    wait_until("the good one to be renewed", || is_served(&stage, "first.example", &first).then_some(()));
    wait_until("the bad one to be named", || (problems(&stage, "broken") > 0.5).then_some(()));
    assert!(is_served(&stage, "www.example", &old), "the old version is served");
    assert!(is_alarmed(&stage));
    let message = stage.proxy.talk.containing("www.pem: is cut short");
    assert!(message.contains("www.example"), "it says whose: {message}");
    let status = stage.proxy.status().to_string();
    assert!(status.contains("www.pem: is cut short"), "{status}");
    // On a reload it reports that, and goes on.
    let answer = http::request(stage.proxy.admin(), "POST", "/reload", "*/*");
    assert_eq!(answer.status, 409, "{answer:?}");
    assert!(answer.body.contains("reloaded in part") && answer.body.contains("www.pem"), "{answer:?}");
    stage.folder.replace("certificates/www.pem", new.combined());
    wait_until("the mended one", || is_served(&stage, "www.example", &new).then_some(()));
    wait_until("the alarm to end", || (!is_alarmed(&stage)).then_some(()));
    assert!(problems(&stage, "broken") < 0.5);
}

#[test]
fn what_was_removed_for_good_goes_after_the_time_that_is_set() {
    let old = identity("www.example");
    let stage = stage(|folder| drop(folder.write("certificates/www.pem", old.combined())), "2s");
    std::fs::remove_file(stage.folder.file("certificates/www.pem")).expect("it is there");
    stage.proxy.talk.containing("www.pem: was removed");
    assert!(is_served(&stage, "www.example", &old));
    assert!(!is_alarmed(&stage), "a removal may be meant: it is a warning");
    let message = stage.proxy.talk.containing("no longer served");
    assert!(message.contains("www.pem") && message.contains("www.example"), "{message}");
    // It is said when the state is made, a moment before the threads have it.
    wait_until("it to be gone", || (!is_served(&stage, "www.example", &old)).then_some(()));
    assert!(problems(&stage, "removed") < 0.5);
}

#[test]
fn a_broken_file_of_authorities_keeps_no_certificate_from_being_renewed() {
    let stage = Stage::with(Backend::echo(), |config, folder| {
        let ca = folder.write("clients-ca.pem", &authority().pem);
        let rule = format!("{{ mode = \"request\", ca = {:?} }}", ca.display().to_string());
        config.set("service", "client-certificates", rule).text("process", "watch-interval", "100ms")
    });
    let new = identity("localhost");
    stage.folder.replace("clients-ca.pem", &authority().pem[..100]);
    stage.folder.replace("web.pem", new.combined());
    wait_until("the certificate to be renewed", || is_served(&stage, "localhost", &new).then_some(()));
    stage.proxy.talk.containing("clients-ca.pem: is cut short");
    assert!(is_alarmed(&stage) && problems(&stage, "broken") > 0.5);
    stage.folder.replace("clients-ca.pem", &authority().pem);
    wait_until("the alarm to end", || (!is_alarmed(&stage)).then_some(()));
}
