//! `handfast reload`, `reopen`, `drain` and `stop`: the effects of signals, requested at the admin address of one proxy, with an answer.
//!
//! In: the configuration of the proxy, or its admin address. Out: the proxy's answer, and whether the request succeeded. A signal by
//! name (`kill -HUP $(pidof handfast)`) reaches every process of the program; this request reaches only the proxy.

use std::fs::File;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use handfast_config::ConfigSource;
use handfast_pki::files::read_text;

use crate::status::{AdminAddress, Seen};
use crate::talk;
use crate::talk::color;
use crate::talk::print;
use crate::words::running::{CONFIGURATION, RunningWords};

/// The admin address of a proxy that was not configured otherwise.
pub(crate) const USUAL_ADDRESS: &str = "127.0.0.1:7643";
/// Timeout of an answer: a proxy answers a reload after 30 seconds at the latest.
const TIMEOUT: Duration = Duration::from_secs(35);
/// The intervals of checks and reports while a proxy stops.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
const REPORT_INTERVAL: Duration = Duration::from_secs(5);

/// Sends the request that the last component of `path` names, and prints the answer.
pub(crate) fn run_request(path: &str, words: &RunningWords) -> ExitCode {
    let status = match status_of(words) {
        Ok(status) => status,
        Err(code) => return code,
    };
    let response = token_of(words).and_then(|token| send_request(&status, token.as_ref(), "POST", path));
    match response {
        Ok(text) => print(&format!("{text}\n"), true),
        Err(code) => code,
    }
}

/// Asks for a drain and waits until the process has ended.
pub(crate) fn stop(words: &RunningWords) -> ExitCode {
    let status = match status_of(words) {
        Ok(status) => status,
        Err(code) => return code,
    };
    let token = match token_of(words) {
        Ok(token) => token,
        Err(code) => return code,
    };
    let process = process_of(&status);
    if let Err(code) = send_request(&status, token.as_ref(), "POST", "/drain")
        // It may have ended between the two.
        && (process.is_none() || process_of(&status) == process)
    {
        return code;
    }
    let mut reported = Instant::now();
    // A different process at this address is the successor.
    while process.is_some() && process_of(&status) == process {
        if reported.elapsed() >= REPORT_INTERVAL {
            reported = Instant::now();
            if let Err(why) = status.ready() {
                talk::err(&format!("waiting: {why}"));
            }
        }
        std::thread::park_timeout(POLL_INTERVAL);
    }
    print("stopped\n", true)
}

/// The process that answers; `None`: no answer.
fn process_of(status: &AdminAddress) -> Option<u32> {
    match status.seen().ok()? {
        Seen::Proxy(status) => Some(status.measured.process.pid),
        Seen::Run(_) => None,
    }
}

/// Asks a proxy. **Errors**: reported, with the exit code.
pub(crate) fn send_request(
    status: &AdminAddress,
    token: Option<&Token>,
    method: &str,
    path: &str,
) -> Result<String, ExitCode> {
    let wrong = |what: String| {
        talk::err(&format!("error: ask the proxy at {} for {path}: {what}", status.place()));
        ExitCode::FAILURE
    };
    let answer = status
        .request_with_token(token.map(String::as_str), method, path, TIMEOUT)
        .map_err(|error| wrong(format!("{error}\n  hint: is it running, with this [admin] listen?")))?;
    match answer.status {
        200..300 => Ok(answer.text()),
        _ => Err(wrong(answer.text())),
    }
}

/// The token that a proxy requires for changes.
pub(crate) type Token = String;

/// Bytes of its file.
const TOKEN_LIMIT: u64 = 4096;

/// Reads the token of a proxy; `None`: its configuration has none. **Errors**: reported, with the exit code.
pub(crate) fn token_of(words: &RunningWords) -> Result<Option<Token>, ExitCode> {
    let own = words.token_file.clone();
    // Where an address is given, a configuration might be that of another proxy.
    let configured = || {
        let source = ConfigSource::File(words.config.clone());
        source.read_beside(false).ok().and_then(|config| config.admin_token_file)
    };
    let Some(file) = own.or_else(|| words.address.is_none().then(configured).flatten()) else {
        return Ok(None);
    };
    match read_text(&file, TOKEN_LIMIT) {
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(error) => {
            let hint =
                "hint: run this as a user that can read the file, or give another one with --token-file";
            talk::err(&format!("error: read the token of the proxy: {}: {error}\n  {hint}", file.display()));
            Err(ExitCode::from(2))
        }
    }
}

/// Returns the admin address of the proxy. **Errors**: reported, with the exit code.
pub(crate) fn status_of(words: &RunningWords) -> Result<AdminAddress, ExitCode> {
    let wrong = |what: &str| {
        talk::err(what.trim_end());
        ExitCode::from(2)
    };
    let usual = (!is_there(&words.config)).then(|| USUAL_ADDRESS.to_owned());
    if let Some(address) = words.address.as_ref().or(usual.as_ref()) {
        return AdminAddress::parse(address).map_err(|problem| wrong(&format!("error: {problem}")));
    }
    match ConfigSource::File(words.config.clone()).admin_address(color()) {
        Ok(Some(address)) => Ok(AdminAddress::of(&address)),
        Ok(None) => Err(wrong(
            "error: ask the running proxy: admin.listen is \"off\", expected an address to ask\n  hint: signals do the same: HUP reloads, \
             USR1 opens the access log again, TERM drains and stops",
        )),
        Err(error) => Err(wrong(&error.problems)),
    }
}

/// Returns false for the configuration of packages where there is none, or this user cannot read it: then it was not typed, and the
/// request goes to the usual address.
pub(crate) fn is_there(config: &Path) -> bool {
    config != Path::new(CONFIGURATION) || File::open(config).is_ok()
}

/// A text as a part of a URL (RFC 3986 §2.3): what is not reserved stays.
pub(crate) fn encoded(text: &str) -> String {
    let encode = |byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}
