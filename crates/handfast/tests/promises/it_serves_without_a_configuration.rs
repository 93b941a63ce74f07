//! It serves without a configuration: with nothing at all on embedded defaults, with a throwaway certificate and a built-in
//! backend, and one service by flags; the commands it prints work.
//!
//! These have fixed ports, so they run in a separate network.

use super::support::certificates::localhost;
use super::support::folder::Folder;
use super::support::skip::{needs, skipped};
use super::support::*;

/// Starts the program with `words` in a separate network, runs `then` against it, and stops it cleanly.
fn alone(folder: &Folder, words: &str, then: &str) -> tools::Ran {
    let script = format!(
        "set -e; ip link set lo up; cd {folder}; {program} proxy {words} >log 2>talk & proxy=$!; \
         for try in $(seq 1000); do grep -q 'handfast: ready' talk && break; sleep 0.02; done; \
         {then}; kill -TERM $proxy; wait $proxy; echo \"exit code $?\"",
        folder = folder.path().display(),
        program = proxy::PROGRAM,
    );
    tools::run("unshare", &["--map-root-user", "--net", "bash", "-c", &script], b"")
}

/// Returns true if this user may make a network on this machine.
fn networks_can_be_made() -> bool {
    tools::run("unshare", &["--map-root-user", "--net", "ip", "link", "set", "lo", "up"], b"").code == Some(0)
}

#[test]
fn on_embedded_defaults() {
    needs!("unshare", "ip", "curl", "openssl");
    if !networks_can_be_made() {
        skipped!("this user has no permission to make a separate network (user and network namespaces)");
    }
    let folder = Folder::new();
    let reload = format!("{} reload 127.0.0.1:7643; ", proxy::PROGRAM);
    let then = "curl -sS --noproxy '*' --cacert handfast-throwaway-ca.pem https://localhost:8443/; \
        curl -sS --noproxy '*' --cacert handfast-throwaway-ca.pem --resolve 'localhost:8443:[::1]' https://localhost:8443/; \
        (echo echoed; sleep 0.5) | openssl s_client -quiet -no_ign_eof -verify_return_error \
        -CAfile handfast-throwaway-ca.pem -connect localhost:8443 -servername localhost; \
        curl -sS --noproxy '*' http://127.0.0.1:7643/metrics | tail -n 1";
    let ran = alone(&folder, "", &(reload + then));
    assert!(ran.output.contains("generation 2"), "it can be reloaded: {ran:?}");
    assert!(ran.output.contains("echoed"), "{ran:?}");
    assert!(ran.output.contains("# EOF"), "{ran:?}");
    assert!(ran.output.ends_with("exit code 0\n"), "{ran:?}");
    let talk = std::fs::read_to_string(folder.file("talk")).expect("it was written by the script");
    for command in ["curl --cacert handfast-throwaway-ca.pem", "openssl s_client", "/metrics"] {
        assert!(talk.contains(command), "it prints what to try: {talk}");
    }
}

#[test]
fn one_service_by_flags_alone() {
    needs!("unshare", "ip", "curl", "python3");
    if !networks_can_be_made() {
        skipped!("this user has no permission to make a separate network (user and network namespaces)");
    }
    let folder = Folder::new();
    folder.write("a.pem", &localhost().certificate_pem);
    folder.write("a.key", &localhost().key_pem);
    folder.write("ca.pem", &authority().pem);
    folder.write("page", "from the backend\n");
    let words = "--listen 127.0.0.1:8443 --backend 127.0.0.1:8080 --certificate a.pem --key a.key";
    let then = "python3 -m http.server --bind 127.0.0.1 8080 >backend 2>&1 & backend=$!; \
        for try in $(seq 500); do curl -s --noproxy '*' -o /dev/null http://127.0.0.1:8080/ && break; sleep 0.02; done; \
        curl -sS --noproxy '*' --cacert ca.pem https://localhost:8443/page; kill $backend";
    let ran = alone(&folder, words, then);
    assert_eq!(ran.output, "from the backend\nexit code 0\n", "{ran:?}");
}
