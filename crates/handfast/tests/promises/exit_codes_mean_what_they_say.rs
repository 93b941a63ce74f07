//! Exit codes mean what they say: 0 good, 1 failed while running, 2 wrong use or configuration; and the reason is on standard
//! error, while standard output stays data.

use super::support::folder::Folder;
use super::support::*;

#[test]
fn nought_after_a_stop() {
    let stage = Stage::echo();
    let (code, _) = stage.proxy.stop();
    assert_eq!(code, Some(0));
}

#[test]
fn nought_for_help_and_version() {
    for word in ["--help", "--version"] {
        let ran = tools::handfast(&[word]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(ran.output.contains("handfast") && ran.talk.is_empty(), "{ran:?}");
    }
}

#[test]
fn two_for_wrong_use() {
    for (arguments, reported) in [
        (&["proxxy"][..], "'proxxy'"),
        (&["proxy", "--unheard-of"], "'--unheard-of'"),
        (&["proxy", "-c"], "a value is required for '--config"),
        (&["check", "-c", "/nonexistent/handfast.toml"], "/nonexistent/handfast.toml: "),
    ] {
        let ran = tools::handfast(arguments);
        assert_eq!(ran.code, Some(2), "{arguments:?}: {ran:?}");
        assert!(ran.talk.contains(reported), "{arguments:?}, expected {reported}: {ran:?}");
    }
}

#[test]
fn two_for_a_wrong_configuration() {
    let folder = Folder::new();
    let file = folder.write("handfast.toml", "[[service]]\nname = \"web\"\n").display().to_string();
    let ran = tools::handfast(&["proxy", "-c", &file]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.talk.contains("handfast.toml:1:1") && ran.talk.contains("`listen`"), "{ran:?}");
}

#[test]
fn one_when_an_address_is_taken() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = taken.local_addr().expect("a bound socket has an address").to_string();
    let folder = Folder::new();
    let config = Config::to(&folder, "127.0.0.1:1").text("service", "listen", &address);
    let file = folder.write("handfast.toml", config.to_string()).display().to_string();
    let ran = tools::handfast(&["proxy", "-c", &file]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.talk.contains(&address), "it says which address: {ran:?}");
}
