//! Thread-local variables for data that rustls does not pass on.
//!
//! rustls calls resolvers, verifiers, ticketers and cipher suites in the middle of a step, and gives them no connection in which
//! to leave a value. It calls them on the thread that runs the step, before the step returns. So the caller of a step clears
//! the variables before the step ([`begin_step`]) and reads them after it; then no value is of another connection.
//! These ten are all such variables of this crate; the other variables of threads are caches.
//!
//! | from | to | what | until rustls |
//! |---|---|---|---|
//! | the resolver | the server's session, the compressor | [`Selected`] | says with which certificate it signed |
//! | verifiers | `error_words.rs` | [`Refusal`] | takes an alert with a verifier's own error |
//! | the verifier of client certificates | the server's session | [`ShownCertificate`] | keeps a certificate that was refused |
//! | the ticketer | the server's session | [`OpenedTickets`] | lets a ticketer refuse the handshake |
//! | the server's session | the ticketer | the number of tickets left | has a number of tickets for resumed sessions |
//! | the server's session | the hash of a suite | [`ReplacedHello`] | accepts the hellos that `server/opening.rs` replaces |
//! | the AEAD of a suite | the server's session | [`TrialKey`] | skips early data as RFC 9846 §4.3.10 says |
//! | the verifier of servers | the client's session | the signature's scheme | says how a server signed |
//! | the pool of tickets | the client's session | the version of the session that it gave | says whether it took one |
//! | the pool of tickets | the client's session | the number of TLS 1.2 sessions that came | counts them as it counts tickets |

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use crate::policy::trial_key::TrialKey;
use handfast_pki::ShownCertificate;
use handfast_pki::compressed::Compressed;
use handfast_pki::names::Names;
use handfast_pki::presented::Refusal;

thread_local! {
    static SELECTION: RefCell<Option<Selected>> = const { RefCell::new(None) };
    static REFUSAL: RefCell<Option<Refusal>> = const { RefCell::new(None) };
    static REFUSED_CERTIFICATE: Cell<Option<Box<ShownCertificate>>> = const { Cell::new(None) };
    static OPENED_TICKETS: Cell<OpenedTickets> = const { Cell::new(OpenedTickets::None) };
    static TICKETS_LEFT: Cell<Option<u8>> = const { Cell::new(None) };
    static REPLACED_HELLO: RefCell<Option<Arc<ReplacedHello>>> = const { RefCell::new(None) };
    static SERVER_SCHEME: Cell<u16> = const { Cell::new(0) };
    static GIVEN_VERSION: Cell<u16> = const { Cell::new(0) };
    static TLS12_SESSIONS: Cell<usize> = const { Cell::new(0) };
    static TRIAL_KEY: RefCell<TrialKeySlot> = const { RefCell::new(TrialKeySlot::Unused) };
}

/// Clears what a step of a server's session could leave.
pub(crate) fn begin_step() {
    drop(last_selection());
    drop(take_refused_certificate());
    set_opened_tickets(OpenedTickets::None);
    limit_tickets(None);
}

/// Notes the scheme in which a server signed.
pub(crate) fn set_server_scheme(scheme: u16) {
    SERVER_SCHEME.set(scheme);
}

/// Takes, and clears, the scheme in which a server signed last on this thread.
pub(crate) fn take_server_scheme() -> Option<u16> {
    Some(SERVER_SCHEME.take()).filter(|scheme| *scheme != 0)
}

/// Notes that a session of this version was given to a connection that begins.
pub(crate) fn set_given_version(version: u16) {
    GIVEN_VERSION.set(version);
}

/// Takes, and clears, the version of the session that was given last on this thread.
pub(crate) fn take_given_version() -> Option<u16> {
    Some(GIVEN_VERSION.take()).filter(|version| *version != 0)
}

/// Notes that a server gave a session of TLS 1.2.
pub(crate) fn count_tls12_session() {
    TLS12_SESSIONS.set(TLS12_SESSIONS.get().wrapping_add(1));
}

/// Returns the number of TLS 1.2 sessions ever issued on this thread.
pub(crate) fn tls12_sessions() -> usize {
    TLS12_SESSIONS.get()
}

/// Last choice of the resolver on this thread.
#[derive(Clone, Debug)]
pub struct Selected {
    /// Kind of the key that signs: `RSA-2048`, `ECDSA-P256`, ….
    pub kind: &'static str,
    /// The names of the certificate.
    pub names: Arc<Names>,
    /// The requested name, in lower case.
    pub server_name: Option<Box<str>>,
    /// Its compressed messages, where these are smaller.
    pub(crate) compressed: Option<Arc<Compressed>>,
}

/// Takes, and clears, what the resolver chose last on this thread.
///
/// rustls calls the resolver before it looks at tickets: when a session was resumed, the answer is what *would* have signed.
pub fn last_selection() -> Option<Selected> {
    SELECTION.take()
}

/// Calls `read` with what the resolver chose last on this thread; `None`: nothing.
pub(crate) fn with_selection<T>(read: impl FnOnce(&Selected) -> Option<T>) -> Option<T> {
    SELECTION.with_borrow(|selected| selected.as_ref().and_then(read))
}

/// Notes what the resolver chose.
pub(crate) fn set_selection(selected: Option<Selected>) {
    SELECTION.set(selected);
}

/// Notes why a peer's certificate is refused.
pub(crate) fn set_refusal(refusal: Refusal) {
    REFUSAL.set(Some(refusal));
}

/// Takes, and clears, the refusal that was noted last on this thread.
pub(crate) fn take_refusal() -> Option<Refusal> {
    REFUSAL.take()
}

/// Notes a client's certificate that is refused.
pub(crate) fn note_refused_certificate(certificate: &[u8]) {
    REFUSED_CERTIFICATE.set(Some(Box::new(ShownCertificate::of(certificate))));
}

/// Takes, and clears, the refused certificate that was noted last on this thread.
pub(crate) fn take_refused_certificate() -> Option<Box<ShownCertificate>> {
    REFUSED_CERTIFICATE.take()
}

/// The result of the tickets that were opened in one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpenedTickets {
    /// None was opened.
    None,
    /// The client of each one is still accepted.
    Good,
    /// The client of one of them is not accepted any more.
    Bad,
}

/// The result of the tickets that were opened in this step so far.
pub(crate) fn opened_tickets() -> OpenedTickets {
    OPENED_TICKETS.get()
}

/// Notes the result of the tickets that were opened in this step.
pub(crate) fn set_opened_tickets(opened: OpenedTickets) {
    OPENED_TICKETS.set(opened);
}

/// Returns true if a ticket was opened in this step, and the client of each one is still accepted.
pub(crate) fn are_tickets_good() -> bool {
    opened_tickets() == OpenedTickets::Good
}

/// Lets the ticketer encrypt at most this number of tickets in this step; `None`: any number.
pub(crate) fn limit_tickets(most: Option<u8>) {
    TICKETS_LEFT.set(most);
}

/// Returns true if one more ticket can be encrypted in this step; counts it.
pub(crate) fn take_ticket() -> bool {
    let Some(left) = TICKETS_LEFT.get() else { return true };
    limit_tickets(Some(left.saturating_sub(1)));
    left > 0
}

/// The first hello of a client as rustls reads it, and as the client sent it.
pub(crate) struct ReplacedHello {
    pub(crate) read: Vec<u8>,
    pub(crate) sent: Vec<u8>,
}

/// While it is alive, hashes begun on this thread take the message `sent` where they are given `read`.
pub(crate) struct ReplacementGuard(());

impl ReplacementGuard {
    pub(crate) fn new(read: Vec<u8>, sent: Vec<u8>) -> Self {
        REPLACED_HELLO.set(Some(Arc::new(ReplacedHello { read, sent })));
        Self(())
    }
}

impl Drop for ReplacementGuard {
    fn drop(&mut self) {
        REPLACED_HELLO.set(None);
    }
}

/// The hello that is replaced on this thread now.
pub(crate) fn replaced_hello() -> Option<Arc<ReplacedHello>> {
    REPLACED_HELLO.with_borrow(Clone::clone)
}

/// Handling of the next decryption key that is made on this thread.
enum TrialKeySlot {
    /// Nothing.
    Unused,
    /// A copy of it is kept.
    Requested,
    /// It was kept.
    Kept(TrialKey),
}

/// While it is alive, the first key for decryption that is made on this thread is kept.
pub(crate) struct TrialKeyRequest(());

impl TrialKeyRequest {
    pub(crate) fn new() -> Self {
        TRIAL_KEY.set(TrialKeySlot::Requested);
        Self(())
    }

    /// The key, if one was made.
    pub(crate) fn take(self) -> Option<TrialKey> {
        match TRIAL_KEY.replace(TrialKeySlot::Unused) {
            TrialKeySlot::Kept(key) => Some(key),
            TrialKeySlot::Unused | TrialKeySlot::Requested => None,
        }
    }
}

impl Drop for TrialKeyRequest {
    fn drop(&mut self) {
        TRIAL_KEY.set(TrialKeySlot::Unused);
    }
}

/// Keeps the key that `make` returns, if one is requested on this thread.
pub(crate) fn offer_trial_key(make: impl FnOnce() -> Option<TrialKey>) {
    TRIAL_KEY.with_borrow_mut(|slot| {
        if let TrialKeySlot::Requested = slot
            && let Some(key) = make()
        {
            *slot = TrialKeySlot::Kept(key);
        }
    });
}

/// Returns true if this thread neither keeps a key nor has a request for one.
#[cfg(test)]
pub(crate) fn is_trial_key_unused() -> bool {
    matches!(TRIAL_KEY.replace(TrialKeySlot::Unused), TrialKeySlot::Unused)
}
