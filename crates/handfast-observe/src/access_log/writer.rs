//! The thread `access-log`: the only one that uses the sink, and the only one that the sink can block.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TryRecvError};
use std::time::{Duration, Instant, SystemTime};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::line;
use super::redaction::Redaction;
use super::syslog::Datagrams;
use super::thread_log::{Block, Message, ThreadLog, Totals};
use handfast_config::model::{self, LogFormat};

/// Blocks that may wait for the writer; with [`super::BLOCK_BYTES`] this bounds the memory of a stuck log to 4 MiB.
const QUEUE_BLOCKS: usize = 256;

/// Minimum interval at which the writer checks whether its file was deleted.
const DELETED_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
struct Flags {
    reopen: AtomicBool,
    stop: AtomicBool,
    abandoned: AtomicBool,
}

/// The running log, held by the control thread.
#[derive(Debug)]
pub struct AccessLogHandle {
    queue: Option<SyncSender<Message>>,
    format: LogFormat,
    redaction: Redaction,
    flags: Arc<Flags>,
    totals: Arc<Totals>,
    /// Closed when the writer's thread has ended.
    ended: Receiver<()>,
}

/// The state of the log at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// Lines the sink took, in all.
    pub written: u64,
    /// Lines lost, in all, those that still waited included.
    pub dropped: u64,
    /// True if the writer ended; otherwise it was blocked by the sink and abandoned.
    pub finished: bool,
}

/// Opens the log and starts its thread.
///
/// **Errors:** the file cannot be opened or created, no daemon listens at the socket, or the thread cannot be started.
pub fn start(log: &model::AccessLog) -> io::Result<AccessLogHandle> {
    match log {
        model::AccessLog::Off => Ok(AccessLogHandle {
            queue: None,
            format: LogFormat::default(),
            redaction: Redaction::default(),
            flags: Arc::default(),
            totals: Arc::default(),
            ended: mpsc::sync_channel(0).1,
        }),
        model::AccessLog::Stdout => start_on(io::stdout().as_fd().try_clone_to_owned()?.into(), None),
        model::AccessLog::File(path) => start_on(open(path)?, Some(path.clone())),
        model::AccessLog::Syslog(path) => start_with(Sink::Datagrams(Datagrams::syslog(path)?)),
        model::AccessLog::Journald(path) => start_with(Sink::Datagrams(Datagrams::journald(path)?)),
    }
}

/// Starts the thread on a sink that is open, and may be opened again by its path.
pub(super) fn start_on(file: File, path: Option<PathBuf>) -> io::Result<AccessLogHandle> {
    start_with(Sink::File(file, path))
}

fn start_with(sink: Sink) -> io::Result<AccessLogHandle> {
    let (queue, blocks) = mpsc::sync_channel(QUEUE_BLOCKS);
    let (end, ended) = mpsc::sync_channel(0);
    let (flags, totals) = (Arc::new(Flags::default()), Arc::new(Totals::default()));
    let writer = Writer::new(sink, Arc::clone(&flags), Arc::clone(&totals));
    std::thread::Builder::new().name("access-log".into()).spawn(move || {
        writer.run(&blocks);
        drop(end);
    })?;
    let (format, redaction) = (LogFormat::default(), Redaction::default());
    Ok(AccessLogHandle { queue: Some(queue), format, redaction, flags, totals, ended })
}

impl AccessLogHandle {
    /// With requests in this form; JSON otherwise.
    pub fn with_format(self, format: LogFormat) -> Self {
        Self { format, ..self }
    }

    /// Without the values of these parameters of queries.
    pub fn without_parameters(self, names: &[String]) -> Self {
        Self { redaction: Redaction::new(names), ..self }
    }

    /// A worker's own end of the log.
    pub fn for_thread(&self) -> ThreadLog {
        ThreadLog::new(self.queue.clone(), self.format, self.redaction.clone(), self.totals.for_thread())
    }

    /// Counters of the lines.
    pub fn totals(&self) -> Arc<Totals> {
        Arc::clone(&self.totals)
    }

    /// Opens the file again by its path, on the writer's thread; what was handed over before may go to either file.
    ///
    /// If that fails, the old file is kept and a warning has the reason.
    pub fn reopen(&self) {
        self.flags.reopen.store(true, Ordering::Release);
        self.wake();
    }

    /// Writes queued lines and ends the thread, or abandons it after this time. Workers flush before.
    pub fn stop(self, within: Duration) -> Stopped {
        self.flags.stop.store(true, Ordering::Release);
        self.wake();
        let finished = self.queue.is_none()
            || matches!(self.ended.recv_timeout(within), Err(RecvTimeoutError::Disconnected));
        self.flags.abandoned.store(true, Ordering::Release);
        let (written, dropped) = (self.totals.written(), self.totals.dropped() + self.totals.waiting());
        Stopped { written, dropped, finished }
    }

    fn wake(&self) {
        if let Some(queue) = &self.queue {
            // When the queue is full, the writer has something to wake it already; it looks at the flags after each block.
            let _ = queue.try_send(Message::Wake);
        }
    }
}

/// Non-blocking, because a named pipe without a reader would otherwise block the start.
fn open(path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o640)
        .custom_flags(flags.bits().cast_signed())
        .open(path)
}

enum Sink {
    /// A file with its path; standard output has none.
    File(File, Option<PathBuf>),
    /// A daemon at a unix socket.
    Datagrams(Datagrams),
}

struct Writer {
    sink: Sink,
    flags: Arc<Flags>,
    totals: Arc<Totals>,
    /// The last thing the sink took was half a line.
    torn: bool,
    /// Reason why the last write failed.
    problem: Option<String>,
    /// Lost lines that the log itself reports already.
    reported: u64,
    deleted_checked: Instant,
}

impl Writer {
    fn new(sink: Sink, flags: Arc<Flags>, totals: Arc<Totals>) -> Self {
        Self { sink, flags, totals, torn: false, problem: None, reported: 0, deleted_checked: Instant::now() }
    }

    fn run(mut self, blocks: &Receiver<Message>) {
        loop {
            let message = match blocks.try_recv() {
                Err(TryRecvError::Empty) if !self.flags.stop.load(Ordering::Acquire) => blocks.recv().ok(),
                message => message.ok(),
            };
            let Some(message) = message else { return };
            self.reopen_if_requested();
            if let Message::Block(block) = message {
                self.block(&block);
            }
        }
    }

    fn block(&mut self, block: &Block) {
        let result = self.report_losses().and_then(|()| self.write(&block.bytes));
        let complete = match &result {
            Ok(_) => block.lines,
            Err(failure) => count_lines(&block.bytes[..failure.taken]),
        };
        self.totals.written.add(complete);
        self.totals.failed.add(block.lines - complete);
        let problem = result.err().map(|failure| format!("write: {}", failure.error));
        match (&self.problem, &problem) {
            (Some(_), None) => tracing::info!("access log: writing works again"),
            (None, Some(problem)) => {
                tracing::warn!("access log: {problem}; lines are lost until it works again");
            }
            _ => {}
        }
        self.problem = problem;
    }

    /// Writes into the log how many lines it lacks at this place.
    fn report_losses(&mut self) -> Result<(), Failure> {
        let lost = self.totals.dropped();
        if lost == self.reported {
            return Ok(());
        }
        let because = self.problem.as_deref().unwrap_or("the log was slower than the connections");
        let mut notice = Vec::new();
        line::append_loss(&mut notice, SystemTime::now(), lost - self.reported, because);
        self.write(&notice).map_err(|failure| Failure { taken: 0, ..failure })?;
        self.reported = lost;
        Ok(())
    }

    /// Writes all of it, or reports how much the sink took.
    fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        if self.torn {
            self.write_from(b"\n").map_err(|failure| Failure { taken: 0, ..failure })?;
            self.torn = false;
        }
        let result = self.write_from(bytes);
        if let Err(failure) = &result {
            self.torn = failure.taken > 0 && bytes[failure.taken - 1] != b'\n';
        }
        result
    }

    fn write_from(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let mut taken = 0;
        while taken < bytes.len() {
            let written = match &mut self.sink {
                Sink::File(file, _) => file.write(&bytes[taken..]),
                Sink::Datagrams(datagrams) => datagrams.send_first(&bytes[taken..]),
            };
            let error = match written {
                Ok(0) => io::ErrorKind::WriteZero.into(),
                Ok(count) => {
                    taken += count;
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => error,
            };
            if error.kind() != io::ErrorKind::WouldBlock || self.flags.abandoned.load(Ordering::Acquire) {
                return Err(Failure { taken, error });
            }
            self.wait_until_writable();
        }
        Ok(())
    }

    fn wait_until_writable(&self) {
        let quarter_second = Timespec { tv_sec: 0, tv_nsec: 250_000_000 };
        // Whatever it returns, the next write shows the state.
        let sink = match &self.sink {
            Sink::File(file, _) => file.as_fd(),
            Sink::Datagrams(datagrams) => datagrams.as_fd(),
        };
        let _ = poll(&mut [PollFd::from_borrowed_fd(sink, PollFlags::OUT)], Some(&quarter_second));
    }

    /// Opens the file again on request, or when it was deleted and no reader can find it.
    fn reopen_if_requested(&mut self) {
        let is_requested = self.flags.reopen.swap(false, Ordering::AcqRel);
        let path = match &self.sink {
            Sink::File(_, Some(path)) => path.clone(),
            // A daemon is found again when it does not answer.
            Sink::File(_, None) | Sink::Datagrams(_) => return,
        };
        if !is_requested && !self.was_deleted() {
            return;
        }
        match open(&path) {
            Ok(file) => {
                self.sink = Sink::File(file, Some(path));
                self.torn = false;
            }
            Err(error) => {
                tracing::warn!("access log: reopen {}: {error}; the old file is kept", path.display());
            }
        }
    }

    fn was_deleted(&mut self) -> bool {
        if self.deleted_checked.elapsed() < DELETED_INTERVAL {
            return false;
        }
        self.deleted_checked = Instant::now();
        matches!(&self.sink, Sink::File(file, _) if file.metadata().is_ok_and(|file| file.nlink() == 0))
    }
}

struct Failure {
    /// Bytes that were taken.
    taken: usize,
    error: io::Error,
}

fn count_lines(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::OwnedFd;

    use super::*;

    fn block(lines: u64) -> Block {
        Block { bytes: "{\"line\":0}\n".repeat(lines as usize).into_bytes(), lines }
    }

    #[test]
    fn half_a_line_is_ended_before_the_next() {
        let (mut reader, writer) = io::pipe().expect("a pipe");
        rustix::io::ioctl_fionbio(&writer, true).expect("a pipe can be made non-blocking");
        rustix::io::ioctl_fionbio(&reader, true).expect("a pipe can be made non-blocking");
        let (flags, totals) = (Arc::new(Flags::default()), Arc::new(Totals::default()));
        let mut log = Writer::new(
            Sink::File(OwnedFd::from(writer).into(), None),
            Arc::clone(&flags),
            Arc::clone(&totals),
        );

        // More than the pipe takes, and the writer does not wait: what was taken ends in the middle of a line.
        flags.abandoned.store(true, Ordering::Release);
        log.block(&block(20_000));
        assert!(log.torn && log.problem.is_some());
        let (written, failed) = (totals.written(), totals.dropped());
        assert!(written > 0 && failed > 0 && written + failed == 20_000, "{written} + {failed}");

        let mut text = Vec::new();
        let _ = reader.read_to_end(&mut text);
        log.block(&block(2));
        assert!(!log.torn && log.problem.is_none());
        let _ = reader.read_to_end(&mut text);
        let text = String::from_utf8(text).expect("text");
        let whole = text.lines().filter(|line| *line == "{\"line\":0}").count() as u64;
        assert_eq!(whole, totals.written());
        let torn: Vec<_> = text.lines().filter(|line| !line.ends_with('}')).collect();
        assert_eq!(torn.len(), 1, "{torn:?}");
        assert!(text.contains(&format!("\"dropped_lines\":{failed},")), "the loss is said");
    }
}
