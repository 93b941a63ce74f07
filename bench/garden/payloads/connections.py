"""Payloads about what follows a request on its connection: pipelining, Expect, Upgrade, hop-by-hop fields (RFC 9110 §7.6, §7.8, §10.1.1)."""

from . import SMUGGLED, get, post, table

HOP, UPGRADE, EXPECT = "RFC 9110 §7.6.1", "RFC 9110 §7.8", "RFC 9110 §10.1.1"
WEBSOCKET = (b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
             b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n")
H2C = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"
H2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"


def hop_by_hop():
    for name, lines, never, must in (
        ("X-Forwarded-For", b"", (), ("x-forwarded-for",)),
        ("Host", b"", (), ("host",)),
        ("Cookie", b"Cookie: a=b\r\n", (), ()),
        ("X-Secret", b"X-Secret: a\r\n", ("x-secret",), ()),
        ("close, X-Secret", b"X-Secret: a\r\n", ("x-secret",), ()),
        ("Content-Type", b"Content-Type: text/plain\r\n", (), ()),
    ):
        data = get(b"Connection: " + name.encode() + b"\r\n" + lines)
        yield f"Connection: {name}", data, HOP, "either", {"never": never, "must": must}
    for field in (b"Keep-Alive: timeout=5", b"Proxy-Connection: keep-alive", b"TE: trailers, deflate", b"HTTP2-Settings: AAMAAABk"):
        name = field.split(b":")[0].decode().lower()
        yield f"field {field.decode()}", get(field + b"\r\n"), HOP, "either", {"never": () if name == "te" else (name,)}
    yield "Connection: with a bad token", get(b"Connection: a b\r\n"), HOP, "either"
    yield "X-Forwarded-For of the client", get(b"X-Forwarded-For: 192.0.2.1\r\n"), HOP, "either", {"must": ("x-forwarded-for",)}


def expectations():
    body = b"Content-Length: 5\r\n"
    for name, line, verdict in (
        ("100-continue", b"Expect: 100-continue\r\n", "accept"), ("upper case", b"Expect: 100-CONTINUE\r\n", "either"),
        ("unknown", b"Expect: nonsense\r\n", "accept"), ("blank before the colon", b"Expect : 100-continue\r\n", "400"),
        ("list", b"Expect: 100-continue, x\r\n", "accept"), ("0-continue", b"Expect: y 100-continue\r\n", "accept"),
        ("two lines", b"Expect: 100-continue\r\nExpect: x\r\n", "accept"), ("obs-fold", b"Expect:\r\n 100-continue\r\n", "400"),
        ("empty", b"Expect:\r\n", "either"),
    ):
        yield f"Expect {name}", post(body + line, b"hello"), EXPECT, verdict
    yield "Expect of a GET", get(b"Expect: 100-continue\r\n"), EXPECT, "either"
    yield "Expect of a GET, then a request", get(b"Expect: 100-continue\r\n") + SMUGGLED, EXPECT, "either"
    hidden = b"Content-Length: %d\r\nExpect: 100-continue\r\n" % len(SMUGGLED)
    yield "Expect and a request as content", post(hidden, SMUGGLED), EXPECT, "accept"


def upgrades():
    yield "websocket", get(WEBSOCKET), UPGRADE, "either"
    yield "websocket, then a request", get(WEBSOCKET) + SMUGGLED, UPGRADE, "either"
    yield "websocket with content", post(WEBSOCKET + b"Content-Length: 5\r\n", b"hello"), UPGRADE, "either"
    yield "websocket, wrong version", get(WEBSOCKET.replace(b"13", b"777")) + SMUGGLED, UPGRADE, "either"
    yield "h2c", get(H2C), UPGRADE, "either", {"never": ("upgrade", "http2-settings")}
    yield "h2c, then frames", get(H2C) + H2_PREFACE, UPGRADE, "either", {"never": ("upgrade", "http2-settings")}
    yield "h2c without Connection", get(H2C.split(b"\r\n", 1)[1]), UPGRADE, "either", {"never": ("http2-settings",)}
    yield "h2c and websocket", get(WEBSOCKET.replace(b"websocket", b"websocket, h2c")), UPGRADE, "either"
    yield "TLS upgrade", get(b"Connection: Upgrade\r\nUpgrade: TLS/1.2\r\n"), "RFC 2817 §3.1", "either"
    yield "HTTP/2 preface", H2_PREFACE, "RFC 9113 §3.4", "either"
    yield "PRI as a method", b"PRI * HTTP/1.1\r\nHost: garden.test\r\n\r\n", "RFC 9113 §3.4", "reject"


CASES = table("connections", [
    *hop_by_hop(), *expectations(), *upgrades(),
    ("pipelining, two GET", get() + SMUGGLED, "RFC 9112 §9.3.2", "accept"),
    ("pipelining, POST and GET", post(b"Content-Length: 5\r\n", b"hello") + SMUGGLED, "RFC 9112 §9.3.2", "accept"),
    ("pipelining, chunks and GET", post(b"Transfer-Encoding: chunked\r\n", b"5\r\nhello\r\n0\r\n\r\n") + SMUGGLED, "RFC 9112 §9.3.2", "accept"),
    ("pipelining, HEAD and GET", get(method=b"HEAD") + SMUGGLED, "RFC 9112 §9.3.2", "accept"),
    ("pipelining, ten GET", get() * 10 + SMUGGLED, "RFC 9112 §9.3.2", "accept"),
    ("pipelining, a good and a bad one", get() + SMUGGLED.replace(b"\r\n", b"\n"), "RFC 9112 §9.3.2", "either"),
    ("two bytes after the content", post(b"Content-Length: 5\r\n", b"hello\r\n"), "RFC 9112 §2.2", "accept"),
    ("junk after the content", post(b"Content-Length: 5\r\n", b"helloXYZ"), "RFC 9112 §9.3", "either"),
    ("close, then a request", get(b"Connection: close\r\n") + SMUGGLED, "RFC 9112 §9.6", "either"),
    ("TLS hello in plain text", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 32, "RFC 9112 §3", "reject"),
    ("HTTP/1.0 without keep-alive, then a request", get(version=b"HTTP/1.0") + SMUGGLED, "RFC 9112 §9.3", "either"),
    ("HTTP/1.0 keep-alive", get(b"Connection: keep-alive\r\n", version=b"HTTP/1.0"), "RFC 9112 §9.3", "either"),
])
