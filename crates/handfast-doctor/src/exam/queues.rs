//! Connections that wait to be accepted: how full the queues are, how often one overflowed, SYN cookies.
//!
//! In: listening sockets, the kernel's counters before and after the interval. Out: findings.

use handfast_text::units::{count, counted, share_of};

use super::Exam;
use crate::report::{Finding, Severity};
use crate::sockets::State;

/// A burst of connections that a queue should hold between two iterations of the program's event loop.
const MIN_QUEUE: u64 = 1_024;
/// Shares of a queue from which on it is a finding.
const WARNING_SHARE: f64 = 0.5;
const NOW: f64 = 0.9;

pub(super) fn examine(exam: &mut Exam<'_>) {
    if exam.now.is_empty() {
        exam.report.not_seen("lost connections (ListenOverflows, SYN cookies)", "no /proc/net/netstat here");
    }
    let most = exam.machine.number("net.core.somaxconn");
    match most {
        None => exam.report.not_seen("the greatest backlog", "no /proc/sys/net/core/somaxconn here"),
        Some(most) => limit(exam, most),
    }
    full_queues(exam, most);
    overflows(exam);
    cookies(exam);
}

fn limit(exam: &mut Exam<'_>, most: u64) {
    let sentence = format!("at most {} of a listener wait to be accepted (net.core.somaxconn)", count(most));
    exam.report.fact("accept queue", sentence);
    if most < MIN_QUEUE {
        let title = format!("net.core.somaxconn is {}", count(most));
        let consequence = format!(
            "a burst of more than {} new connections between two turns of a program loses the others, whatever backlog it \
             asks for; those clients wait 1 s and more until they try again",
            count(most)
        );
        exam.report.find(
            Finding::warning("somaxconn", title, consequence)
                .change("sysctl -w net.core.somaxconn=4096")
                .change("then restart the programs that listen: the limit counts when listen is called"),
        );
    }
}

/// Queues that are full, or nearly full, now.
fn full_queues(exam: &mut Exam<'_>, most: Option<u64>) {
    let Some(sockets) = &exam.sockets else { return };
    let mut full = Vec::new();
    for listener in sockets.iter().filter(|socket| socket.state == State::Listen) {
        let waiting = u64::from(listener.receive_queue);
        // /proc/net/tcp does not contain the backlog; it is at most the limit.
        let backlog = if listener.send_queue > 0 { Some(u64::from(listener.send_queue)) } else { most };
        let Some(backlog) = backlog.filter(|backlog| *backlog > 0) else { continue };
        let share = waiting as f64 / backlog as f64;
        if waiting == 0 || share < WARNING_SHARE {
            continue;
        }
        let severity = if share >= NOW { Severity::Critical } else { Severity::Warning };
        let title = format!(
            "accept queue of {}: {} of {} connections wait ({})",
            listener.local,
            count(waiting),
            count(backlog),
            share_of(waiting, backlog)
        );
        let consequence = "its program does not accept as fast as clients come; when the queue is full, new connections are \
                           dropped without a word, and clients try again after 1, 3, 7 … seconds";
        let finding = Finding::new(severity, "accept-queue", title, consequence)
            .because(format!(
                "the queue holds min(backlog of listen, net.core.somaxconn) = {}; the kernel drops a connection when more wait",
                count(backlog)
            ))
            .change(format!("find the listening program: ss -ltnp 'sport = :{}'", listener.local.port()))
            .change("handfast doctor --pid PID, for threads that are always busy or blocked in a system call");
        full.push(finding);
    }
    exam.report.findings.extend(full);
}

/// Lost connections.
fn overflows(exam: &mut Exam<'_>) {
    let overflow = exam.counted_loss(&["ListenOverflows"], "accept-queue", |counted| {
        let title = format!("accept queues overflowed: {counted} (ListenOverflows)");
        let consequence = "each is a client's connection that was dropped although the machine was up; it waits 1 s and more \
                           until it tries again";
        (title, consequence.to_owned())
    });
    let most = exam.machine.number("net.core.somaxconn").unwrap_or(0);
    if let Some(finding) = overflow {
        let drops = exam.now.get("ListenDrops").saturating_sub(exam.now.get("ListenOverflows"));
        let arithmetic = format!(
            "ListenDrops {} = ListenOverflows {} + {} for other reasons; {:.1} overflows a second now",
            count(exam.now.get("ListenDrops")),
            count(exam.now.get("ListenOverflows")),
            count(drops),
            exam.rate("ListenOverflows"),
        );
        exam.report.find(
            finding
                .because(arithmetic)
                .change("which queue is full, while it happens: ss -ltn (Recv-Q at Send-Q)")
                .change(format!(
                    "a larger backlog in that program, up to net.core.somaxconn ({})",
                    count(most)
                )),
        );
    }
}

fn cookies(exam: &mut Exam<'_>) {
    if exam.machine.number("net.ipv4.tcp_syncookies") == Some(0) {
        let consequence =
            "half-open connections of a SYN flood fill the queue, and no other client can connect";
        exam.report.find(
            Finding::warning("syn-cookies", "net.ipv4.tcp_syncookies is 0", consequence)
                .change("sysctl -w net.ipv4.tcp_syncookies=1"),
        );
    }
    let backlog = exam.machine.number("net.ipv4.tcp_max_syn_backlog").unwrap_or(0);
    let sent = exam.counted_loss(&["TCPReqQFullDoCookies", "TCPReqQFullDrop"], "syn-cookies", |how_many| {
        let title = format!("the queue of half-open connections was full: {how_many}");
        let consequence = "either a SYN flood, or handshakes of TCP that take long; a connection made by a SYN cookie has no \
                           window scaling without time stamps, and where cookies are off it is dropped";
        (title, consequence.to_owned())
    });
    if let Some(finding) = sent {
        let arithmetic = format!(
            "{} answered by a cookie, {} dropped; tcp_max_syn_backlog is {}, and a listener's own backlog bounds it too",
            counted(exam.now.get("TCPReqQFullDoCookies"), "SYN"),
            count(exam.now.get("TCPReqQFullDrop")),
            count(backlog)
        );
        exam.report.find(
            finding.because(arithmetic).change("find their senders: ss -tn state syn-recv").change(format!(
                "sysctl -w net.ipv4.tcp_max_syn_backlog={}",
                backlog.max(2048).saturating_mul(2)
            )),
        );
    }
}
