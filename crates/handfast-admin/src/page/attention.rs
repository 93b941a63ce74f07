//! What an operator should know first: everything that is not as it should be, in sentences.

use std::time::Duration;

use super::findings::{self, NEARLY_FULL};
use super::format::{Urgency, counted, expiry, list_expiry, long, share_of, times};
use super::html::Html;
use crate::status::Status;
use handfast_observe::metrics::source_ports;

/// Time left to an OCSP response from which it is worth reporting: CAs sign them for days, and those who fetch them do so
/// when half of that is over.
const STAPLE_SOON: Duration = Duration::from_secs(86_400);

/// A box with all of it; a calm line when there is nothing.
pub(super) fn attention(html: &mut Html, status: &Status) {
    let findings = sorted_findings(status);
    if findings.is_empty() {
        html.raw("<p class=calm>Nothing needs attention.</p>");
        return;
    }
    html.raw("<section class=attention><h2>Needs attention</h2><ul>");
    for (urgency, sentence) in findings {
        html.raw("<li class=").raw(urgency.class()).raw(">").text(&sentence).raw("</li>");
    }
    html.raw("</ul>");
    if let Some(problem) = &status.measured.reload.last_problem {
        html.element("pre", problem);
    }
    html.raw("</section>");
}

/// Certificates and their files: those that are gone, those that expire, and their OCSP responses.
fn certificates(status: &Status, report: &mut dyn FnMut(Urgency, String)) {
    let measured = &status.measured;
    for problems in measured.file_problems.iter().filter(|problems| problems.removed > 0) {
        let files = counted(problems.removed, "certificate file");
        let service = &problems.service;
        report(
            Urgency::Soon,
            format!("Removed from {service}: {files}. What was in them is served on for a while."),
        );
    }
    for problems in measured.file_problems.iter().filter(|problems| problems.not_stapled > 0) {
        let (files, service) = (counted(problems.not_stapled, "OCSP response"), &problems.service);
        report(
            Urgency::Soon,
            format!(
                "Of {service} {files} cannot be used. The certificates are served; the log says what is wrong."
            ),
        );
    }
    for certificate in &measured.certificates {
        let left = certificate.staple_until.map(|until| until.duration_since(measured.process.now));
        if let Some(Ok(left)) = left.filter(|left| left.as_ref().is_ok_and(|left| *left < STAPLE_SOON)) {
            let (name, kind, service, left) =
                (&certificate.name, &certificate.kind, &certificate.service, long(left));
            report(
                Urgency::Soon,
                format!(
                    "The OCSP response of the {kind} certificate {name} of {service} expires in {left}: its renewal is late."
                ),
            );
        }
        let (urgency, words) = expiry(certificate.not_after, measured.process.now);
        if urgency > Urgency::Good {
            let (name, kind, service) = (&certificate.name, &certificate.kind, &certificate.service);
            report(urgency, format!("The {kind} certificate {name} of {service} {words}."));
        }
    }
    for list in &measured.revocation_lists {
        let (urgency, words) = list_expiry(list, measured.process.now);
        if urgency > Urgency::Good {
            let (issuer, service) = (&list.issuer, &list.service);
            report(urgency, format!("The revocation list of {issuer} (clients of {service}) {words}."));
        }
    }
}

/// The process that holds the private keys, where there is one.
fn key_process(status: &Status, report: &mut dyn FnMut(Urgency, String)) {
    let Some(keys) = status.measured.key_process else { return };
    if !keys.answers {
        let sentence =
            "The process that holds the private keys does not answer: handshakes that need a signature fail.";
        report(Urgency::Bad, sentence.into());
    }
    if keys.restarts > 0 {
        let often = times(keys.restarts);
        report(
            Urgency::Soon,
            format!("The process that holds the private keys was started again {often}: the log says why."),
        );
    }
}

/// All of it, the most urgent first.
pub(super) fn sorted_findings(status: &Status) -> Vec<(Urgency, String)> {
    let mut all = Vec::new();
    let mut report = |urgency: Urgency, sentence: String| all.push((urgency, sentence));
    let measured = &status.measured;
    if let Some(reason) = &status.not_ready_because {
        report(Urgency::Bad, format!("Not ready: {reason}."));
    }
    if measured.reload.last_problem.is_some() {
        let generation = measured.reload.generation.unwrap_or_default();
        let sentence = match measured.reload.left_out {
            true => {
                "Files cannot be used; what was read from them before stays in use. They are named below."
                    .into()
            }
            false => format!(
                "The last reload changed nothing; generation {generation} is served. Its problems are below."
            ),
        };
        report(Urgency::Bad, sentence);
    }
    key_process(status, &mut report);
    certificates(status, &mut report);
    for thread in &measured.threads {
        if thread.backing_off {
            report(
                Urgency::Bad,
                format!("{} accepts nothing for now: this machine is out of files or memory.", thread.name),
            );
        }
        if thread.panics > 0 {
            report(
                Urgency::Bad,
                format!(
                    "{}: {} lost to a fault of Handfast's own.",
                    thread.name,
                    counted(thread.panics, "connection")
                ),
            );
        }
    }
    if let Some(range) = measured.process.source_port_count() {
        for (backend, (ports, sources)) in source_ports(measured) {
            let all = range.saturating_mul(sources);
            if ports * 100 >= all * NEARLY_FULL {
                let share = share_of(ports, all);
                report(
                    Urgency::Bad,
                    format!(
                        "{share} of the source ports towards {backend} are in use: add an address (source) or a backend."
                    ),
                );
            }
        }
    }
    if let (Some(open), Some(max)) = (measured.process.open_files, measured.process.max_files)
        && open.saturating_mul(100) >= max.saturating_mul(NEARLY_FULL)
    {
        report(
            Urgency::Bad,
            format!("{} of the allowed file descriptors are open: raise LimitNOFILE.", share_of(open, max)),
        );
    }
    if measured.access_log_dropped > 0 {
        report(
            Urgency::Soon,
            format!("{} of the access log lost.", counted(measured.access_log_dropped, "line")),
        );
    }
    findings::add_findings(status, &mut all);
    all.sort_by_key(|(urgency, _)| std::cmp::Reverse(*urgency));
    all
}
