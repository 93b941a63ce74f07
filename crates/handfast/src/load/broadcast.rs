//! Live figures of a run: lines of JSON for a program, a page for Prometheus, and one for `handfast top`.
//!
//! In: [`OutputWords`], then the figures of each second. Out: `--live-json` and `--metrics`. A slow or missing reader
//! never delays the run: a thread writes, and separate tasks serve the pages.

use std::fs::File;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Builder;
use std::time::Duration;

use handfast_load::Plan;
use handfast_load::assemble::Live;
use handfast_load::sample::Interval;
use handfast_report::Report;
use handfast_report::live::{End, Line, SCHEMA};
use handfast_report::openmetrics::LiveMetrics;
use handfast_report::run::Run;
use handfast_report::to_line;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::outputs::OutputError;
use super::progress::not_begun;
use crate::words::load::OutputWords;

/// Lines that wait for a slow reader: an hour of them, a few megabytes. Further lines are dropped, and counted.
const WAITING: usize = 3600;
/// Time limit for the last lines after the run.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of one request for a page.
const ASKING: Duration = Duration::from_secs(5);
/// Requests at once; more wait in the listener's queue.
const AT_ONCE: usize = 16;
/// Longest head of a request; that of Prometheus has some hundred bytes.
const HEAD: usize = 8192;

/// The outputs of live figures.
#[derive(Debug, Default)]
pub(crate) struct Broadcast {
    lines: Option<SyncSender<String>>,
    lost: u64,
    /// Until it is served.
    listener: Option<TcpListener>,
    pages: Option<watch::Sender<Pages>>,
    metrics: LiveMetrics,
    live: Option<Live>,
}

/// The pages of the HTTP server.
#[derive(Clone, Debug, Default)]
struct Pages {
    metrics: String,
    status: String,
}

/// The rest to write when the run is over.
#[derive(Debug)]
pub(crate) struct Closing {
    path: PathBuf,
    done: Receiver<io::Result<()>>,
}

impl Broadcast {
    /// Opens the requested outputs.
    ///
    /// **Errors**: a file that cannot be written, an address that cannot be listened on.
    pub(crate) fn prepare(words: &OutputWords) -> Result<(Self, Option<Closing>), OutputError> {
        let mut broadcast = Self::default();
        if let Some(text) = &words.metrics {
            let address = address(text)?;
            let listener = TcpListener::bind(address)
                .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
                .map_err(|error| OutputError::Listen { address, error }.of("--metrics"))?;
            broadcast.listener = Some(listener);
        }
        let Some(path) = &words.live_json else { return Ok((broadcast, None)) };
        let wrong = |error| OutputError::Write { path: path.clone(), error }.of("--live-json");
        let mut out: Box<dyn Write + Send> = match is_standard_output(path) {
            true => Box::new(io::stdout()),
            // Not a temporary file: it is read while it grows.
            false => Box::new(File::create(path).map_err(wrong)?),
        };
        let (lines, waiting) = sync_channel::<String>(WAITING);
        let (tell, done) = sync_channel(1);
        let write = move || {
            let written = waiting.iter().try_for_each(|line| {
                out.write_all(line.as_bytes())?;
                out.flush()
            });
            let _ = tell.send(written);
        };
        Builder::new().name("live-json".into()).spawn(write).map_err(wrong)?;
        broadcast.lines = Some(lines);
        Ok((broadcast, Some(Closing { path: path.clone(), done })))
    }

    /// Serves the pages, if requested, until the tasks are dropped. Returns the address.
    ///
    /// **Errors**: a listener that the runtime rejects.
    pub(crate) fn serve(&mut self) -> io::Result<(JoinSet<()>, Option<SocketAddr>)> {
        let mut tasks = JoinSet::new();
        let Some(listener) = self.listener.take() else { return Ok((tasks, None)) };
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let address = listener.local_addr()?;
        let (pages, shown) = watch::channel(self.pages(&not_begun()));
        self.pages = Some(pages);
        tasks.spawn(serve(listener, shown));
        Ok((tasks, Some(address)))
    }

    /// A run begins, or a step of a search.
    pub(crate) fn begin(&mut self, plan: &Plan, run: &Run) {
        if self.lines.is_none() && self.pages.is_none() {
            return;
        }
        let live = Live::new(plan);
        self.send_line(&Line::Begin(live.begin(&run.part)));
        self.live = Some(live);
        self.show(run);
    }

    /// A second is over; `run` has it.
    pub(crate) fn second(&mut self, interval: &Interval, run: &Run) {
        let Some(live) = &mut self.live else { return };
        let second = live.second(interval);
        let (members, requests) = (second.members.clone(), second.requests.clone());
        self.send_line(&Line::Second(second));
        self.show(&Run { members, requests, ..run.clone() });
    }

    /// Serves this from now on.
    fn show(&self, run: &Run) {
        if let Some(pages) = &self.pages {
            pages.send_replace(self.pages(run));
        }
    }

    fn pages(&self, run: &Run) -> Pages {
        Pages { metrics: self.metrics.text(), status: to_line(run) }
    }

    /// Nothing more comes.
    pub(crate) fn end(&mut self, report: Option<&Report>) {
        let verdict = report.map(|report| report.verdict.word);
        self.send_line(&Line::End(End { schema: SCHEMA.to_owned(), verdict, lost_lines: self.lost }));
        self.lines = None;
    }

    fn send_line(&mut self, line: &Line) {
        self.metrics.take(line);
        // Full: the reader is an hour late. Disconnected: it has ended, which is reported at the end.
        if let Some(lines) = &self.lines
            && lines.try_send(to_line(line)).is_err()
        {
            self.lost += 1;
        }
    }
}

impl Closing {
    /// Waits for the last line to be written.
    ///
    /// **Errors**: that it could not be.
    pub(crate) fn wait(self) -> Result<(), OutputError> {
        let path = self.path;
        let error = match self.done.recv_timeout(TIMEOUT) {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => OutputError::Write { path, error },
            Err(_) => OutputError::NotRead { path, timeout: TIMEOUT },
        };
        Err(error.of("--live-json"))
    }
}

/// Returns true if the lines go to standard output, so that the text must go elsewhere.
pub(crate) fn takes_standard_output(words: &OutputWords) -> bool {
    words.live_json.as_deref().is_some_and(is_standard_output)
}

fn is_standard_output(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// `9464`, `127.0.0.1:9464`, `[::]:9464`.
pub(crate) fn address(text: &str) -> Result<SocketAddr, OutputError> {
    let wrong = || OutputError::Address(text.to_owned()).of("--metrics");
    match text.parse::<u16>() {
        Ok(port) => Ok((Ipv4Addr::LOCALHOST, port).into()),
        Err(_) => text.replacen("localhost:", "127.0.0.1:", 1).parse().map_err(|_| wrong()),
    }
}

async fn serve(listener: tokio::net::TcpListener, pages: watch::Receiver<Pages>) {
    let mut asking = JoinSet::new();
    loop {
        while asking.len() >= AT_ONCE {
            let _ = asking.join_next().await;
        }
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    asking.spawn(answer_in_time(stream, pages.clone()));
                }
                // Probably out of descriptors: some may become free.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            },
            Some(_) = asking.join_next() => {}
        }
    }
}

async fn answer_in_time(stream: TcpStream, pages: watch::Receiver<Pages>) {
    // The client is gone or slow; the run goes on.
    let _ = timeout(ASKING, answer(stream, pages)).await;
}

async fn answer(mut stream: TcpStream, pages: watch::Receiver<Pages>) -> io::Result<()> {
    let mut head = Vec::new();
    let mut some = [0; 1024];
    while !head.windows(4).any(|four| four == b"\r\n\r\n") {
        match stream.read(&mut some).await? {
            count if count > 0 && head.len() + count <= HEAD => head.extend_from_slice(&some[..count]),
            _ => return Ok(()),
        }
    }
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = path.split(|byte| *byte == b'?').next().unwrap_or_default();
    const METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    let (status, kind, body) = match (method, path) {
        (b"GET" | b"HEAD", b"/metrics") => ("200 OK", METRICS, pages.borrow().metrics.clone()),
        (b"GET" | b"HEAD", b"/status.json") => ("200 OK", "application/json", pages.borrow().status.clone()),
        (b"GET" | b"HEAD", _) => {
            ("404 Not Found", "text/plain", "the pages are /metrics and /status.json\n".to_owned())
        }
        _ => ("405 Method Not Allowed", "text/plain", "expected GET\n".to_owned()),
    };
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(answer.as_bytes()).await?;
    if method != b"HEAD" {
        stream.write_all(body.as_bytes()).await?;
    }
    stream.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_for_this_machine_unless_configured_otherwise() {
        assert_eq!(address("9464").expect("a port").to_string(), "127.0.0.1:9464");
        assert_eq!(address("localhost:1").expect("a name").to_string(), "127.0.0.1:1");
        assert_eq!(address("[::]:2").expect("IPv6").to_string(), "[::]:2");
        for wrong in ["", "x", "1.2.3.4", "70000", "host.example:1"] {
            assert!(address(wrong).is_err_and(|what| what.to_string().contains("expected PORT")), "{wrong}");
        }
    }

    #[tokio::test]
    async fn before_a_run_begins_its_status_reports_it() {
        let words = OutputWords { metrics: Some("0".into()), ..OutputWords::default() };
        let (mut broadcast, _) = Broadcast::prepare(&words).expect("there are ports");
        let (_tasks, address) = broadcast.serve().expect("it is served");
        let mut stream = TcpStream::connect(address.expect("an address")).await.expect("it listens");
        stream.write_all(b"GET /status.json HTTP/1.0\r\n\r\n").await.expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("it answers");
        let (_, body) = answer.split_once("\r\n\r\n").expect("a head");
        let run: serde_json::Value = serde_json::from_str(body).expect("JSON");
        assert_eq!(
            (&run["schema"], &run["title"]),
            (&"handfast-run/1".into(), &"not begun".into()),
            "{answer}"
        );
    }

    #[test]
    fn lines_are_whole_and_a_reader_that_is_gone_is_reported() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let words = OutputWords { live_json: Some(file.path().into()), ..OutputWords::default() };
        let (mut broadcast, closing) = Broadcast::prepare(&words).expect("it can be written");
        broadcast.begin(&Plan::default(), &Run::default());
        for second in 0..3 {
            broadcast.second(&Interval { second, ..Interval::default() }, &Run::default());
        }
        broadcast.end(None);
        closing.expect("something is written").wait().expect("it was");
        let text = std::fs::read_to_string(file.path()).expect("it is there");
        let kinds: Vec<String> = text
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON")["kind"].to_string())
            .collect();
        assert_eq!(kinds, ["\"begin\"", "\"second\"", "\"second\"", "\"second\"", "\"end\""]);

        let full = OutputWords { live_json: Some("/dev/full".into()), ..OutputWords::default() };
        let (mut broadcast, closing) = Broadcast::prepare(&full).expect("it can be opened");
        broadcast.begin(&Plan::default(), &Run::default());
        broadcast.end(None);
        let what = closing.expect("something is written").wait().expect_err("the disk is full").to_string();
        assert!(what.contains("write /dev/full: "), "{what}");
    }
}
