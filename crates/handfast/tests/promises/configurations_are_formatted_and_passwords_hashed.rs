//! The small commands beside the proxy: `fmt` changes the form of a configuration and nothing else, `hash-password` makes lines that the
//! proxy accepts and shows no password, `completions` writes scripts that shells read.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use super::support::folder::Folder;
use super::support::http;
use super::support::proxy::PROGRAM;
use super::support::skip::needs;
use super::support::tools::{self, Tool, handfast, run_command};
use super::support::*;

const BEFORE: &str = "# the admin page\n[admin]\n   listen=\"off\"\n[[service]]\nname   = \"web\" # a comment\nlisten=[\"127.0.0.1:0\",\"[::1]:0\"]\n";
const AFTER: &str = "# the admin page\n[admin]\nlisten = \"off\"\n\n[[service]]\nname = \"web\" # a comment\nlisten = [\"127.0.0.1:0\", \"[::1]:0\"]\n";

#[test]
fn a_file_is_formatted_at_once_with_its_mode_and_by_its_link() {
    let folder = Folder::new();
    let file = folder.write("handfast.toml", BEFORE);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).expect("it is ours");
    let link = folder.file("link.toml");
    std::os::unix::fs::symlink("handfast.toml", &link).expect("nothing is there");
    let path = link.display().to_string();
    let checked = handfast(&["fmt", "--check", &path]);
    assert_eq!((checked.code, checked.talk.trim()), (Some(1), &*format!("{path}: would change")));
    assert_eq!(std::fs::read_to_string(&file).expect("text"), BEFORE, "a check changes nothing");
    let formatted = handfast(&["fmt", &path]);
    assert_eq!((formatted.code, formatted.all().trim()), (Some(0), ""));
    assert_eq!(std::fs::read_to_string(&file).expect("text"), AFTER);
    assert!(std::fs::symlink_metadata(&link).expect("it is there").is_symlink());
    assert_eq!(std::fs::metadata(&file).expect("it is there").permissions().mode() & 0o7777, 0o640);
    let names = std::fs::read_dir(folder.path()).expect("a folder").count();
    assert_eq!(names, 2, "nothing is left beside it");
    assert_eq!(handfast(&["fmt", "--check", &path]).code, Some(0));
    let piped = run_command(Command::new(PROGRAM).arg("fmt"), BEFORE.as_bytes());
    assert_eq!((piped.code, &*piped.output), (Some(0), AFTER));
}

#[test]
fn a_file_that_is_no_toml_stays_as_it_is() {
    let folder = Folder::new();
    let wrong = folder.write("wrong.toml", "[admin]\nlisten = off password hunter2\n");
    let good = folder.write("good.toml", BEFORE);
    let [wrong_path, good_path] = [&wrong, &good].map(|path| path.display().to_string());
    let ran = handfast(&["fmt", &wrong_path, &good_path]);
    assert_eq!(ran.code, Some(2), "{}", ran.all());
    assert!(ran.talk.starts_with(&format!("error: format {wrong_path}: line 2: ")), "{}", ran.talk);
    assert!(!ran.talk.contains("hunter2"), "{}", ran.talk);
    assert_eq!(std::fs::read_to_string(&wrong).expect("text"), "[admin]\nlisten = off password hunter2\n");
    assert_eq!(std::fs::read_to_string(&good).expect("text"), AFTER, "the other one is formatted");
}

#[test]
fn the_proxy_accepts_a_password_that_was_hashed_here() {
    let folder = Folder::new();
    let ran = run_command(Command::new(PROGRAM).args(["hash-password", "alice"]), b"correct horse\n");
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    assert!(ran.output.starts_with("alice:$argon2id$") && !ran.all().contains("horse"), "{}", ran.all());
    let users = folder.write("users", &ran.output);
    let proxy = Proxy::start(format!(
        "[admin]\nlisten = \"off\"\n[[service]]\nname = \"web\"\nlisten = \"127.0.0.1:0\"\nclient-tls = false\nmode = \"http\"\n\
         [[service.route]]\nbasic-auth = {{ file = \"{}\" }}\nrespond = {{ status = 200, content = \"in\" }}\n",
        users.display()
    ));
    let status = |credentials: &str| {
        let request = format!(
            "GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic {credentials}\r\nConnection: close\r\n\r\n"
        );
        http::parse(&http::exchange(proxy.address(), &request)).expect("a response").status
    };
    // alice:correct horse, and alice:wrong
    assert_eq!((status("YWxpY2U6Y29ycmVjdCBob3JzZQ=="), status("YWxpY2U6d3Jvbmc=")), (200, 401));
    for (name, input) in [("a:b", "x\n"), ("alice", ""), ("alice", "one\ntwo\n")] {
        let ran = run_command(Command::new(PROGRAM).args(["hash-password", name]), input.as_bytes());
        assert_eq!((ran.code, &*ran.output), (Some(2), ""), "{}", ran.all());
    }
}

#[test]
fn a_password_is_asked_for_twice_on_a_terminal_and_never_shown() {
    needs!("script");
    for (second, expected) in
        [("correct horse", "alice:$argon2id$"), ("other", "error: the two passwords differ")]
    {
        let folder = Folder::new();
        let typed = folder.file("terminal");
        let command = format!("{PROGRAM} hash-password alice; stty -a");
        let mut tool = Tool::start("script", &["-qefc", &command, &typed.display().to_string()]);
        let text = || std::fs::read_to_string(&typed).unwrap_or_default();
        for (prompt, password) in [("Password: ", "correct horse"), ("The same password again: ", second)] {
            wait_until(prompt, || text().ends_with(prompt).then_some(()));
            tool.send(format!("{password}\r").as_bytes());
        }
        wait_until("the settings of the terminal", || text().contains("extproc").then_some(()));
        let screen = text();
        drop(tool);
        assert!(screen.contains(expected), "{screen}");
        let own = screen.split("Password: ").nth(1).expect("it was asked for");
        assert!(!own.contains("horse") && !own.contains("other\r"), "{screen}");
        assert!(
            ["echo", "icanon", "isig"].iter().all(|word| own.split_whitespace().any(|own| own == *word)),
            "{screen}"
        );
    }
}

#[test]
fn shells_read_the_completions() {
    let folder = Folder::new();
    let mut read = 0;
    for shell in ["bash", "zsh", "fish"] {
        let ran = handfast(&["completions", shell]);
        assert_eq!((ran.code, &*ran.talk), (Some(0), ""));
        assert!(ran.output.contains("hash-password"), "{shell}");
        let script = folder.write(shell, &ran.output);
        if tools::find(shell).is_some() {
            let checked = run_command(Command::new(shell).arg("-n").arg(&script), b"");
            assert_eq!((checked.code, checked.all().trim()), (Some(0), ""), "{shell}");
            read += 1;
        }
    }
    assert!(read > 0, "bash is on every machine that runs these tests");
    assert_eq!(handfast(&["completions", "tcsh"]).code, Some(2));
}
