"""Payloads about chunked content: sizes, extensions, line ends, trailers (RFC 9112 §7.1)."""

from . import SMUGGLED, get, post, table

SIZE, EXTENSION, TRAILER = "RFC 9112 §7.1", "RFC 9112 §7.1.1", "RFC 9112 §7.1.2"
LAST = b"0\r\n\r\n"


def chunked(body, headers=b""):
    return post(b"Transfer-Encoding: chunked\r\n" + headers, body)


def one(size, data=b"hello", end=b"\r\n"):
    """A message of one chunk of this size line and the last one."""
    return chunked(size + b"\r\n" + data + end + LAST)


def sizes():
    """A size of the chunk `hello` that is no plain hexadecimal number."""
    spellings = {
        "0x prefix": b"0x5", "plus sign": b"+5", "minus sign": b"-5", "blank before": b" 5",
        "empty": b"", "underscore": b"0_5", "no hexadecimal": b"g", "2^64 + 5": b"10000000000000005",
        "decimal point": b"5.", "comma": b"5,", "quote": b'"5"', "NUL": b"5\0", "bare CR": b"5\r", "form feed": b"5\x0c", "h suffix": b"5h",
        "blanks before a bad extension": b"5 x", "full-width digit": "５".encode(),
    }
    for name, size in spellings.items():
        yield f"size with {name}", one(size), SIZE, "reject"
    # Taken, and written again without them (docs/http/rules.md).
    for name, size in (("blank after", b"5 "), ("tab after", b"5\t"), ("17 digits", b"00000000000000005")):
        yield f"size with {name}", one(size), SIZE, "accept"
    yield "size of 16 digits", one(b"0000000000000005"), SIZE, "accept"
    yield "size 2^63", one(b"8000000000000000"), SIZE, "either"
    yield "size 2^64 - 1", one(b"ffffffffffffffff"), SIZE, "either"
    yield "size in upper case", chunked(b"A\r\n0123456789\r\n" + LAST), SIZE, "accept"


def line_ends():
    """Ends of the size line, of the chunk and of the message that are not CRLF."""
    hidden = b"0\r\n\r\n" + SMUGGLED
    yield "size ends with LF", chunked(b"5\nhello\r\n" + LAST), SIZE, "reject"
    yield "size ends with CR", chunked(b"5\rhello\r\n" + LAST), SIZE, "reject"
    yield "size ends with CR CR LF", chunked(b"5\r\r\nhello\r\n" + LAST), SIZE, "reject"
    yield "chunk ends with LF", chunked(b"5\r\nhello\n" + LAST), SIZE, "reject"
    yield "chunk ends with CR", chunked(b"5\r\nhello\r" + LAST), SIZE, "reject"
    yield "chunk ends with two other bytes", chunked(b"5\r\nhelloXX" + LAST), SIZE, "reject"
    yield "chunk without an end", chunked(b"5\r\nhello" + LAST), SIZE, "reject"
    yield "chunk longer than its size", chunked(b"5\r\nhello!\r\n" + LAST), SIZE, "reject"
    yield "last chunk ends with LF LF", chunked(b"5\r\nhello\r\n0\n\n"), SIZE, "reject"
    yield "last chunk ends with CRLF LF", chunked(b"5\r\nhello\r\n0\r\n\n"), SIZE, "reject"
    yield "last chunk with LF, then a request", chunked(b"0\n\r\n" + SMUGGLED), SIZE, "reject"
    yield "LF in an extension, then a request", chunked(b"5;a\nhello\r\n" + hidden), EXTENSION, "reject"
    yield "LF in an extension hides the end", chunked(b"2;\nxx\r\n45\r\n0\r\n\r\n" + SMUGGLED + b"\r\n" + LAST), EXTENSION, "reject"
    yield "CR in an extension", chunked(b"5;a\rb\r\nhello\r\n" + LAST), EXTENSION, "reject"
    yield "an empty line before a size", chunked(b"5\r\nhello\r\n\r\n" + LAST), SIZE, "reject"
    yield "an empty line before the first size", chunked(b"\r\n5\r\nhello\r\n" + LAST), SIZE, "reject"


def extensions():
    yield "extension", one(b"5;name=value"), EXTENSION, "accept"
    yield "extension without a value", one(b"5;name"), EXTENSION, "accept"
    yield "extension quoted", one(b'5;name="a b;c"'), EXTENSION, "accept"
    yield "extension quote not closed", one(b'5;name="a'), EXTENSION, "reject"
    yield "extension without a name", one(b"5;"), EXTENSION, "reject"
    yield "extension with a control character", one(b"5;a\x01"), EXTENSION, "reject"
    yield "extension with NUL", one(b"5;a=\0"), EXTENSION, "reject"
    yield "extension of 257 bytes", one(b"5;" + b"a" * 257), EXTENSION, "reject"
    yield "extension of 20,000 bytes", one(b"5;" + b"a" * 20000), EXTENSION, "reject"
    yield "extensions of 20,000 bytes together", chunked(b"".join(b"1;" + b"a" * 200 + b"\r\nx\r\n" for _ in range(100)) + LAST), EXTENSION, "reject"


def trailers():
    head = b"5\r\nhello\r\n0\r\n"
    for name in (b"Content-Length: 5", b"Transfer-Encoding: chunked", b"Host: other.test", b"Content-Encoding: gzip",
                 b"X-Forwarded-For: 192.0.2.1", b"Connection: close", b"Authorization: Basic eDp5", b"Content-Length : 5"):
        field = name.split(b":")[0].decode().strip().lower()
        # Some refuse the message, some remove the field: none may pass it on.
        never = () if field in ("content-length", "transfer-encoding", "host", "connection") else (field,)
        if field in ("content-encoding", "x-forwarded-for", "authorization"):
            never = ()
        yield f"trailer {name.decode()}", chunked(head + name + b"\r\n\r\n"), TRAILER, "either", {"never": never}
    yield "trailer", chunked(head + b"X-Checksum: 1\r\n\r\n", b"Trailer: X-Checksum\r\n"), TRAILER, "accept"
    yield "trailer without a colon", chunked(head + b"nonsense\r\n\r\n"), TRAILER, "reject"
    yield "trailer with obs-fold", chunked(head + b"A: b\r\n c\r\n\r\n"), TRAILER, "reject"
    yield "trailer with bare LF", chunked(head + b"A: b\n\r\n"), TRAILER, "reject"
    yield "trailer with NUL", chunked(head + b"A: b\0\r\n\r\n"), TRAILER, "reject"
    yield "trailer that is a request", chunked(head + SMUGGLED), TRAILER, "reject"
    yield "trailers, 200", chunked(head + b"".join(b"x%d: y\r\n" % n for n in range(200)) + b"\r\n"), TRAILER, "reject"


CASES = table("chunks", [
    *sizes(), *line_ends(), *extensions(), *trailers(),
    ("two chunks", chunked(b"3\r\nhel\r\n2\r\nlo\r\n" + LAST), SIZE, "accept"),
    ("no content", chunked(LAST), SIZE, "accept"),
    ("a chunk that is a request", chunked(b"%x\r\n" % len(SMUGGLED) + SMUGGLED + b"\r\n" + LAST), SIZE, "accept"),
    ("size zero written as 000", chunked(b"000\r\n\r\n"), SIZE, "accept"),
    ("cut off within a chunk", chunked(b"ff\r\nhello"), "RFC 9112 §8", "either"),
    ("GET of HTTP/1.0 with chunks", get(b"Transfer-Encoding: chunked\r\n", version=b"HTTP/1.0") + LAST, "RFC 9112 §6.1", "400"),
])
