//! An exposed bus is refused: a client that can publish on it can let every worker make load. What `handfast worker setup` writes
//! is not: it encrypts, knows its users, and gives each user only the permissions that it needs.

use super::support::bus::{Bus, Wire};
use super::support::folder::Folder;
use super::support::load_workers::{Coordinator, Worker};
use super::support::network::{in_a_network_of_its_own, must};
use super::support::proxy::PROGRAM;
use super::support::skip::needs;
use super::support::tools::{Ran, handfast};
use super::support::*;

/// An address that others could reach, in a network of the test's own (RFC 5737).
const HOST: &str = "192.0.2.7";

fn address() {
    must(&format!("ip address add {HOST}/32 dev lo"));
}

#[test]
fn without_tls_and_users() {
    needs!("nats-server");
    in_a_network_of_its_own!();
    address();
    let bus = Bus::with(&["-a", HOST, "-p", "-1"]);
    let url = bus.url();
    for words in [
        vec!["worker", &url],
        vec!["load", "127.0.0.1:9", "--workers", &url, "--machines", "2"],
        vec!["load", "doctor", "--workers", &url],
    ] {
        refused(&handfast(&words), "neither encrypts nor authenticates users");
    }
    let bus = Bus::with(&["-a", HOST, "-p", "-1", "--user", "me", "--pass", "secret"]);
    let url = format!("nats://me:secret@{}", bus.address);
    let ran = handfast(&["load", "doctor", "--workers", &url]);
    refused(&ran, "does not encrypt");
    assert!(!ran.all().contains("secret"), "a password is not for logs: {}", ran.all());
}

#[test]
fn by_the_loopback_too() {
    needs!("nats-server");
    // Others could reach it, though we come by the loopback.
    let bus = Bus::with(&["-a", "0.0.0.0", "-p", "-1"]);
    let url = format!("nats://127.0.0.1:{}", bus.address.port());
    for words in [
        vec!["worker", &url],
        vec!["load", "127.0.0.1:9", "--workers", &url],
        vec!["load", "doctor", "--workers", &url],
    ] {
        let ran = handfast(&words);
        assert_eq!(ran.code, Some(1), "{}", ran.all());
        assert!(
            ran.talk.contains("it listens on 0.0.0.0, it can be reached from other machines"),
            "{}",
            ran.talk
        );
        assert!(
            ran.talk.contains("hint: `nats-server -a 127.0.0.1` listens for this machine only"),
            "{}",
            ran.talk
        );
    }
}

fn refused(ran: &Ran, lacks: &str) {
    assert_eq!(ran.code, Some(1), "{}", ran.all());
    assert!(ran.talk.contains("it can be reached from other machines"), "{}", ran.talk);
    assert!(ran.talk.contains(lacks), "{}", ran.talk);
    assert!(ran.talk.contains("hint: `handfast worker setup"), "{}", ran.talk);
}

#[test]
fn what_setup_writes_is_safe_and_works() {
    needs!("nats-server");
    in_a_network_of_its_own!();
    address();
    let folder = Folder::new();
    let file =
        |name: &str| folder.file(name).to_str().expect("temporary folders have plain names").to_owned();
    let ran = handfast(&["worker", "setup", &file(""), "--host", HOST]);
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    let bus = Bus::with(&["-c", &file("nats-server.conf")]);
    assert!(ran.output.contains(&format!("handfast worker tls://{}", bus.address)), "{}", ran.output);

    let (url, ca) = (format!("tls://{}", bus.address), file("ca.pem"));
    let as_role = |role: &str| ["--bus-ca".to_owned(), ca.clone(), "--bus-credentials".into(), file(role)];
    let (worker, coordinator) = (as_role("worker.secret"), as_role("coordinator.secret"));
    let words = |role: &[String; 4], words: &[&str]| -> Vec<String> {
        words.iter().map(ToString::to_string).chain(role.clone()).collect()
    };
    let run = |words: &[String]| handfast(&words.iter().map(String::as_str).collect::<Vec<_>>());
    let ran = run(&words(&coordinator, &["load", "doctor", "--workers", &url]));
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    for found in ["TLS is required", "users are required", "no subjects but the fleet's"] {
        assert!(ran.output.contains(found), "{found}: {}", ran.all());
    }
    let ran = handfast(&["load", "doctor", "--workers", &url, "--bus-ca", &ca]);
    assert_eq!(ran.code, Some(1), "{}", ran.all());
    assert!(ran.talk.contains("rejected this user"), "without one: {}", ran.talk);

    let stage = Stage::echo();
    let worker = words(&worker, &[&url]);
    let worker: Vec<&str> = worker.iter().map(String::as_str).collect();
    let _workers = ["one", "two"].map(|name| Worker::of(PROGRAM.as_ref(), &worker, name));
    let target = stage.proxy.address().to_string();
    let load = ["load", &target, "--workers", &url, "--machines", "2", "--rate", "40", "--duration", "1s"];
    let load = words(&coordinator, &load[1..]);
    let ended = Coordinator::start(&load.iter().map(String::as_str).collect::<Vec<_>>()).ended();
    ended.exits_by_verdict();
    assert!(ended.transactions("one") > 0 && ended.transactions("two") > 0, "{}", ended.text);
    a_worker_cannot_command(&bus, &folder);
}

/// A client with a worker's password has the permissions of a worker and no others.
fn a_worker_cannot_command(bus: &Bus, folder: &Folder) {
    let mut worker = Wire::as_user(bus, folder, "worker");
    for order in ["hf.default.c.all", "hf.default.c.one-0"] {
        worker.publish(order, b"{}");
        let complaints = worker.settle().1;
        assert!(complaints.iter().any(|what| is_refused(what, "Publish", order)), "{complaints:?}");
    }
    worker.subscribe("hf.default.w.>");
    let complaints = worker.settle().1;
    assert!(
        complaints.iter().any(|what| is_refused(what, "Subscription", "hf.default.w.>")),
        "{complaints:?}"
    );
    // And the others may do what they are there for.
    let mut coordinator = Wire::as_user(bus, folder, "coordinator");
    coordinator.subscribe("hf.default.w.here.>");
    coordinator.publish("hf.default.c.all", b"{}");
    assert_eq!(coordinator.settle().1, [""; 0]);
    worker.publish("hf.default.w.here.hello.me", b"heard");
    let received = coordinator.message("output of a worker", |message| Some(message.payload.clone()));
    assert_eq!(received, b"heard");
}

fn is_refused(complaint: &str, act: &str, subject: &str) -> bool {
    complaint.contains("Permissions Violation") && complaint.contains(act) && complaint.contains(subject)
}
