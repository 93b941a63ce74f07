//! Single problems that keep a start from succeeding.

#![expect(clippy::disallowed_methods, reason = "nobody else reads these files")]

use std::fs;

use super::*;
use handfast_config::parse;

/// A valid configuration, apart from `more`.
fn config(folder: &Path, listen: &str, more: &str) -> Config {
    let text = format!(
        "{more}\n[[service]]\nname = \"web\"\nlisten = {listen:?}\nbackend = \"127.0.0.1:1\"\ncertificate = \"web.pem\"\n"
    );
    let file = folder.join("handfast.toml");
    parse(&file.display().to_string(), &text, &|_| false).expect("a test's configuration is right").0
}

fn errors(folder: &Path, listen: &str, more: &str) -> Vec<String> {
    inspect_machine(&config(folder, listen, &format!("[admin]\nlisten = \"off\"\n{more}")), &[]).errors
}

/// The only thing that is wrong.
fn only(found: &[String]) -> &str {
    assert_eq!(found.len(), 1, "{found:?}");
    &found[0]
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn nothing_is_wrong_with_what_works() {
    let folder = tempfile::tempdir().expect("a folder");
    let more = "[access-log]\nto = \"./access.log\"\n[tickets]\nkey-file = \"tickets.key\"\n";
    let listen = format!("unix:{}", folder.path().join("web.sock").display());
    for listen in ["127.0.0.1:0", &listen] {
        assert_eq!(errors(folder.path(), listen, more), [] as [String; 0]);
    }
    assert_eq!(fs::read_dir(folder.path()).expect("it is there").count(), 0, "nothing was made");
}

#[test]
fn missing_folders_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    for (listen, more, act) in [
        ("127.0.0.1:0", "[access-log]\nto = \"none/access.log\"\n", "open the access log"),
        ("127.0.0.1:0", "[tickets]\nkey-file = \"none/tickets.key\"\n", "create the ticket-key file"),
        ("unix:none/web.sock", "", "listen on unix:"),
    ] {
        let found = errors(folder.path(), listen, more);
        let problem = only(&found);
        assert!(problem.starts_with(act) && problem.contains("none/"), "{problem}");
        assert!(problem.contains("hint: create "), "{problem}");
    }
}

#[test]
fn what_is_in_the_way_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("access.log")).expect("it is ours");
    let found = errors(folder.path(), "127.0.0.1:0", "[access-log]\nto = \"./access.log\"\n");
    assert!(only(&found).contains("open the access log"), "{found:?}");
    fs::write(folder.path().join("web.sock"), "").expect("it is ours");
    let listen = format!("unix:{}", folder.path().join("web.sock").display());
    let found = errors(folder.path(), &listen, "");
    assert!(only(&found).contains("not a socket"), "{found:?}");
}

#[test]
fn an_address_of_another_machine_is_an_error_and_one_in_use_a_warning() {
    let folder = tempfile::tempdir().expect("a folder");
    // RFC 5737: for documentation, so no interface has it.
    let found = errors(folder.path(), "192.0.2.1:0", "");
    assert!(only(&found).contains("no interface of this machine has that address"), "{found:?}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = taken.local_addr().expect("it is bound").to_string();
    let found = inspect_machine(&config(folder.path(), &address, "[admin]\nlisten = \"off\"\n"), &[]);
    assert_eq!(found.errors, [] as [String; 0]);
    assert!(only(&found.warnings).contains("another program listens there"), "{found:?}");
}

/// A connection takes any free port, also one that a service is to have, and the kernel keeps it for a minute.
#[test]
fn a_port_that_ended_connections_hold_is_distinguished_from_one_with_a_listener() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let client = std::net::TcpStream::connect_timeout(
        &server.local_addr().expect("it is bound"),
        std::time::Duration::from_secs(5),
    )
    .expect("it listens");
    let address = client.local_addr().expect("it is connected").to_string();
    let (accepted, _) = server.accept().expect("a client came");
    // The end that closes first waits.
    drop(client);
    drop(accepted);
    let found = inspect_machine(&config(folder.path(), &address, "[admin]\nlisten = \"off\"\n"), &[]);
    let warning = only(&found.warnings);
    assert!(
        warning.contains("no program listens there") && warning.contains("ip_local_reserved_ports"),
        "{found:?}"
    );
}

#[test]
fn too_many_connections_for_the_limit_on_files_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let found = errors(folder.path(), "127.0.0.1:0", "[process]\nmax-connections = 10000000\n");
    assert!(only(&found).contains("open files"), "{found:?}");
}

#[test]
fn files_are_tried_as_the_user_that_will_serve() {
    if !is_root() {
        // A process without root cannot become another user, and reports that.
        let folder = tempfile::tempdir().expect("a folder");
        let found = errors(folder.path(), "127.0.0.1:0", "[process]\nuser = \"nobody\"\n");
        assert!(only(&found).contains("only root may change its user"), "{found:?}");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mode =
        |mode| fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).expect("it is ours");
    let log = "[process]\nuser = \"nobody\"\n[access-log]\nto = \"./access.log\"\n";
    mode(0o755);
    let found = errors(folder.path(), "127.0.0.1:0", log);
    assert!(
        only(&found).contains("open the access log") && found[0].contains("Permission denied"),
        "{found:?}"
    );
    assert!(rustix::process::geteuid().is_root(), "only a thread was somebody else");
    mode(0o777);
    assert_eq!(errors(folder.path(), "127.0.0.1:0", log), [] as [String; 0]);
    // A file that is there is handed over at the start, and cannot be made again.
    mode(0o755);
    fs::write(folder.path().join("access.log"), "").expect("it is ours");
    let found = inspect_machine(
        &config(folder.path(), "127.0.0.1:0", &format!("[admin]\nlisten = \"off\"\n{log}")),
        &[],
    );
    assert_eq!(found.errors, [] as [String; 0]);
    assert!(only(&found.warnings).contains("after a rotation"), "{found:?}");
    // Keys that only root can read are read at a start, and at no renewal.
    let key = folder.path().join("web.pem");
    fs::write(&key, "").expect("it is ours");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("it is ours");
    let user =
        config(folder.path(), "127.0.0.1:0", "[admin]\nlisten = \"off\"\n[process]\nuser = \"nobody\"\n");
    let found = inspect_machine(&user, &[key]);
    assert!(only(&found.warnings).contains("cannot read it, so no reload will"), "{found:?}");
}
