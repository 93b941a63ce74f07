//! Record protection of TLS 1.3 (RFC 9846 §5.2) whose contexts exist only while they are used.
//!
//! In: a key, an IV, records in their order. Out: the same records as from the library, whose AEAD computes them.
//!
//! The context of a key, which is the key made ready for computing, takes 0.6 KiB; a connection with TLS on both sides has four.
//! The key itself takes 32 bytes, and making the context again less than a microsecond. So contexts are in a table of the
//! thread. [`sweep`] removes idle ones, and so does a new context if there are many; the
//! next record creates its context again. Nonces are still unique for a key: a nonce depends on the record's number, which the
//! session counts.

use std::cell::RefCell;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use aws_lc_rs::aead::{Aad, Algorithm, LessSafeKey, Nonce, UnboundKey};
use rustls::crypto::cipher::{
    AeadKey, InboundOpaqueMessage, InboundPlainMessage, Iv, MessageDecrypter, MessageEncrypter,
    Nonce as RecordNonce, OutboundOpaqueMessage, OutboundPlainMessage, PrefixedPayload, make_tls13_aad,
};
use rustls::{ContentType, Error, ProtocolVersion};

/// Number of contexts that a thread may have before those that rest make room for one that is needed. Otherwise a crowd of clients that
/// comes at once would have all of its contexts in the heap at one time, which keeps what it once had.
const MIN_CONTEXTS: usize = 512;

/// Places that are looked at for those that rest; with one, a crowd would come faster than it is seen to rest.
const LOOKS: usize = 4;

/// Ticks after the last use when a context makes room for others, and when it goes in any case. A connection that is used more often keeps
/// it; for others, making it again is nothing beside the record.
const RESTS: u32 = 2;
const GOES: u32 = 10;

/// Places that one call of [`sweep`] looks at; giving a context back takes 0.1 µs.
const AT_ONCE: usize = 1 << 12;

/// A key of one direction. Contexts are found by its number, which no other key of this process has.
pub(super) struct RecordKey {
    algorithm: &'static Algorithm,
    key: AeadKey,
    iv: Iv,
    number: u64,
    place: usize,
}

impl RecordKey {
    /// For `key`, which must have as many bytes as the algorithm's keys.
    pub(super) fn new(algorithm: &'static Algorithm, key: AeadKey, iv: Iv) -> Self {
        let number = CONTEXTS.with_borrow_mut(|contexts| contexts.numbers.next());
        Self { algorithm, key, iv, number, place: usize::MAX }
    }

    /// Calls `work` with this key's context and the nonce of record `sequence`.
    fn with<T>(
        &mut self,
        sequence: u64,
        work: impl FnOnce(&LessSafeKey, Nonce) -> Result<T, aws_lc_rs::error::Unspecified>,
    ) -> Result<T, aws_lc_rs::error::Unspecified> {
        let nonce = Nonce::assume_unique_for_key(RecordNonce::new(&self.iv, sequence).0);
        CONTEXTS.with_borrow_mut(|contexts| work(contexts.of(self)?, nonce))
    }
}

impl fmt::Debug for RecordKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordKey").field("algorithm", self.algorithm).finish_non_exhaustive()
    }
}

impl Drop for RecordKey {
    fn drop(&mut self) {
        // A thread that ends has no table any more. On another thread than the key's last there is nothing to find; the sweep
        // there takes the context away.
        let _ = CONTEXTS.try_with(|contexts| contexts.borrow_mut().remove(self.place, self.number));
    }
}

impl MessageEncrypter for RecordKey {
    fn encrypt(
        &mut self,
        message: OutboundPlainMessage<'_>,
        sequence: u64,
    ) -> Result<OutboundOpaqueMessage, Error> {
        let length = self.encrypted_payload_len(message.payload.len());
        let mut payload = PrefixedPayload::with_capacity(length);
        payload.extend_from_chunks(&message.payload);
        payload.extend_from_slice(&message.typ.to_array());
        self.with(sequence, |key, nonce| {
            key.seal_in_place_append_tag(nonce, Aad::from(make_tls13_aad(length)), &mut payload)
        })
        .map_err(|_| Error::EncryptError)?;
        // The version in all records of TLS 1.3 (RFC 9846 §5.2).
        Ok(OutboundOpaqueMessage::new(ContentType::ApplicationData, ProtocolVersion::TLSv1_2, payload))
    }

    fn encrypted_payload_len(&self, length: usize) -> usize {
        length + 1 + self.algorithm.tag_len()
    }
}

impl MessageDecrypter for RecordKey {
    fn decrypt<'a>(
        &mut self,
        mut message: InboundOpaqueMessage<'a>,
        sequence: u64,
    ) -> Result<InboundPlainMessage<'a>, Error> {
        let payload = &mut message.payload;
        let additional = Aad::from(make_tls13_aad(payload.len()));
        let length = self
            .with(sequence, |key, nonce| Ok(key.open_in_place(nonce, additional, payload)?.len()))
            .map_err(|_| Error::DecryptError)?;
        payload.truncate(length);
        message.into_tls13_unpadded_message()
    }
}

/// Sets the time of this thread's contexts: `tick` is one more every tenth of a second. Returns their number: with none, [`sweep`]
/// has nothing to do.
///
/// Without these calls, a thread keeps the context of each key as long as the key.
pub fn time_is(tick: u32) -> usize {
    CONTEXTS.with_borrow_mut(|contexts| {
        contexts.now = tick;
        contexts.held
    })
}

/// Removes this thread's contexts that were not used for a second. Returns true if all were checked: otherwise the next call
/// continues from there.
///
/// **Cost**: at most half a millisecond.
pub fn sweep() -> bool {
    CONTEXTS.with_borrow_mut(Contexts::sweep)
}

/// Takes away all contexts of this thread, for one whose sessions go on elsewhere: their keys make their own there.
pub fn give_back() {
    CONTEXTS.with_borrow_mut(Contexts::give_back);
}

thread_local! {
    static CONTEXTS: RefCell<Contexts> = RefCell::new(Contexts::new());
}

/// A thread's contexts.
#[derive(Debug)]
struct Contexts {
    /// The tick of the last call.
    now: u32,
    places: Vec<Option<Context>>,
    free: Vec<usize>,
    held: usize,
    /// The place that was last looked at for room.
    last_room_place: usize,
    /// Position where the next sweep continues.
    next_sweep: usize,
    numbers: Numbers,
}

#[derive(Debug)]
struct Context {
    owner: u64,
    /// The tick of its last use.
    used: u32,
    key: LessSafeKey,
}

impl Contexts {
    fn new() -> Self {
        Self {
            now: 0,
            places: Vec::new(),
            free: Vec::new(),
            held: 0,
            last_room_place: 0,
            next_sweep: 0,
            numbers: Numbers::new(),
        }
    }

    /// The context of `owner`, made if there is none.
    fn of(&mut self, owner: &mut RecordKey) -> Result<&LessSafeKey, aws_lc_rs::error::Unspecified> {
        let is_there =
            matches!(self.places.get(owner.place), Some(Some(context)) if context.owner == owner.number);
        if !is_there {
            let key = LessSafeKey::new(UnboundKey::new(owner.algorithm, owner.key.as_ref())?);
            owner.place = self.insert(Context { owner: owner.number, used: self.now, key });
        }
        let context = self.places[owner.place].as_mut().expect("found or made above");
        context.used = self.now;
        Ok(&context.key)
    }

    fn insert(&mut self, context: Context) -> usize {
        if self.held >= MIN_CONTEXTS {
            self.make_room();
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() - 1
        });
        self.places[place] = Some(context);
        self.held += 1;
        place
    }

    fn make_room(&mut self) {
        for _ in 0..LOOKS {
            self.last_room_place = (self.last_room_place + 1) % self.places.len();
            self.take_if_unused_for(RESTS, self.last_room_place);
        }
    }

    fn take_if_unused_for(&mut self, ticks: u32, place: usize) {
        let now = self.now;
        let is_unused = |context: &mut Context| now.wrapping_sub(context.used) >= ticks;
        if self.places[place].take_if(is_unused).is_some() {
            self.held -= 1;
            self.free.push(place);
        }
    }

    fn remove(&mut self, place: usize, owner: u64) {
        if let Some(found) = self.places.get_mut(place)
            && found.take_if(|context| context.owner == owner).is_some()
        {
            self.held -= 1;
            self.free.push(place);
        }
    }

    fn sweep(&mut self) -> bool {
        let end = self.places.len().min(self.next_sweep + AT_ONCE);
        for number in self.next_sweep..end {
            self.take_if_unused_for(GOES, number);
        }
        let is_over = end == self.places.len();
        self.next_sweep = if is_over { 0 } else { end };
        if is_over {
            self.shrink();
        }
        is_over
    }

    fn give_back(&mut self) {
        self.places.clear();
        self.free.clear();
        (self.held, self.last_room_place, self.next_sweep) = (0, 0, 0);
    }

    /// Gives back the end of the table if nothing is there.
    fn shrink(&mut self) {
        let end = self.places.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        if 2 * end <= self.places.len() {
            self.places.truncate(end);
            self.places.shrink_to_fit();
            // The lowest place is taken first, so that the end stays free.
            self.free = (0..end).rev().filter(|&place| self.places[place].is_none()).collect();
        }
    }
}

/// Numbers that no thread gives twice: the upper part is the thread's own.
#[derive(Debug)]
struct Numbers {
    next: u64,
}

impl Numbers {
    fn new() -> Self {
        static THREADS: AtomicU64 = AtomicU64::new(0);
        Self { next: THREADS.fetch_add(1, Ordering::Relaxed) << 40 }
    }

    fn next(&mut self) -> u64 {
        self.next += 1;
        if self.next.trailing_zeros() >= 40 {
            // 2^40 keys later this thread's numbers are over, and it takes others.
            *self = Self::new();
            self.next += 1;
        }
        self.next
    }
}

#[cfg(test)]
mod tests;
