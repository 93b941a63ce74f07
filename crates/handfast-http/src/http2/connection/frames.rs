//! Frames without content: settings, windows, resets, pings, priorities, the end of a connection.

use super::super::frame::{self, ErrorCode, FrameHead, flag, kind, setting};
use super::super::guard::Deed;
use super::super::priority::Priority;
use super::super::streams::{StreamEnd, StreamKey};
use super::{Connection, ConnectionError, GOODBYE_PING, Goodbye, MAX_WINDOW, Role};

impl<T: Copy + PartialEq> Connection<T> {
    /// Handles a frame whose length is right for its kind.
    pub(super) fn take_frame(
        &mut self,
        head: &FrameHead,
        payload: &[u8],
        now: u64,
    ) -> Result<(), ConnectionError> {
        match head.kind {
            kind::SETTINGS => self.take_settings(head, payload, now),
            kind::WINDOW_UPDATE => self.take_window_update(head, payload, now),
            kind::RST_STREAM => self.take_reset(head, payload, now),
            kind::PING => self.take_ping(head, payload, now),
            kind::GOAWAY => self.take_goaway(head, payload, now),
            kind::PRIORITY => self.take_priority(head, payload, now),
            kind::PRIORITY_UPDATE => self.take_priority_update(head, payload, now),
            // A server must not receive it, and our client has switched it off.
            _ => Err(self.fail(ErrorCode::PROTOCOL_ERROR, "PUSH_PROMISE is not permitted")),
        }
    }

    fn protocol_error(&mut self, detail: &'static str) -> ConnectionError {
        self.fail(ErrorCode::PROTOCOL_ERROR, detail)
    }

    fn take_settings(&mut self, head: &FrameHead, payload: &[u8], now: u64) -> Result<(), ConnectionError> {
        if head.stream != 0 {
            return Err(self.protocol_error("SETTINGS on a stream"));
        }
        if head.has(flag::ACK) {
            return self.note(Deed::Ignored, now);
        }
        self.has_peer_settings = true;
        self.note(Deed::Settings, now)?;
        // A frame has room for thousands. The last value of each counts, and open streams are looked at once.
        let (mut window, mut streams) = (None, None);
        for (id, value) in frame::Settings::new(payload) {
            match id {
                setting::INITIAL_WINDOW_SIZE if i64::from(value) > MAX_WINDOW => {
                    let detail = "SETTINGS_INITIAL_WINDOW_SIZE is above 2^31-1";
                    return Err(self.fail(ErrorCode::FLOW_CONTROL_ERROR, detail));
                }
                setting::INITIAL_WINDOW_SIZE => window = Some(value),
                setting::MAX_CONCURRENT_STREAMS => streams = Some(value),
                _ => self.take_setting(id, value)?,
            }
        }
        if let Some(window) = window {
            self.take_initial_window(window)?;
        }
        if let Some(streams) = streams {
            self.peer_streams = streams.min(self.settings.streams);
            // Requests may wait for a place.
            self.woken.extend(self.waiting.iter());
        }
        frame::write_settings_ack(&mut self.outbox);
        self.control += FrameHead::SIZE;
        Ok(())
    }

    fn take_setting(&mut self, id: u16, value: u32) -> Result<(), ConnectionError> {
        match id {
            setting::HEADER_TABLE_SIZE => self.encoder.set_peer_table_size(value),
            setting::ENABLE_PUSH if value > 1 || (value == 1 && self.settings.role == Role::Client) => {
                return Err(self.protocol_error("SETTINGS_ENABLE_PUSH has a value that it cannot have"));
            }
            setting::MAX_FRAME_SIZE if !(16_384..=16_777_215).contains(&value) => {
                return Err(self.protocol_error("SETTINGS_MAX_FRAME_SIZE is out of its bounds"));
            }
            setting::ENABLE_CONNECT_PROTOCOL if value > 1 => {
                return Err(self.protocol_error("SETTINGS_ENABLE_CONNECT_PROTOCOL is neither 0 nor 1"));
            }
            // RFC 9218 §2.1.
            setting::NO_WEIGHTED_PRIORITIES if value > 1 => {
                return Err(self.protocol_error("the setting NO_WEIGHTED_PRIORITIES is neither 0 nor 1"));
            }
            _ => {}
        }
        Ok(())
    }

    /// RFC 9113 §6.9.2: windows of open streams change with it, also below zero.
    fn take_initial_window(&mut self, value: u32) -> Result<(), ConnectionError> {
        let change = i64::from(value) - i64::from(self.initial_send_window);
        self.initial_send_window = value;
        let mut is_too_large = false;
        for slot in self.streams.iter_mut() {
            slot.send_window += change;
            is_too_large |= slot.send_window > MAX_WINDOW;
        }
        if is_too_large {
            return Err(
                self.fail(ErrorCode::FLOW_CONTROL_ERROR, "SETTINGS_INITIAL_WINDOW_SIZE overflows a window")
            );
        }
        if change > 0 {
            for key in self.streams.keys() {
                self.schedule(key);
                self.wake(key);
            }
        }
        Ok(())
    }

    fn take_window_update(
        &mut self,
        head: &FrameHead,
        payload: &[u8],
        now: u64,
    ) -> Result<(), ConnectionError> {
        self.note(Deed::WindowUpdate, now)?;
        let increment = i64::from(number(payload) & 0x7FFF_FFFF);
        if head.stream == 0 {
            if increment == 0 {
                return Err(self.protocol_error("WINDOW_UPDATE by nothing"));
            }
            self.send_window += increment;
            if self.send_window > MAX_WINDOW {
                return Err(
                    self.fail(ErrorCode::FLOW_CONTROL_ERROR, "the window of the connection overflows")
                );
            }
            return Ok(());
        }
        let Some(key) = self.open_stream(head, Deed::Late, now)? else { return Ok(()) };
        if increment == 0 {
            return self.break_stream(key, ErrorCode::PROTOCOL_ERROR, "WINDOW_UPDATE by nothing", now);
        }
        let Some(slot) = self.streams.get_mut(key) else { return Ok(()) };
        slot.send_window += increment;
        if slot.send_window > MAX_WINDOW {
            return self.break_stream(
                key,
                ErrorCode::FLOW_CONTROL_ERROR,
                "the window of the stream overflows",
                now,
            );
        }
        self.schedule(key);
        self.wake(key);
        Ok(())
    }

    fn take_reset(&mut self, head: &FrameHead, payload: &[u8], now: u64) -> Result<(), ConnectionError> {
        let Some(key) = self.open_stream(head, Deed::Late, now)? else { return Ok(()) };
        let code = ErrorCode(number(payload));
        let is_client = self.settings.role == Role::Client;
        let Some(slot) = self.streams.get_mut(key) else { return Ok(()) };
        let is_whole = slot.has_received_end && is_client;
        let is_first = slot.end.is_none();
        if slot.end.is_none() && !is_whole {
            slot.end = Some(match code {
                ErrorCode::REFUSED_STREAM => StreamEnd::Refused,
                code => StreamEnd::Reset(code),
            });
        } else if is_whole {
            // The response is whole, and the server does not want the rest of the request (RFC 9113 §8.1).
            slot.has_sent_end = true;
        }
        self.drop_queue(key);
        self.wake(key);
        match is_client {
            // Each request that a server refuses is one that the client has sent.
            true if is_first => Ok(()),
            true => self.note(Deed::Ignored, now),
            false => self.note(Deed::Reset, now),
        }
    }

    fn take_ping(&mut self, head: &FrameHead, payload: &[u8], now: u64) -> Result<(), ConnectionError> {
        if head.stream != 0 {
            return Err(self.protocol_error("PING on a stream"));
        }
        let Ok(opaque) = <[u8; 8]>::try_from(payload) else { return Ok(()) };
        if head.has(flag::ACK) {
            if opaque == GOODBYE_PING && self.goodbye == Goodbye::Announced {
                self.end_goodbye();
            }
            return self.note(Deed::Ignored, now);
        }
        self.note(Deed::Ping, now)?;
        frame::write_ping(&mut self.outbox, opaque, true);
        self.control += FrameHead::SIZE + 8;
        Ok(())
    }

    fn take_goaway(&mut self, head: &FrameHead, payload: &[u8], now: u64) -> Result<(), ConnectionError> {
        if head.stream != 0 {
            return Err(self.protocol_error("GOAWAY on a stream"));
        }
        self.note(Deed::Ignored, now)?;
        let last = number(payload) & 0x7FFF_FFFF;
        let code = ErrorCode(number(payload.get(4..).unwrap_or_default()));
        // A second one names the same stream or an earlier one (RFC 9113 §6.8).
        let last = self.peer_last.map_or(last, |before| before.min(last));
        self.peer_last = Some(last);
        if self.settings.role == Role::Client {
            for slot in self.streams.iter_mut().filter(|slot| slot.id > last && slot.end.is_none()) {
                // Not processed, whatever the code. But a server that fails at the first request of a connection fails at the next one, too.
                let is_first = slot.id == 1 && code != ErrorCode::NO_ERROR;
                slot.end = Some(if is_first { StreamEnd::Reset(code) } else { StreamEnd::Refused });
            }
        }
        self.wake_all();
        Ok(())
    }

    /// Priorities of RFC 7540, which have no effect (RFC 9113 §5.3.2).
    fn take_priority(&mut self, head: &FrameHead, payload: &[u8], now: u64) -> Result<(), ConnectionError> {
        if head.stream == 0 {
            return Err(self.protocol_error("PRIORITY without a stream"));
        }
        self.note(Deed::Ignored, now)?;
        if payload.len() != 5 {
            return self.break_priority(
                head.stream,
                ErrorCode::FRAME_SIZE_ERROR,
                "PRIORITY of a wrong length",
                now,
            );
        }
        if number(payload) & 0x7FFF_FFFF == head.stream {
            return self.refuse_self_dependency(head.stream, now);
        }
        Ok(())
    }

    /// RFC 7540 §5.3.1.
    pub(super) fn refuse_self_dependency(&mut self, id: u32, now: u64) -> Result<(), ConnectionError> {
        self.break_priority(id, ErrorCode::PROTOCOL_ERROR, "a stream that depends on itself", now)
    }

    /// Resets a stream that need not be open. RST_STREAM must not be sent for an idle one (RFC 9113 §6.4): there it ends the connection.
    fn break_priority(
        &mut self,
        id: u32,
        code: ErrorCode,
        detail: &'static str,
        now: u64,
    ) -> Result<(), ConnectionError> {
        match self.streams.find(id) {
            Some(key) => self.break_stream(key, code, detail, now),
            None if self.is_idle(id) => Err(self.fail(code, detail)),
            None => {
                self.write_reset(id, code);
                self.note(Deed::Broken, now)
            }
        }
    }

    /// RFC 9218 §7.1.
    fn take_priority_update(
        &mut self,
        head: &FrameHead,
        payload: &[u8],
        now: u64,
    ) -> Result<(), ConnectionError> {
        if head.stream != 0 || self.settings.role == Role::Client {
            return Err(self.protocol_error("PRIORITY_UPDATE where it is not permitted"));
        }
        self.note(Deed::Ignored, now)?;
        let Some((id, value)) =
            payload.split_first_chunk().map(|(id, value)| (u32::from_be_bytes(*id), value))
        else {
            return Ok(());
        };
        let id = id & 0x7FFF_FFFF;
        if id.is_multiple_of(2) {
            return Err(self.protocol_error("PRIORITY_UPDATE for a stream that a client cannot begin"));
        }
        // One that comes before its request is forgotten: the field of the request has the same value.
        if let Some(key) = self.streams.find(id)
            && let Some(slot) = self.streams.get_mut(key)
        {
            slot.priority = Priority::parse(value);
        }
        Ok(())
    }

    /// Returns the stream of a frame that is permitted in all states but idle; `None`: it is closed.
    fn open_stream(
        &mut self,
        head: &FrameHead,
        late: Deed,
        now: u64,
    ) -> Result<Option<StreamKey>, ConnectionError> {
        if head.stream == 0 {
            return Err(self.protocol_error("a frame of a stream without one"));
        }
        let found = self.streams.find(head.stream);
        if found.is_none() {
            if self.is_idle(head.stream) {
                return Err(self.protocol_error("a frame for a stream that has not begun"));
            }
            self.note(late, now)?;
        }
        Ok(found)
    }

    /// Returns true if a stream was never open; the peer's pushed streams never are.
    pub(super) fn is_idle(&self, id: u32) -> bool {
        id.is_multiple_of(2) || id > self.last_id
    }
}

/// The first four bytes as a number.
fn number(payload: &[u8]) -> u32 {
    payload.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes))
}
