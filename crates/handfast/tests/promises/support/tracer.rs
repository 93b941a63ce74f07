//! The proxy's system calls, seen by strace: counted, or made to fail. In: a running proxy, and what to do with which calls.
//! Out: how often each was called, or how many were made to fail.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::OnceLock;

use rustix::process::Signal;

use super::deadline::{wait_until, wait_until_seeing};
use super::folder::Folder;
use super::process::Process;
use super::proxy::Proxy;
use super::tools::{self, Tool};

/// Reason why no process can be traced here; `None` when one can.
pub(crate) fn refusal() -> Option<String> {
    static REFUSAL: OnceLock<Option<String>> = OnceLock::new();
    let probe = || {
        let ran = tools::run("strace", &["-f", "-e", "inject=getppid:error=EINTR", "true"], b"");
        let output = ran.talk.lines().next().unwrap_or("refused").to_owned();
        (ran.code != Some(0)).then(|| format!("no process can be traced: {output}"))
    };
    REFUSAL.get_or_init(probe).clone()
}

/// Skips the calling test unless system calls can be traced.
macro_rules! needs_tracing {
    () => {{
        use handfast_testkit::{needs, skipped};
        needs!("strace");
        if let Some(reason) = $crate::support::tracer::refusal() {
            skipped!("{reason}");
        }
    }};
}

pub(crate) use needs_tracing;

/// strace at work on some threads of a proxy.
pub(crate) struct Tracer {
    strace: Tool,
    folder: Folder,
    process: Option<Process>,
}

/// System calls by name, and how often each was made.
pub(crate) type Calls = HashMap<String, u64>;

impl Tracer {
    /// Counts the calls of the proxy's workers; requests to its admin page cost calls of another thread.
    pub(crate) fn count(proxy: &Proxy) -> Self {
        Self::attach(proxy, &["-c".into(), "-U".into(), "name,calls".into()])
    }

    /// Makes calls of the proxy's threads fail: `what` is strace's own word for it (`connect:error=ENETUNREACH:when=1`); it
    /// counts each thread's calls by itself. Calls that name a path can be distinguished by it.
    pub(crate) fn inject(proxy: &Proxy, what: &str, path: Option<&str>) -> Self {
        let calls = what.split(':').next().expect("splitting gives at least one");
        let mut options = vec!["-e".into(), format!("trace={calls}"), "-e".into(), format!("inject={what}")];
        options.extend(path.into_iter().flat_map(|path| ["-P".into(), path.to_owned()]));
        // Threads that it starts later read files, too.
        options.push("-f".into());
        Self::attach(proxy, &options)
    }

    /// Lists these calls of one thread, each descriptor with its path, and does something to some of them: `inject` is as for [`Self::inject`].
    pub(crate) fn list(thread: u32, calls: &str, inject: Option<&str>) -> Self {
        let mut options = vec!["-y".to_owned(), "-e".into(), format!("trace={calls}")];
        options.extend(inject.into_iter().flat_map(|what| ["-e".into(), format!("inject={what}")]));
        Self::attach_to(&[thread], &options)
    }

    /// Holds every worker at its next wait for events, until [`Self::release`].
    pub(crate) fn hold(proxy: &Proxy) -> Self {
        let inject = "inject=epoll_wait,epoll_pwait,epoll_pwait2:delay_enter=600000000";
        Self::attach(proxy, &["-e".into(), inject.into()])
    }

    /// Holds threads at their next wait for another thread, until the end of the value; returns when all are held.
    pub(crate) fn hold_threads(threads: &[u32]) -> Self {
        let options = ["-e", "trace=futex", "-e", "inject=futex:delay_enter=600000000"];
        let tracer = Self::attach_to(threads, &options.map(str::to_owned));
        wait_until("the threads to wait", || {
            let text = tracer.text();
            // strace writes the beginning of a call when it holds it.
            (text.matches("futex(").count() >= threads.len()).then_some(())
        });
        tracer
    }

    /// Lets the threads go on.
    pub(crate) fn release(self) {
        drop(self.end());
    }

    fn attach(proxy: &Proxy, options: &[String]) -> Self {
        let workers = proxy.process().threads_named("worker");
        assert!(!workers.is_empty(), "the proxy has workers");
        let whole = options.iter().any(|option| option == "-f");
        let traced = if whole { vec![proxy.process().0] } else { workers };
        Self { process: Some(proxy.process()), ..Self::attach_to(&traced, options) }
    }

    fn attach_to(traced: &[u32], options: &[String]) -> Self {
        let folder = Folder::new();
        let mut arguments = vec!["-o".to_owned(), folder.file("calls").display().to_string()];
        arguments.extend_from_slice(options);
        let of_each = |thread: &u32| ["-p".to_owned(), thread.to_string()];
        arguments.extend(traced.iter().flat_map(of_each));
        let strace = Tool::start("strace", &arguments.iter().map(String::as_str).collect::<Vec<_>>());
        let attached = |line: &str| line.contains(" attached");
        wait_until_seeing(
            "strace to attach",
            || {
                (strace.talk.so_far().iter().filter(|line| attached(line)).count() >= traced.len())
                    .then_some(())
            },
            || strace.talk.so_far().join("\n"),
        );
        Self { strace, folder, process: None }
    }

    fn end(self) -> (PathBuf, Folder) {
        // strace answers this signal by leaving the threads alone.
        self.strace.process().signal(Signal::INT);
        self.strace.ended();
        (self.folder.file("calls"), self.folder)
    }

    /// Stops; what was counted.
    pub(crate) fn counted(self) -> Calls {
        let (file, _folder) = self.end();
        let text = std::fs::read_to_string(file).expect("strace wrote its counts");
        let row = |line: &str| {
            let (name, calls) = line.trim().split_once(char::is_whitespace)?;
            Some((name.to_owned(), calls.trim().parse().ok()?))
        };
        text.lines().filter_map(row).filter(|(name, _): &(String, u64)| name != "total").collect()
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.folder.file("calls")).unwrap_or_default()
    }

    /// Stops; what strace wrote, a line for each call.
    pub(crate) fn lines(self) -> Vec<String> {
        self.strace.process().signal(Signal::INT);
        self.lines_to_the_end()
    }

    /// As [`Self::lines`], when all threads have ended.
    pub(crate) fn lines_to_the_end(self) -> Vec<String> {
        self.strace.ended();
        let text = std::fs::read_to_string(self.folder.file("calls")).expect("strace wrote what it saw");
        text.lines().map(str::to_owned).collect()
    }

    /// Stops; how many calls were made to fail.
    ///
    /// strace replaces a call by one that does not exist and its result by the wanted error. A thread that it leaves between
    /// the two goes on with ENOSYS, so it is stopped while no thread is inside such a call.
    pub(crate) fn injected(self) -> usize {
        if let Some(process) = self.process {
            wait_until("every thread to wait", || process.is_asleep().then_some(()));
        }
        self.lines().iter().filter(|line| line.contains("(INJECTED)")).count()
    }
}
