//! `handfast cache`: the caches of a running proxy.
//!
//! In: the configuration of the proxy, or its admin address. Out: a table, or the proxy's answer.

use std::process::ExitCode;

use handfast_observe::metrics::CacheSnapshot;
use handfast_text::size;
use handfast_text::units::counted;

use crate::running::{encoded, send_request, status_of, token_of};
use crate::status::Seen;
use crate::talk::{self, print};
use crate::words::cache::{CacheWords, ListWords, PurgeWords};
use crate::words::running::RunningWords;

pub(crate) fn cache(words: &CacheWords) -> ExitCode {
    match words {
        CacheWords::Stats(at) => stats(&at.running()),
        CacheWords::List(ListWords { prefix, limit, service, running }) => {
            let limit = limit.to_string();
            request_cache(
                "GET",
                &[("prefix", Some(prefix)), ("limit", Some(&limit)), ("service", service.as_ref())],
                &running.running(),
            )
        }
        CacheWords::Purge(PurgeWords { url, prefix, tag, service, running }) => {
            let what = [
                ("purge", url.as_ref()),
                ("prefix", prefix.as_ref()),
                ("tag", tag.as_ref()),
                ("service", service.as_ref()),
            ];
            request_cache("POST", &what, &running.running())
        }
    }
}

fn request_cache(method: &str, parameters: &[(&str, Option<&String>)], words: &RunningWords) -> ExitCode {
    let status = match status_of(words) {
        Ok(status) => status,
        Err(code) => return code,
    };
    let pair = |(name, value): &(&str, Option<&String>)| Some(format!("{name}={}", encoded((*value)?)));
    let query: Vec<String> = parameters.iter().filter_map(pair).collect();
    let response = token_of(words).and_then(|token| {
        send_request(&status, token.as_ref(), method, &format!("/cache?{}", query.join("&")))
    });
    match response {
        Ok(text) if text.is_empty() => print("no object\n", true),
        Ok(text) => print(&format!("{text}\n"), true),
        Err(code) => code,
    }
}

fn stats(words: &RunningWords) -> ExitCode {
    let status = match status_of(words) {
        Ok(status) => status,
        Err(code) => return code,
    };
    let wrong = |what: &str| {
        talk::err(&format!("error: ask the proxy at {} for its caches: {what}", status.place()));
        ExitCode::FAILURE
    };
    match status.seen() {
        Ok(Seen::Proxy(seen)) if seen.measured.caches.is_empty() => {
            wrong("it has none\n  hint: write [service.cache] into its configuration, and start it again")
        }
        Ok(Seen::Proxy(seen)) => {
            let caches = &seen.measured.caches;
            let text: String = caches.iter().map(text).collect();
            match print(&text, true) {
                ExitCode::SUCCESS if caches.iter().any(|cache| cache.problem.is_some()) => ExitCode::FAILURE,
                code => code,
            }
        }
        Ok(Seen::Run(_)) => wrong("it is a run of `handfast load`, expected a proxy"),
        Err(error) => wrong(&format!("{error}\n  hint: is it running, with this [admin] listen?")),
    }
}

fn text(cache: &CacheSnapshot) -> String {
    let CacheSnapshot {
        service,
        folder,
        objects,
        disk_bytes,
        disk_bytes_limit,
        requests,
        confirmed,
        changes,
        ..
    } = cache;
    let objects = counted(*objects, "object");
    let (has, most) = (size::written(*disk_bytes), size::written(*disk_bytes_limit));
    let mut text = format!("service {service}, in {folder}: {objects}, {has} of {most}\n");
    if let Some(problem) = &cache.problem {
        text.push_str(&format!("  does not work: {problem}\n"));
    }
    if cache.is_indexing {
        text.push_str("  what is in its folder is still read\n");
    }
    if cache.undeleted > 0 {
        let objects = counted(cache.undeleted, "object");
        text.push_str(&format!("  the files of {objects} could not be deleted; it is tried again\n"));
    }
    let list = |counts: &mut dyn Iterator<Item = (&String, &u64)>| {
        let named: Vec<String> =
            counts.filter(|(_, count)| **count > 0).map(|(word, count)| format!("{word} {count}")).collect();
        if named.is_empty() { "none".to_owned() } else { named.join(", ") }
    };
    text.push_str(&format!("  requests: {}\n", list(&mut requests.iter())));
    text.push_str(&format!("  objects: {}, confirmed {confirmed}\n", list(&mut changes.iter())));
    text
}
