//! Other people's programs: found, run with input and a deadline, and read. In: a command line. Out: what it wrote and its
//! exit code.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use crate::deadline::{thread, wait_until};
use crate::lines::Lines;
use crate::process::Process;

/// Folders of administrators' programs, which are not on an ordinary user's PATH in Debian.
const ALSO: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Oldest versions whose behaviour the tests expect (Debian 12's, or newer), with the argument that prints the version.
const OLDEST: [(&str, &str, &str); 13] = [
    ("caddy", "version", "2.11"),
    ("curl", "--version", "7.88"),
    ("gnutls-cli", "--version", "3.7"),
    ("h2load", "--version", "1.52"),
    ("haproxy", "-v", "2.6"),
    ("hitch", "--version", "1.7"),
    ("nats-server", "--version", "2.9"),
    ("nginx", "-v", "1.22"),
    ("openssl", "version", "3.0"),
    ("promtool", "--version", "2.42"),
    ("python3", "--version", "3.11"),
    ("strace", "--version", "6.1"),
    ("stunnel4", "-version", "5.68"),
];

/// The path of a program, if it is installed and not older than the tests expect.
pub fn find(program: &str) -> Option<PathBuf> {
    usable(program).ok()
}

/// The path of a program; or why tests cannot use it: it is not installed, or too old.
pub fn usable(program: &str) -> Result<PathBuf, String> {
    static FOUND: Mutex<BTreeMap<String, Result<PathBuf, String>>> = Mutex::new(BTreeMap::new());
    let mut found = FOUND.lock().expect("no test panics here");
    found.entry(program.to_owned()).or_insert_with(|| locate(program)).clone()
}

fn locate(program: &str) -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(ALSO.map(PathBuf::from));
    let mut paths = folders.map(|folder| folder.join(program));
    let path = paths.find(|path| path.is_file()).ok_or_else(|| format!("{program} is not installed"))?;
    let Some((_, argument, oldest)) = OLDEST.iter().find(|(name, ..)| *name == program) else {
        return Ok(path);
    };
    let output = Command::new(&path).arg(argument).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{program} cannot be run: {error}"))?;
    let text = [output.stdout, output.stderr].concat();
    let installed = version(&String::from_utf8_lossy(&text));
    let expected = version(oldest);
    if installed.is_some() && installed >= expected {
        return Ok(path);
    }
    let [installed, expected] = [installed, expected].map(|version| {
        let numbers = version.unwrap_or_default().iter().map(u32::to_string).collect::<Vec<_>>();
        numbers.join(".")
    });
    Err(format!("{program} is version {installed}, expected at least {expected}"))
}

/// The first version in a text: numbers with points between them.
fn version(text: &str) -> Option<Vec<u32>> {
    let words = text.split(|character: char| !character.is_ascii_digit() && character != '.');
    let numbers = |word: &str| word.split('.').map(|number| number.parse().ok()).collect::<Option<Vec<_>>>();
    words.filter_map(numbers).find(|numbers| numbers.len() > 1)
}

#[test]
fn programs_are_compared_by_version() {
    assert_eq!(version("OpenSSL 3.0.20 7 Apr 2026"), Some(vec![3, 0, 20]));
    assert_eq!(version("HAProxy version 2.6.12-1+deb12u3 2025/10/03"), Some(vec![2, 6, 12]));
    assert_eq!(version("2.11.4 h1:abc"), Some(vec![2, 11, 4]));
    assert_eq!(version("v2.11.4 h1:abc"), Some(vec![2, 11, 4]));
    assert_eq!(version("usage"), None);
    assert!(version("2.6.2") < version("2.11"));
}

/// A program that is being run.
pub struct Tool {
    child: Child,
    /// Its standard output.
    pub output: Lines,
    /// Its standard error.
    pub talk: Lines,
}

/// The outcome of a program.
#[derive(Debug)]
pub struct Ran {
    /// Its exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub output: String,
    /// Standard error.
    pub talk: String,
}

impl Ran {
    /// Both outputs, for a search or a message.
    pub fn all(&self) -> String {
        format!("{}\n{}", self.output, self.talk)
    }
}

impl Tool {
    /// Starts a program; its standard input stays open until [`Self::send_and_end`] or the end.
    pub fn start(program: &str, arguments: &[&str]) -> Self {
        let path = find(program).unwrap_or_else(|| panic!("{program} is not installed; ask needs! first"));
        let mut child = Command::new(path)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("run {program}: {error}"));
        let output = Lines::collect("standard output", child.stdout.take().expect("it is piped"));
        let talk = Lines::collect("standard error", child.stderr.take().expect("it is piped"));
        Self { child, output, talk }
    }

    /// Its process.
    pub fn process(&self) -> Process {
        Process(self.child.id())
    }

    /// Writes to its standard input, which stays open.
    pub fn send(&mut self, input: &[u8]) {
        let pipe = self.child.stdin.as_mut().expect("its input is still open");
        let _ = pipe.write_all(input).and_then(|()| pipe.flush());
    }

    /// Closes its standard input.
    pub fn end_input(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Returns true if it has ended, and all that it wrote was read.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("it is our child").is_some() && self.output.has_ended()
    }

    /// Waits for it to end.
    pub fn ended(mut self) -> Ran {
        self.end_input();
        let status = wait_until("a program to end", || self.child.try_wait().expect("it is our child"));
        // The collecting threads see the end of the pipes a moment later than we see the end of the process.
        crate::deadline::pause(Duration::from_millis(20));
        Ran {
            code: status.code(),
            output: self.output.so_far().join("\n"),
            talk: self.talk.so_far().join("\n"),
        }
    }
}

impl Drop for Tool {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a program on some input to its end.
pub fn run(program: &str, arguments: &[&str], input: &[u8]) -> Ran {
    let path = find(program).unwrap_or_else(|| panic!("{program} is not installed; ask needs! first"));
    run_command(Command::new(path).args(arguments), input)
}

/// Runs a command on some input to its end.
pub fn run_command(command: &mut Command, input: &[u8]) -> Ran {
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap_or_else(|error| panic!("run {command:?}: {error}"));
    let mut pipe = child.stdin.take().expect("it is piped");
    let input = input.to_vec();
    let writing = thread("input of a program", move || drop(pipe.write_all(&input)));
    let read = |mut source: Box<dyn Read + Send>| {
        thread("output of a program", move || {
            let mut bytes = Vec::new();
            let _ = source.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        })
    };
    let output = read(Box::new(child.stdout.take().expect("it is piped")));
    let talk = read(Box::new(child.stderr.take().expect("it is piped")));
    let status = wait_until(&format!("{command:?} to end"), || child.try_wait().expect("it is our child"));
    let _ = writing.join();
    Ran {
        code: status.code(),
        output: output.join().expect("reading does not panic"),
        talk: talk.join().expect("reading does not panic"),
    }
}

/// Has openssl make a certificate that signed itself, for this name, with a P-256 key; `more` are words of `openssl req`.
pub fn self_signed(name: &str, key: &str, certificate: &str, more: &[&str]) {
    let (subject, names) = (format!("/CN={name}"), format!("subjectAltName=DNS:{name}"));
    let words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30";
    let mut arguments: Vec<&str> = words.split(' ').collect();
    arguments.extend(["-subj", &subject, "-addext", &names, "-keyout", key, "-out", certificate]);
    arguments.extend(more);
    let ran = run("openssl", &arguments, b"");
    assert_eq!(ran.code, Some(0), "{ran:?}");
}
