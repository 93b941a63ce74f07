//! All mistakes in a configuration are reported together, each with its file, line, text, the allowed values, and a probable
//! correction; `check` and `proxy` say the same.

use super::support::certificates::localhost;
use super::support::folder::Folder;
use super::support::*;

/// Five mistakes, each on a separate line.
fn with_mistakes(folder: &Folder) -> (String, [(usize, &'static str); 5]) {
    folder.write("web.pem", localhost().combined());
    let text = [
        "[process]",
        "thraeds = 2",
        "[limits]",
        "handshake = \"10 seconds\"",
        "[[service]]",
        "name = \"web\"",
        "listen = \"127.0.0.1\"",
        "backend = \"127.0.0.1:99999\"",
        "certificate = \"web.pem\"",
        "balance = \"round-robbin\"",
    ];
    let file = folder.write("handfast.toml", text.join("\n"));
    let mistakes = [(2, "thraeds"), (4, "10 seconds"), (7, "127.0.0.1"), (8, "99999"), (10, "round-robbin")];
    (file.display().to_string(), mistakes)
}

#[test]
fn all_of_them_with_their_lines() {
    let folder = Folder::new();
    let (file, mistakes) = with_mistakes(&folder);
    for arguments in [vec!["check", "-c", &file], vec!["proxy", "-c", &file]] {
        let ran = tools::handfast(&arguments);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        let all = ran.all();
        for (line, text) in mistakes {
            assert!(all.contains(text), "{arguments:?}: {text} is named:\n{all}");
            assert!(
                all.contains(&format!("handfast.toml:{line}")),
                "{arguments:?}: line {line} is named:\n{all}"
            );
        }
        for meant in ["`threads`", "`round-robin`"] {
            assert!(all.contains(meant), "{arguments:?}: did you mean {meant}:\n{all}");
        }
    }
}

#[test]
fn a_good_one_is_explained_in_sentences() {
    let folder = Folder::new();
    let config = Config::to(&folder, "127.0.0.1:8080").text("service", "listen", "127.0.0.1:8443");
    let file = folder.write("handfast.toml", config.to_string()).display().to_string();
    let ran = tools::handfast(&["check", "-c", &file]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let ran = tools::handfast(&["check", "--explain", "-c", &file]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for word in ["web", "127.0.0.1:8443", "localhost", "127.0.0.1:8080"] {
        assert!(ran.output.contains(word), "{word}: {ran:?}");
    }
}

#[test]
fn checking_binds_nothing() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = taken.local_addr().expect("a bound socket has an address");
    let folder = Folder::new();
    let config = Config::to(&folder, "127.0.0.1:8080").text("service", "listen", address);
    let file = folder.write("handfast.toml", config.to_string()).display().to_string();
    let ran = tools::handfast(&["check", "-c", &file]);
    assert_eq!(ran.code, Some(0), "the port is in use, and that is not the file's fault: {ran:?}");
}

#[test]
fn what_is_wrong_with_files_is_reported_together_with_the_rest() {
    let folder = Folder::new();
    let text = [
        "[process]",
        "thraeds = 2",
        "[[service]]",
        "name = \"web\"",
        "listen = \"127.0.0.1:8443\"",
        "backend = \"127.0.0.1:1\"",
        "certificate = \"missing.pem\"",
        "[service.client-certificates]",
        "mode = \"require\"",
        "ca = \"no-ca.pem\"",
    ];
    let file = folder.write("handfast.toml", text.join("\n")).display().to_string();
    for verb in ["check", "proxy", "upgrade"] {
        let ran = tools::handfast(&[verb, "-c", &file]);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        let all = ran.all();
        for (line, what) in
            [(2, "unknown key `thraeds`"), (7, "missing.pem: is not there"), (10, "no-ca.pem: is not there")]
        {
            assert!(all.contains(what), "{verb}: {what}:\n{all}");
            assert!(all.contains(&format!("handfast.toml:{line}:")), "{verb}: line {line}:\n{all}");
        }
        assert!(!all.contains("error: error:"), "{verb}:\n{all}");
    }
}

#[test]
fn a_problem_with_a_file_has_the_line_that_names_it() {
    let folder = Folder::new();
    let web = folder.write("web.pem", localhost().combined());
    let config = Config::empty().service("web", "127.0.0.1:1").certificate(&web);
    let ca = folder.path().join("no-ca.pem");
    let require = format!("{{ mode = \"require\", ca = {ca:?} }}");
    let text = config.set("service", "client-certificates", require).to_string();
    let line = 1 + text.lines().position(|line| line.contains("no-ca.pem")).expect("it is written");
    let file = folder.write("handfast.toml", &text).display().to_string();
    for verb in ["check", "proxy"] {
        let all = tools::handfast(&[verb, "-c", &file]).all();
        let found = all.lines().find(|line| line.contains("no-ca.pem: is not there")).unwrap_or_default();
        assert!(found.contains(&format!("handfast.toml:{line}:")), "{verb}: line {line}:\n{all}");
    }
}

#[test]
fn lines_of_the_proxy_have_their_time() {
    let stage = Stage::echo();
    let ready = stage.proxy.talk.containing("handfast: ready");
    let time = ready.split(' ').next().unwrap_or_default();
    assert!(time.len() == "2026-11-22T13:31:29.042Z".len() && time.ends_with('Z'), "{ready}");
    assert!(time.bytes().filter(u8::is_ascii_digit).count() == 17, "{ready}");
}
