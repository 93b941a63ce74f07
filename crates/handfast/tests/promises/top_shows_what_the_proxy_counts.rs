//! `handfast top` shows what the proxy counts: once as text and live in a terminal, over HTTP and a unix socket, also when another
//! process takes the proxy's place.

use std::io::Write;

use super::support::proxy::PROGRAM;
use super::support::skip::{needs, skipped};
use super::support::tools::{self, Tool};
use super::support::*;

#[test]
fn once_over_http() {
    let stage = Stage::echo();
    let mut client = stage.any_client();
    client.echo(b"x");
    // A client without TLS.
    let mut stranger =
        std::net::TcpStream::connect_timeout(&stage.proxy.address(), deadline::DEADLINE).expect("it listens");
    stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("it reads");
    let address = stranger.local_addr().expect("it is connected");
    stage.proxy.record_of("hello/client/not-tls");
    let ran = tools::handfast(&["top", &format!("http://{}", stage.proxy.admin()), "--once"]);
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    for expected in [
        "1 open",
        "worker-0",
        "TLSv1.3 full",
        "hello / client / not-tls",
        "the client spoke something that is not TLS",
        &stage.backend.address.to_string(),
        &address.to_string(),
        &format!("process {} ", stage.proxy.process().0),
    ] {
        assert!(ran.output.contains(expected), "{expected}: {}", ran.all());
    }
    assert!(!ran.output.contains('\u{1b}'), "plain text: {}", ran.output);
    client.finish();
}

#[test]
fn without_a_terminal_or_a_proxy_it_says_what_to_do() {
    let stage = Stage::echo();
    let admin = stage.proxy.admin().to_string();
    let ran = tools::handfast(&["top", &admin]);
    assert_eq!(ran.code, Some(2), "{}", ran.all());
    assert!(ran.talk.contains("--once") && ran.talk.contains("/status.json"), "{}", ran.all());
    drop(stage);
    let ran = tools::handfast(&["top", &admin, "--once"]);
    assert_eq!(ran.code, Some(1), "{}", ran.all());
    assert!(ran.talk.contains("admin.listen"), "{}", ran.all());
}

#[test]
fn live_in_a_terminal_over_a_restart() {
    needs!("script", "stty");
    let (folder, backend) = (folder::Folder::new(), Backend::echo());
    let socket = folder.file("admin.sock");
    let config =
        || Config::to(&folder, backend.address).text("admin", "listen", format!("unix:{}", socket.display()));
    let proxy = Proxy::start(config());
    let first = proxy.process().0;
    let file = proxy.file.display().to_string();
    let ran = tools::handfast(&["top", "-c", &file, "--once"]);
    assert!(ran.code == Some(0) && ran.output.contains(&format!("process {first} ")), "{}", ran.all());
    let command =
        format!("stty cols 140 rows 40; TERM=xterm NO_COLOR= exec {PROGRAM} top unix:{}", socket.display());
    let mut terminal = Tool::start("script", &["-qefc", &command, "/dev/null"]);
    let client = Client::connect(proxy.address(), &Trust::version(Version::Tls13).config());
    terminal.output.containing(&format!("process {first} "));
    terminal.output.containing("1 open");
    terminal.output.containing("\u{1b}[7m1 Services");
    client.finish();
    terminal.send(b"2");
    terminal.output.containing("\u{1b}[7m2 Backends");
    terminal.output.containing(&backend.address.to_string());
    proxy.stop();
    terminal.output.containing("no answer for");
    let proxy = Proxy::start(config());
    terminal.output.containing(&format!("process {} has replaced {first}", proxy.process().0));
    terminal.send(b"q");
    let ran = terminal.ended();
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    assert!(
        ran.output.contains("\u{1b}[?1049h") && ran.output.trim_end().ends_with("\u{1b}[?1049l"),
        "{:?}",
        ran.output
    );
}
