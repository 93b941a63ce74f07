//! Lists of addresses may be in files (`file:addresses.txt`): a change takes effect without a reload, a wrong line is named, and a file that
//! is wrong or empty never lets more clients in.

use super::support::folder::Folder;
use super::support::http;
use super::support::tools::handfast;
use super::support::*;

/// A service with a list that its route, and another that the service itself has.
fn config(folder: &Folder) -> String {
    let file = |name: &str| folder.file(name).display().to_string();
    format!(
        "[admin]\nlisten = \"127.0.0.1:0\"\n[access-log]\nto = \"off\"\n[[service]]\nname = \"web\"\nlisten = \"127.0.0.1:0\"\n\
         client-tls = false\nmode = \"http\"\nrefuse-clients = \"file:{}\"\n[[service.route]]\nallow-clients = [\"192.0.2.0/24\", \"file:{}\"]\n\
         respond = {{ status = 200, content = \"in\" }}\n",
        file("refused.txt"),
        file("allowed.txt"),
    )
}

fn started(folder: &Folder) -> Proxy {
    folder.write("refused.txt", "# none yet\n");
    folder.write("allowed.txt", "10.0.0.0/8   # the office\n\n127.0.0.1\n");
    Proxy::start(config(folder))
}

/// The status of a request; `None`: the connection was reset.
fn status(proxy: &Proxy) -> Option<u16> {
    let request = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    http::parse(&http::exchange(proxy.address(), request)).map(|response| response.status)
}

#[test]
fn a_changed_file_takes_effect_without_a_reload() {
    let folder = Folder::new();
    let proxy = started(&folder);
    assert_eq!(status(&proxy), Some(200));
    folder.replace("allowed.txt", "10.0.0.0/8\n");
    wait_until("the client to be refused", || (status(&proxy) == Some(403)).then_some(()));
    folder.replace("allowed.txt", "127.0.0.0/8\n");
    wait_until("the client to be let in", || (status(&proxy) == Some(200)).then_some(()));
    // Also by a reload of the whole configuration.
    folder.replace("allowed.txt", "10.0.0.0/8\n");
    assert!(proxy.reload());
    assert_eq!(status(&proxy), Some(403));
}

#[test]
fn a_wrong_file_is_named_with_its_lines_and_changes_nothing() {
    let folder = Folder::new();
    let proxy = started(&folder);
    let allowed = folder.file("allowed.txt").display().to_string();
    folder.replace("allowed.txt", "127.0.0.1\nexample.org\n10.0.0.0/33\n");
    let is_named = |line: &String| line.contains("line 2: `example.org`");
    wait_until("the lines to be named", || proxy.talk.so_far().iter().any(is_named).then_some(()));
    assert_eq!(status(&proxy), Some(200), "the old addresses are still let in");
    let checked = handfast(&["check", "-c", &proxy.file.display().to_string()]);
    assert_eq!(checked.code, Some(2), "{}", checked.all());
    for expected in [&*allowed, "handfast.toml:12:", "line 2: `example.org`", "line 3: "] {
        assert!(checked.talk.contains(expected), "{expected}: {}", checked.talk);
    }
    std::fs::remove_file(&allowed).expect("it is there");
    let checked = handfast(&["check", "-c", &proxy.file.display().to_string()]);
    assert!(checked.talk.contains("cannot be read: "), "{}", checked.talk);
    assert_eq!(status(&proxy), Some(200));
}

#[test]
fn an_empty_file_does_not_let_every_client_in() {
    let folder = Folder::new();
    let proxy = started(&folder);
    // Without the other item of the list, which would be left.
    let only_file = config(&folder).replace("\"192.0.2.0/24\", ", "");
    proxy.rewrite(&only_file);
    assert!(proxy.reload());
    assert_eq!(status(&proxy), Some(200));
    folder.replace("allowed.txt", "# nobody\n");
    let is_named = |line: &String| line.contains("there is no address, and `allow-clients` needs one");
    wait_until("the empty list to be named", || proxy.talk.so_far().iter().any(is_named).then_some(()));
    let checked = handfast(&["check", "-c", &proxy.file.display().to_string()]);
    assert_eq!(checked.code, Some(2), "{}", checked.all());
}
