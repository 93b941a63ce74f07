//! `handfast top` shows what the proxy counts: once as text and live in a terminal, over HTTP and a unix socket, also when another
//! process takes the proxy's place.

use std::io::Write;
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};

use rustix::process::Signal;

use super::support::process::Process;
use super::support::proxy::PROGRAM;
use super::support::skip::needs;
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
        "the client sent something that is not TLS",
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
    let at = format!("unix:{}", socket.display());
    let mut terminal = Terminal::start(&folder, &at);
    let client = Client::connect(proxy.address(), &Trust::version(Version::Tls13).config());
    terminal.shows(&format!("process {first} "));
    terminal.shows("1 open");
    terminal.shows("[1 Services]");
    client.finish();
    terminal.tool.send(b"2");
    terminal.shows("[2 Backends]");
    terminal.shows(&backend.address.to_string());
    proxy.stop();
    terminal.shows("no answer for");
    let proxy = Proxy::start(config());
    terminal.shows(&format!("process {} has replaced {first}", proxy.process().0));
    terminal.tool.send(b"q");
    assert_eq!(terminal.end(), Some(0));
    for signal in [Signal::TERM, Signal::INT] {
        let terminal = Terminal::start(&folder, &at);
        terminal.shows("1 Services");
        terminal.program().signal(signal);
        assert_eq!(terminal.end(), Some(128 + signal.as_raw()));
    }
}

/// `handfast top` in a terminal of 140 columns and 40 rows.
struct Terminal {
    tool: Tool,
    /// File with its output.
    file: PathBuf,
}

impl Terminal {
    fn start(folder: &folder::Folder, at: &str) -> Self {
        let file = folder.file("terminal");
        let command = format!("echo $$; stty cols 140 rows 40; TERM=xterm NO_COLOR= exec {PROGRAM} top {at}");
        let tool = Tool::start("script", &["-qefc", &command, &file.display().to_string()]);
        Self { tool, file }
    }

    /// Waits for a text on the screen; one in brackets is chosen.
    fn shows(&self, text: &str) {
        let shown = || {
            let terminal = screen_of(&self.file);
            let screen = terminal.screen();
            let cells = (0..40).flat_map(|row| (0..140).filter_map(move |column| screen.cell(row, column)));
            let chosen: String = cells.filter(|cell| cell.inverse()).map(|cell| cell.contents()).collect();
            format!("{}\n[{chosen}]", screen.contents())
        };
        deadline::wait_until_seeing(text, || shown().contains(text).then_some(()), shown);
    }

    fn program(&self) -> Process {
        let written = std::fs::read_to_string(&self.file).expect("it is text");
        let process = written.lines().find_map(|line| line.trim().parse().ok());
        Process(process.expect("the shell has written it first"))
    }

    /// Waits for its end; its exit code. The terminal is as it was.
    fn end(self) -> Option<i32> {
        let (file, ran) = (self.file.clone(), self.tool.ended());
        let terminal = screen_of(&file);
        let screen = terminal.screen();
        assert!(!screen.alternate_screen() && !screen.hide_cursor(), "{}", ran.all());
        ran.code
    }
}

/// The terminal after what was written to it.
fn screen_of(file: &Path) -> vt100::Parser {
    let [rows, columns] = [40, 140].map(|size| NonZeroU16::new(size).expect("it is not zero"));
    let mut terminal = vt100::Parser::new(rows, columns, 0);
    terminal.process(&std::fs::read(file).unwrap_or_default());
    terminal
}
