//! Plan of both sides of each request, and the checks that follow.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use handfast_leg::memory::dice;
use handfast_leg::memory::tasks::InMemory;
use handfast_leg::runtime::Runtime;
use handfast_net::clock::Moment;
use handfast_observe::metrics::{RequestSnapshot, StatusClass};

use super::stage::Versions;

/// The field of every trailer section.
pub(super) const TRAILER: &str = "x-sum";

/// Failure at the backend of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BackendFault {
    None,
    /// The response breaks at this byte of its content: by a reset …
    Reset(usize),
    /// … or by an end.
    End(usize),
    /// More bytes follow the response, and the connection stays open.
    Garbage,
    BadHead,
    Silent,
    /// The connection is closed after the response, which did not announce it.
    ClosesAfter,
    /// The first attempt gets no answer if its connection was used before; in HTTP/2 it is refused.
    ClosesKept,
    /// Every attempt is treated so.
    AlwaysCloses,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    Length,
    Chunked,
    UntilClose,
}

/// Event on the client's connection, or a stop of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Whole,
    Cut(Duration),
    /// Both ends receive a FIN that neither has sent.
    Forged(Duration),
    /// The program was asked to stop before the first byte came.
    Drains,
}

#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) method: &'static str,
    pub(super) is_http10: bool,
    pub(super) upload: usize,
    pub(super) is_chunked: bool,
    pub(super) expects: bool,
    /// The client leaves at this byte of the content.
    pub(super) leaves: Option<usize>,
    pub(super) status: u16,
    pub(super) framing: Framing,
    pub(super) download: usize,
    pub(super) interim: usize,
    /// The response comes before the content was read.
    pub(super) is_early: bool,
    pub(super) fault: BackendFault,
}

impl Plan {
    fn new(below: &mut impl FnMut(usize) -> usize) -> Self {
        let method = ["GET", "GET", "GET", "POST", "POST", "PUT", "HEAD", "QUERY"][below(8)];
        let has_content = matches!(method, "POST" | "PUT");
        let mut size = || match below(12) {
            0 => 0,
            1 => below(200_000),
            2 | 3 => below(30_000),
            _ => below(2_000),
        };
        let (upload, download) = (if has_content { size() } else { 0 }, size());
        let status = [200, 200, 200, 200, 200, 204, 304, 404][below(8)];
        let download = if matches!(status, 204 | 304) { 0 } else { download };
        let fault = match below(24) {
            0 if download > 0 && method != "HEAD" => BackendFault::Reset(below(download)),
            1 if download > 0 && method != "HEAD" => BackendFault::End(below(download)),
            2 | 3 => BackendFault::Garbage,
            4 => BackendFault::BadHead,
            5 => BackendFault::Silent,
            6 | 7 => BackendFault::ClosesAfter,
            8 | 9 => BackendFault::ClosesKept,
            10 => BackendFault::AlwaysCloses,
            _ => BackendFault::None,
        };
        let is_cut = matches!(fault, BackendFault::Reset(_) | BackendFault::End(_));
        let framing = match below(5) {
            // Where its end is the end of the connection, nothing shows that it is not whole.
            0 if !is_cut => Framing::UntilClose,
            1 | 2 => Framing::Chunked,
            _ => Framing::Length,
        };
        Self {
            method,
            is_http10: below(12) == 0,
            upload,
            is_chunked: below(2) == 0,
            expects: upload > 0 && below(6) == 0,
            leaves: (below(20) == 0).then(|| below(upload + 1)),
            status,
            framing,
            download,
            interim: if below(6) == 0 { 1 + below(2) } else { 0 },
            is_early: upload > 0 && below(8) == 0,
            fault,
        }
    }

    pub(super) fn has_no_content(&self) -> bool {
        self.method == "HEAD" || matches!(self.status, 204 | 304)
    }

    /// Bytes of content that the client must receive.
    pub(super) fn content(&self) -> usize {
        if self.has_no_content() { 0 } else { self.download }
    }

    fn is_idempotent(&self) -> bool {
        self.method != "POST"
    }
}

/// Outcome of a request for its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The backend's response, to its last byte.
    Whole,
    /// An error of the proxy, with this number of bytes.
    Own(u16, usize),
    Aborted,
    /// It was not sent, or its client has left.
    Unsent,
}

/// Observations of a backend about a request.
#[derive(Clone, Copy, Debug)]
struct Sight {
    /// Garbage was sent on the connection before.
    is_dirty: bool,
}

/// One schedule.
#[derive(Debug)]
pub(super) struct Play {
    pub(super) versions: Versions,
    pub(super) seed: u64,
    pub(super) room: usize,
    pub(super) plans: Vec<Plan>,
    /// Requests of each client's connection.
    pub(super) clients: Vec<Vec<usize>>,
    pub(super) pipelines: bool,
    /// The client ends its direction behind its last request.
    pub(super) half_closes: bool,
    pub(super) fate: Fate,
    sights: RefCell<Vec<Vec<Sight>>>,
    outcomes: RefCell<Vec<Option<Outcome>>>,
    /// Contents that a backend received to their end.
    uploads: RefCell<Vec<bool>>,
    /// The moment at which each client sent its request, and the duration to its response.
    began: RefCell<Vec<Option<Moment>>>,
    took: RefCell<Vec<Option<Duration>>>,
}

impl Play {
    pub(super) fn new(seed: u64, versions: Versions) -> Self {
        let mut dice = dice(seed ^ 0x7265_7175);
        let mut below = move |limit: usize| dice() as usize % limit;
        let count = 1 + below(6);
        let plans: Vec<_> = (0..count).map(|_| Plan::new(&mut below)).collect();
        let mut clients = vec![Vec::new(); 1 + below(3)];
        for id in 0..count {
            let client = below(clients.len());
            clients[client].push(id);
        }
        clients.retain(|ids| !ids.is_empty());
        let largest = plans.iter().map(|plan| plan.upload.max(plan.download)).max().unwrap_or(0);
        let moment = Duration::from_nanos(100 * below(400) as u64);
        let fate = match below(10) {
            0 => Fate::Cut(moment),
            1 => Fate::Forged(moment),
            2 => Fate::Drains,
            _ => Fate::Whole,
        };
        Self {
            versions,
            seed,
            room: 200 + largest / 20 + below(20_000),
            sights: RefCell::new(vec![Vec::new(); count]),
            outcomes: RefCell::new(vec![None; count]),
            uploads: RefCell::new(vec![false; count]),
            began: RefCell::new(vec![None; count]),
            took: RefCell::new(vec![None; count]),
            plans,
            clients,
            pipelines: below(3) == 0,
            half_closes: below(6) == 0,
            fate,
        }
    }

    /// The path of a request: unique in all schedules.
    pub(super) fn path(&self, id: usize) -> String {
        format!("/{}/{id}", self.seed)
    }

    /// The request of a path.
    pub(super) fn id(&self, path: &str) -> usize {
        let rest = path.strip_prefix(&format!("/{}/", self.seed));
        rest.and_then(|id| id.parse().ok()).expect("a path of this schedule")
    }

    /// A backend received a head: the number of times that it did.
    pub(super) fn saw(&self, id: usize, is_dirty: bool) -> usize {
        let mut sights = self.sights.borrow_mut();
        sights[id].push(Sight { is_dirty });
        sights[id].len()
    }

    pub(super) fn seen_paths(&self) -> impl Iterator<Item = String> {
        let sights = self.sights.borrow();
        let seen: Vec<_> = (0..self.plans.len()).filter(|id| !sights[*id].is_empty()).collect();
        seen.into_iter().map(|id| self.path(id))
    }

    /// The trailer of one direction: no two have the same.
    pub(super) fn trailer(&self, id: usize, is_response: bool) -> String {
        format!("{id}-{is_response}")
    }

    /// The trailer that a request has.
    pub(super) fn upload_trailer(&self, id: usize) -> Option<String> {
        let plan = &self.plans[id];
        let is_chunked = plan.is_chunked && (self.versions.client_h2 || !plan.is_http10);
        let has_content = matches!(plan.method, "POST" | "PUT");
        (is_chunked && has_content).then(|| self.trailer(id, false))
    }

    /// The trailer that its response has.
    pub(super) fn download_trailer(&self, id: usize) -> Option<String> {
        let plan = &self.plans[id];
        let is_chunked = plan.framing == Framing::Chunked && !plan.has_no_content();
        is_chunked.then(|| self.trailer(id, true))
    }

    pub(super) fn uploaded(&self, id: usize, (bytes, trailer): (usize, Option<String>)) {
        assert_eq!(trailer, self.upload_trailer(id), "the trailer of request {id}: {:?}", self.plans[id]);
        assert_eq!(bytes, self.plans[id].upload, "request {id} ended cleanly with another length");
        assert!(self.plans[id].leaves.is_none(), "request {id} was cut off by its client, and has ended");
        self.uploads.borrow_mut()[id] = true;
    }

    /// A client sends a request that waits for no other one.
    pub(super) fn mark_begun(&self, id: usize) {
        self.began.borrow_mut()[id] = Some(InMemory::now());
    }

    /// Paths of requests whose clients received a whole response, and how long that took.
    pub(super) fn durations(&self) -> Vec<(String, Duration)> {
        let took = self.took.borrow();
        took.iter().enumerate().filter_map(|(id, took)| Some((self.path(id), (*took)?))).collect()
    }

    pub(super) fn ended(&self, id: usize, outcome: Outcome) {
        if matches!(outcome, Outcome::Whole | Outcome::Own(..)) {
            let began = self.began.borrow()[id];
            self.took.borrow_mut()[id] = began.map(|began| InMemory::now().since(began));
        }
        let before = self.outcomes.borrow_mut()[id].replace(outcome);
        assert_eq!(before, None, "request {id} ended twice");
    }

    /// Content number `id` of one direction: no two have the same bytes.
    pub(super) fn check(&self, id: usize, is_response: bool, at: usize, bytes: &[u8]) {
        for (offset, found) in bytes.iter().enumerate() {
            let expected = byte(id, is_response, at + offset);
            assert_eq!(*found, expected, "byte {} of content {id}, response: {is_response}", at + offset);
        }
    }

    pub(super) fn content(&self, id: usize, is_response: bool, length: usize) -> Vec<u8> {
        (0..length).map(|index| byte(id, is_response, index)).collect()
    }

    /// Returns true if nothing can have kept this request from its response.
    fn must_be_whole(&self, id: usize) -> bool {
        let plan = &self.plans[id];
        // A trailer that was read is with the attempt that failed.
        let is_empty = plan.upload == 0 && self.upload_trailer(id).is_none();
        let is_repeatable = plan.is_idempotent() && is_empty;
        let is_refused = plan.fault == BackendFault::ClosesKept && self.versions.backend_h2 && is_empty;
        let is_answered = match plan.fault {
            BackendFault::None | BackendFault::Garbage | BackendFault::ClosesAfter => true,
            BackendFault::ClosesKept => is_repeatable || is_refused,
            _ => false,
        };
        let spoils = |plan: &Plan| plan.fault == BackendFault::Garbage;
        let closes = |plan: &Plan| {
            !matches!(plan.fault, BackendFault::None | BackendFault::Silent) || plan.leaves.is_some()
        };
        // In HTTP/2, what happens to a request stays with its stream.
        let is_alone = self.versions.backend_h2
            || (!self.plans.iter().any(spoils) && (is_repeatable || !self.plans.iter().any(closes)));
        let is_first = self.clients.iter().any(|ids| ids.first() == Some(&id));
        let is_awaited = match self.fate {
            Fate::Whole => true,
            // An HTTP/2 client is asked to leave at once, and knows that what it did not send was not processed.
            Fate::Drains => is_first && !self.versions.client_h2,
            _ => false,
        };
        is_answered && is_alone && plan.leaves.is_none() && !plan.is_early && is_awaited
    }

    /// Checks that the counters of this schedule agree with the outcomes of its clients.
    pub(super) fn judge_counts(&self, [before, after]: [&RequestSnapshot; 2]) {
        // Both ends took a forged end for one of the other's.
        if matches!(self.fate, Fate::Forged(_)) {
            return;
        }
        let mut seen: BTreeMap<&str, u64> = BTreeMap::new();
        let (mut unknown, mut to_clients, mut from_clients) = (0, 0, 0);
        for (plan, outcome) in self.plans.iter().zip(self.outcomes.borrow().iter()) {
            let (status, bytes) = match outcome {
                Some(Outcome::Whole) => (plan.status, plan.content()),
                Some(Outcome::Own(status, bytes)) => (*status, *bytes),
                _ => {
                    unknown += 1;
                    continue;
                }
            };
            *seen.entry(StatusClass::of(Some(status)).name()).or_default() += 1;
            to_clients += bytes as u64;
            let is_read = *outcome == Some(Outcome::Whole) && !plan.is_early;
            from_clients += if is_read { plan.upload as u64 } else { 0 };
        }
        let counted = |class: &str| {
            let of = |snapshot: &RequestSnapshot| snapshot.by_status.get(class).copied().unwrap_or_default();
            of(after) - of(before)
        };
        let classes = StatusClass::ALL.iter().map(|class| class.name());
        let others: u64 =
            classes.map(|class| counted(class) - seen.get(class).copied().unwrap_or_default()).sum();
        assert!(others <= unknown, "{others} more requests were counted than clients have sent");
        let (sent, received) = (
            after.bytes_to_client - before.bytes_to_client,
            after.bytes_from_client - before.bytes_from_client,
        );
        assert!(sent >= to_clients && (unknown > 0 || sent == to_clients), "{sent}, and not {to_clients}");
        let most: usize = self.plans.iter().map(|plan| plan.upload).sum();
        assert!(
            (from_clients..=most as u64).contains(&received),
            "{received}, and not {from_clients} to {most}"
        );
        assert!(after.open.values().all(|open| *open == 0), "a request is open for ever: {:?}", after.open);
    }

    /// Checks what must hold in every schedule; content was compared when it came.
    pub(super) fn judge(&self) {
        let (sights, outcomes) = (self.sights.borrow(), self.outcomes.borrow());
        for (id, plan) in self.plans.iter().enumerate() {
            let outcome = outcomes[id].unwrap_or_else(|| panic!("request {id} has no end"));
            let seen = &sights[id];
            // A stream that was refused was not processed.
            let may_repeat = plan.is_idempotent() || self.versions.backend_h2;
            assert!(seen.len() <= 1 + usize::from(may_repeat), "request {id} was sent {} times", seen.len());
            if self.must_be_whole(id) && outcome != Outcome::Unsent {
                assert_eq!(outcome, Outcome::Whole, "request {id}: {plan:?}");
            }
            if outcome == Outcome::Whole {
                assert!(!seen.is_empty(), "request {id} was answered by no backend");
                let is_dirty = seen.len() == 1 && seen[0].is_dirty;
                assert!(
                    !is_dirty,
                    "request {id} was served on a connection with bytes that belong to no response"
                );
                let was_read = self.uploads.borrow()[id];
                assert!(was_read || plan.is_early, "request {id} was answered before its content had come");
            }
        }
    }
}

/// Byte number `index` of a content.
fn byte(id: usize, is_response: bool, index: usize) -> u8 {
    let salt = (id as u8).wrapping_mul(37) ^ if is_response { 0x80 } else { 0 };
    (index as u8).wrapping_mul(31) ^ (index >> 8) as u8 ^ salt
}
