//! `handfast maintenance`: services of a running proxy whose requests are answered with 503.
//!
//! In: the configuration of the proxy, or its admin address. Out: the proxy's answer, or a line for each service.

use std::process::ExitCode;

use handfast_admin::{MaintenanceRefusal, Status};
use handfast_observe::metrics::ServiceSnapshot;
use handfast_text::duration;

use crate::running::{encoded, run_request, status_of};
use crate::status::Seen;
use crate::talk::{self, print};
use crate::words::maintenance::{MaintenanceWords, OffWords, OnWords, StatusWords};

pub(crate) fn maintenance(words: &MaintenanceWords) -> ExitCode {
    match words {
        MaintenanceWords::On(OnWords { service, allow, retry_after, running }) => {
            let mut path = format!("/maintenance/{}?state=on", encoded(service));
            if !allow.is_empty() {
                let allow: Vec<String> = allow.iter().map(ToString::to_string).collect();
                path.push_str(&format!("&allow={}", encoded(&allow.join(","))));
            }
            path.extend(
                retry_after.map(|wait| format!("&retry-after={}", encoded(&duration::written(wait)))),
            );
            run_request(&path, &running.running())
        }
        MaintenanceWords::Off(OffWords { service, running }) => {
            run_request(&format!("/maintenance/{}?state=off", encoded(service)), &running.running())
        }
        MaintenanceWords::Status(words) => status(words),
    }
}

fn status(StatusWords { service, running }: &StatusWords) -> ExitCode {
    let status = match status_of(&running.running()) {
        Ok(status) => status,
        Err(code) => return code,
    };
    let wrong = |what: &str| {
        talk::err(&format!("error: ask the proxy at {} for maintenance: {what}", status.place()));
        ExitCode::FAILURE
    };
    match status.seen() {
        Ok(Seen::Proxy(seen)) => match lines(&seen, service.as_deref()) {
            Ok(text) => print(&text, true),
            Err(refusal) => wrong(&refusal.to_string()),
        },
        Ok(Seen::Run(_)) => wrong("it is a run of `handfast load`, expected a proxy"),
        Err(error) => wrong(&format!("{error}\n  hint: is it running, with this [admin] listen?")),
    }
}

/// A line for each service in HTTP mode, or for this one.
fn lines(status: &Status, only: Option<&str>) -> Result<String, MaintenanceRefusal> {
    let services = || status.measured.services.iter().filter(|service| service.requests.is_some());
    let is_shown = |service: &&ServiceSnapshot| only.is_none_or(|only| service.name == only);
    let line = |service: &ServiceSnapshot| {
        let words = service.maintenance.as_ref().map(|maintenance| maintenance.in_words());
        format!("{}: {}\n", service.name, words.as_deref().unwrap_or("not in maintenance"))
    };
    let text: String = services().filter(is_shown).map(line).collect();
    match only {
        Some(service) if text.is_empty() => {
            let known = services().map(|service| service.name.clone()).collect();
            Err(MaintenanceRefusal::NoService { service: service.to_owned(), known })
        }
        _ if text.is_empty() => Ok("no service has `mode = \"http\"`\n".to_owned()),
        _ => Ok(text),
    }
}
