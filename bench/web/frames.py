"""HTTP/2 frames by hand: any bytes in any order, right or wrong (RFC 9113 §4 and §6).

In: a port; frames and header lists. Out: the frames of the peer. Needs the package hpack.
"""

import struct
import time

import hpack

from . import h1

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS = 1, 1, 4
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
NAMES = ["DATA", "HEADERS", "PRIORITY", "RST_STREAM", "SETTINGS", "PUSH_PROMISE", "PING", "GOAWAY", "WINDOW_UPDATE",
         "CONTINUATION"]


def frame(kind, flags, stream, payload=b""):
    """The bytes of one frame."""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def literal(name, value):
    """A header field as a literal without indexing and without Huffman coding: any bytes (RFC 7541 §6.2.2)."""
    return b"\0" + _string(name) + _string(value)


def _string(data):
    """RFC 7541 §5.2, length with a 7-bit prefix."""
    length, out = len(data), b""
    if length < 127:
        return bytes([length]) + data
    length -= 127
    while length >= 128:
        out, length = out + bytes([length % 128 + 128]), length // 128
    return b"\x7f" + out + bytes([length]) + data


def block(fields):
    """A header block of (name, value) in bytes, as literals."""
    return b"".join(literal(name, value) for name, value in fields)


def settings(pairs=()):
    """A SETTINGS frame of (identifier, value)."""
    return frame(SETTINGS, 0, 0, b"".join(struct.pack(">HI", *pair) for pair in pairs))


def headers(stream, fields, end=True):
    """A HEADERS frame of literals."""
    return frame(HEADERS, END_HEADERS | (END_STREAM if end else 0), stream, block(fields))


class Peer(h1.Wire):
    """A connection after the preface. `streams` collects what each stream received."""

    def __init__(self, port, pairs=()):
        super().__init__(port, "h2")
        if self.socket.selected_alpn_protocol() != "h2":
            raise ConnectionError(f"connect to port {port}: the front did not agree on h2")
        # `goaway`: the error code of the latest one; `last_streams`: the last stream that each one named.
        self.decoder, self.fragments, self.streams, self.goaway, self.last_streams = hpack.Decoder(), b"", {}, None, []
        self.send(PREFACE + settings(pairs))

    def next(self, deadline):
        """The next frame as (kind, flags, stream, payload); None at the end or the deadline. SETTINGS and PING are answered."""
        while True:
            if len(self.buffer) >= 9:
                length = int.from_bytes(self.buffer[:3], "big")
                if len(self.buffer) >= 9 + length:
                    kind, flags, stream = struct.unpack(">BBI", self.buffer[3:9])
                    payload, self.buffer = self.buffer[9 : 9 + length], self.buffer[9 + length :]
                    return self.take(kind, flags, stream & 0x7FFFFFFF, payload)
            if not self.fill(deadline):
                return None

    def take(self, kind, flags, stream, payload):
        """Keeps what the frame says about its stream, and returns it."""
        found = self.streams.setdefault(stream, {"status": None, "body": b"", "end": None, "trailers": None})
        if kind in (SETTINGS, PING) and not flags & ACK:
            self.send(frame(kind, ACK, 0, payload if kind == PING else b""))
        elif kind in (HEADERS, CONTINUATION):
            self.fragments += payload
            if flags & END_HEADERS:
                fields, self.fragments = self.decoder.decode(self.fragments, raw=True), b""
                status = next((int(value) for name, value in fields if name == b":status"), None)
                found["trailers" if status is None else "headers"] = fields
                found["status"] = found["status"] if status is None else status
        elif kind == DATA:
            found["body"] += payload
        elif kind == RST_STREAM:
            found["end"] = f"RST_STREAM {int.from_bytes(payload, 'big')}"
        elif kind == GOAWAY:
            self.goaway = int.from_bytes(payload[4:8], "big")
            self.last_streams.append(int.from_bytes(payload[:4], "big"))
        if kind in (DATA, HEADERS) and flags & END_STREAM:
            found["end"] = "END_STREAM"
        return kind, flags, stream, payload

    def wait(self, stream, seconds=3.0):
        """What the stream received, when it has ended, the connection has, or nothing came for that time."""
        while not (self.streams.get(stream) or {}).get("end"):
            if self.next(time.monotonic() + seconds) is None:
                break
        return self.streams.setdefault(stream, {"status": None, "body": b"", "end": None, "trailers": None})


def request(path, method=b"GET", authority=b"garden.test", more=()):
    """The header list of a plain request."""
    return [(b":method", method), (b":scheme", b"https"), (b":authority", authority), (b":path", path), *more]
