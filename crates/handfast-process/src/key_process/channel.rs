//! One way to the key process: a question, and its answer or why there is none.
//!
//! In: what is asked. Out: what was answered to just that. A thread asks one thing at a time on a channel of its own; each question
//! has a number, so that what comes too late is not taken for the answer to the next one.

use std::fmt;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send, sockopt};

/// Bytes of an answer that go in one message; a file's answer may take several.
const PIECE: usize = 16 << 10;
/// In front of each piece: the question's number, whether it is the last one, whether it is an answer.
const HEAD: usize = 10;
/// Bytes of a question: what a client signs in TLS 1.2 is its whole handshake.
pub(super) const QUESTION: usize = 160 << 10;
/// The number of no question: whoever waits for anything is told that the key process ended.
const BROADCAST_ID: u64 = 0;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// A signature: key, scheme, message.
    Sign,
    /// What is in a file: its path.
    Look,
    /// How a file is, without what is in it: its path.
    Stamp,
    /// To let go of keys; not answered.
    Forget,
    /// Nothing: the answer, which is empty, is the point.
    Ping,
}

impl Question {
    const ALL: [Self; 5] = [Self::Sign, Self::Look, Self::Stamp, Self::Forget, Self::Ping];

    fn code(self) -> u8 {
        Self::ALL.iter().position(|known| *known == self).unwrap_or_default() as u8
    }
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// The key process has ended while it was asked.
    Ended,
    /// It did not answer for so long.
    Late(Duration),
    /// There is no supervisor any more, and so no key process.
    Gone,
    /// It was not asked: more threads want to than were foreseen.
    NoChannel,
    /// The question is longer than any that TLS has.
    TooLong(usize),
    /// It says why it does not.
    Refused(String),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended => f.write_str("the key process ended, and is started again"),
            Self::Late(timeout) => write!(f, "the key process did not answer within {timeout:?}"),
            Self::Gone => f.write_str(
                "the key process ended, and what starts it again did too: restart, or handfast upgrade",
            ),
            Self::NoChannel => f.write_str("the key process was not asked: too many threads sign"),
            Self::TooLong(length) => {
                write!(f, "the key process was not asked: {length} bytes are to be signed")
            }
            Self::Refused(why) => write!(f, "the key process did not sign: {why}"),
        }
    }
}

/// What became of a ping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pong {
    Answered,
    /// The key process ended first.
    Lost,
}

/// One end of a channel, on this side.
#[derive(Debug)]
pub(super) struct Channel {
    socket: OwnedFd,
    number: u64,
    buffer: Vec<u8>,
    /// How long recv(2) waits; none as long as it waits for ever.
    step: Option<Duration>,
}

impl Channel {
    pub(super) fn new(socket: OwnedFd) -> Self {
        Self { socket, number: BROADCAST_ID, buffer: Vec::new(), step: None }
    }

    /// Asks, and waits for the answer; for twice `timeout` at most, when something else came first.
    ///
    /// **Cost**: three system calls, and the other process's two and its wake-up. It waits in recv(2) itself, and so does the other
    /// side: the kernel then knows that who wakes is about to sleep, and lets the other one run in its place.
    pub(super) fn ask(
        &mut self,
        question: &Question,
        parts: &[&[u8]],
        timeout: Duration,
    ) -> Result<Vec<u8>, Trouble> {
        let until = Instant::now() + timeout;
        self.set_timeout(timeout)?;
        self.drop_what_is_late()?;
        self.send(question, parts, timeout)?;
        let mut answer = Vec::new();
        loop {
            match self.receive(RecvFlags::empty())? {
                Some((BROADCAST_ID, ..)) => return Err(Trouble::Ended),
                Some((number, is_last, is_answer)) if number == self.number => {
                    answer.extend_from_slice(&self.buffer[HEAD..]);
                    match (is_last, is_answer) {
                        (false, _) => {}
                        (true, true) => return Ok(answer),
                        (true, false) => {
                            return Err(Trouble::Refused(String::from_utf8_lossy(&answer).into_owned()));
                        }
                    }
                }
                _ => {}
            }
            if Instant::now() >= until {
                return Err(Trouble::Late(timeout));
            }
        }
    }

    /// Sends a question, under a new number.
    fn send(&mut self, question: &Question, parts: &[&[u8]], timeout: Duration) -> Result<(), Trouble> {
        self.number += 1;
        let length: usize = parts.iter().map(|part| part.len()).sum();
        if length > QUESTION {
            return Err(Trouble::TooLong(length));
        }
        let mut message = Vec::with_capacity(9 + length);
        message.extend(self.number.to_le_bytes());
        message.push(question.code());
        parts.iter().for_each(|part| message.extend_from_slice(part));
        match send(&self.socket, &message, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Ok(_) => Ok(()),
            // The queue is full of questions that were given up.
            Err(Errno::AGAIN) => Err(Trouble::Late(timeout)),
            Err(_) => Err(Trouble::Gone),
        }
    }

    /// Sends a ping, and does not wait for the answer; whether the queue had room for it.
    pub(super) fn ping(&mut self) -> Result<bool, Trouble> {
        match self.send(&Question::Ping, &[], Duration::ZERO) {
            Ok(()) => Ok(true),
            Err(Trouble::Late(_)) => Ok(false),
            Err(trouble) => Err(trouble),
        }
    }

    /// Takes everything that has come, and returns what became of the last ping, if that is known.
    pub(super) fn pong(&mut self) -> Result<Option<Pong>, Trouble> {
        let mut pong = None;
        while let Some((number, ..)) = self.receive(RecvFlags::DONTWAIT)? {
            match number {
                BROADCAST_ID => pong = pong.or(Some(Pong::Lost)),
                number if number == self.number => pong = Some(Pong::Answered),
                _ => {}
            }
        }
        Ok(pong)
    }

    /// Says something that is not answered; lost when nobody listens.
    pub(super) fn say(&mut self, question: &Question, content: &[u8]) {
        for piece in content.chunks(PIECE) {
            let mut message = BROADCAST_ID.to_le_bytes().to_vec();
            message.push(question.code());
            message.extend_from_slice(piece);
            let _ = send(&self.socket, &message, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
        }
    }

    /// A thread's timeout is nearly always the same, so this is hardly ever a system call.
    fn set_timeout(&mut self, timeout: Duration) -> Result<(), Trouble> {
        // None at all would be for ever.
        let step = Some(timeout.max(Duration::from_millis(1)));
        if self.step != step {
            sockopt::set_socket_timeout(&self.socket, sockopt::Timeout::Recv, step)
                .map_err(|_| Trouble::Gone)?;
            self.step = step;
        }
        Ok(())
    }

    /// What came for questions that were given up.
    fn drop_what_is_late(&mut self) -> Result<(), Trouble> {
        while self.receive(RecvFlags::DONTWAIT)?.is_some() {}
        Ok(())
    }

    /// The next piece, if there is one: whose it is, whether it is the last one, whether it is an answer.
    fn receive(&mut self, flags: RecvFlags) -> Result<Option<(u64, bool, bool)>, Trouble> {
        self.buffer.resize(HEAD + PIECE, 0);
        let length = match recv(&self.socket, &mut self.buffer[..], flags) {
            Ok((_, length)) if length >= HEAD => length,
            Err(Errno::AGAIN) => return Ok(None),
            Err(Errno::INTR) => return Ok(None),
            _ => return Err(Trouble::Gone),
        };
        self.buffer.truncate(length);
        let Some((number, [is_last, is_answer, ..])) = self.buffer.split_first_chunk() else {
            return Err(Trouble::Gone);
        };
        Ok(Some((u64::from_le_bytes(*number), *is_last != 0, *is_answer != 0)))
    }
}

/// What was asked, as the other side gets it.
pub(super) struct Asked<'a> {
    number: u64,
    pub(super) question: Question,
    pub(super) content: &'a [u8],
}

impl<'a> Asked<'a> {
    /// `None`: it is none.
    pub(super) fn read(message: &'a [u8]) -> Option<Self> {
        let (number, [code, content @ ..]) = message.split_first_chunk()? else { return None };
        let question = *Question::ALL.get(usize::from(*code))?;
        Some(Self { number: u64::from_le_bytes(*number), question, content })
    }

    /// Answers it.
    pub(super) fn answer(&self, socket: &OwnedFd, answer: Result<Vec<u8>, String>) {
        let is_answer = answer.is_ok();
        let answer = answer.unwrap_or_else(String::into_bytes);
        let pieces = answer.len().div_ceil(PIECE).max(1);
        for number in 0..pieces {
            let piece = &answer[number * PIECE..answer.len().min((number + 1) * PIECE)];
            let mut message = Vec::with_capacity(HEAD + piece.len());
            message.extend(self.number.to_le_bytes());
            message.extend([u8::from(number + 1 == pieces), u8::from(is_answer)]);
            message.extend_from_slice(piece);
            // Who asked has given up, and takes nothing: then the rest is for nobody.
            if send(socket, &message, SendFlags::NOSIGNAL).is_err() {
                return;
            }
        }
    }
}

/// Tells whoever waits on a channel that the key process has ended, and drops what it was asked and has not read.
pub(super) fn tell_end(far: &OwnedFd) {
    let mut buffer = [0; 16];
    // What is longer is cut, and gone all the same.
    while matches!(recv(far, &mut buffer[..], RecvFlags::DONTWAIT), Ok((_, 1..))) {}
    let mut message = BROADCAST_ID.to_le_bytes().to_vec();
    message.extend([1, 0]);
    let _ = send(far, &message, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
}
