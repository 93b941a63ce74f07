"""Payloads about the length of a message: Content-Length, Transfer-Encoding, and both (RFC 9112 §6)."""

from . import HOST, SMUGGLED, get, post, table

CL, TE = b"Content-Length: ", b"Transfer-Encoding: "
BOTH = "RFC 9112 §6.1"
CHUNKED = TE + b"chunked\r\n"
EMPTY = b"0\r\n\r\n"


def te_obfuscated():
    """A Transfer-Encoding that one parser reads as chunked and another one ignores, beside a Content-Length that hides a request."""
    body = EMPTY + SMUGGLED
    spellings = {
        "blank before the colon": b"Transfer-Encoding : chunked\r\n",
        "tab before the colon": b"Transfer-Encoding\t: chunked\r\n",
        "xchunked": TE + b"xchunked\r\n",
        "chunked with a tab before": b"Transfer-Encoding:\tchunked\r\n",
        "vertical tab before the value": TE + b"\x0bchunked\r\n",
        "form feed after the value": TE + b"chunked\x0c\r\n",
        "quoted": TE + b'"chunked"\r\n',
        "upper case": TE + b"CHUNKED\r\n",
        "twice in one line": TE + b"chunked, chunked\r\n",
        "twice in two lines": CHUNKED + CHUNKED,
        "comma before": TE + b",chunked\r\n",
        "comma after": TE + b"chunked,\r\n",
        "identity first": TE + b"identity, chunked\r\n",
        "identity last": TE + b"chunked, identity\r\n",
        "identity alone": TE + b"identity\r\n",
        "gzip first": TE + b"gzip, chunked\r\n",
        "a parameter": TE + b"chunked;q=1\r\n",
        "empty": TE + b"\r\n",
        "two lines, the second unknown": CHUNKED + TE + b"x\r\n",
        "two lines, the first unknown": TE + b"x\r\n" + CHUNKED,
        "obs-fold before the value": b"Transfer-Encoding:\r\n chunked\r\n",
        "obs-fold after the value": TE + b"chunked\r\n \r\n",
        "blank before the name": b" Transfer-Encoding: chunked\r\n",
        "bare CR in the name": b"X: y\rTransfer-Encoding: chunked\r\n",
        "bare LF before the name": b"X: y\nTransfer-Encoding: chunked\r\n",
        "underscore": b"Transfer_Encoding: chunked\r\n",
        "NUL after the value": TE + b"chunked\0\r\n",
        "byte 0xff before the value": TE + b"\xffchunked\r\n",
        "in `Connection`": b"Connection: Transfer-Encoding\r\n" + CHUNKED,
    }
    for name, line in spellings.items():
        # A field of another name or a CL listed in Connection leaves one clear length; only then the request may pass.
        verdict = "either" if name == "underscore" else "reject"
        yield f"TE and CL, {name}", post(CL + b"%d\r\n" % len(body) + line, body), BOTH, verdict
        if name not in ("underscore", "upper case", "chunked with a tab before", "in `Connection`"):
            yield f"TE alone, {name}", post(line, EMPTY), "RFC 9112 §6.1", "reject"


def lengths():
    """A Content-Length alone that is no plain number."""
    spellings = {
        "plus sign": b"+5", "minus sign": b"-5", "hexadecimal": b"0x5", "list of equal": b"5, 5", "list of others": b"5, 6",
        "leading comma": b",5", "trailing comma": b"5,", "empty": b"", "blank within": b"1 5", "decimal point": b"5.0",
        "exponent": b"5e0", "underscore": b"0_5", "octal": b"0o5", "20 digits": b"99999999999999999999", "quoted": b'"5"',
        "2^64 + 5": b"18446744073709551621", "Arabic digits": "٥".encode(), "NUL": b"5\0", "vertical tab": b"\x0b5",
        "semicolon": b"5;", "tab within": b"5\t5",
    }
    for name, value in spellings.items():
        yield f"CL {name}", post(CL + value + b"\r\n", b"hello"), "RFC 9110 §8.6", "400"
    yield "CL with zeros in front", post(CL + b"0005\r\n", b"hello"), "RFC 9110 §8.6", "either"
    yield "CL tab before the value", post(b"Content-Length:\t5\r\n", b"hello"), "RFC 9110 §5.5", "accept"
    yield "CL blank after the value", post(CL + b"5  \r\n", b"hello"), "RFC 9110 §5.5", "accept"


CASES = table("framing", [
    ("CL.TE", post(CL + b"%d\r\n" % len(EMPTY + SMUGGLED) + CHUNKED, EMPTY + SMUGGLED), BOTH, "400"),
    ("TE.CL", post(CHUNKED + CL + b"4\r\n", b"%x\r\n" % len(SMUGGLED) + SMUGGLED + b"\r\n0\r\n\r\n"), BOTH, "400"),
    ("CL.0", post(CL + b"%d\r\n" % len(SMUGGLED), SMUGGLED), "RFC 9112 §6.3", "accept"),
    ("CL 0 and TE", post(CL + b"0\r\n" + CHUNKED, EMPTY), BOTH, "400"),
    ("CL twice, equal", post(CL + b"5\r\n" + CL + b"5\r\n", b"hello"), "RFC 9112 §6.3", "400"),
    ("CL twice, the first shorter", post(CL + b"0\r\n" + CL + b"%d\r\n" % len(SMUGGLED), SMUGGLED), "RFC 9112 §6.3", "400"),
    ("CL twice, the second shorter", post(CL + b"%d\r\n" % len(SMUGGLED) + CL + b"0\r\n", SMUGGLED), "RFC 9112 §6.3", "400"),
    ("CL blank before the colon", post(b"Content-Length : 5\r\n", b"hello"), "RFC 9112 §5.1", "400"),
    ("CL obs-fold", post(b"Content-Length:\r\n 5\r\n", b"hello"), "RFC 9112 §5.2", "400"),
    ("CL with an underscore", post(b"Content_Length: 5\r\n", SMUGGLED[:0]), "RFC 9110 §5.1", "either"),
    ("CL listed in `Connection`", post(b"Connection: Content-Length\r\n" + CL + b"%d\r\n" % len(SMUGGLED), SMUGGLED),
     "RFC 9110 §7.6.1", "either"),
    ("TE in HTTP/1.0", post(CHUNKED, EMPTY, version=b"HTTP/1.0"), BOTH, "400"),
    ("TE and CL in HTTP/1.0", post(CL + b"5\r\n" + CHUNKED, EMPTY, version=b"HTTP/1.0"), BOTH, "400"),
    ("TE and keep-alive in HTTP/1.0", post(b"Connection: keep-alive\r\n" + CHUNKED, EMPTY + SMUGGLED, version=b"HTTP/1.0"), BOTH, "400"),
    ("GET with CL", get(CL + b"5\r\n") + b"hello", "RFC 9110 §9.3.1", "either"),
    ("GET with a request as content", get(CL + b"%d\r\n" % len(SMUGGLED)) + SMUGGLED, "RFC 9110 §9.3.1", "either"),
    ("GET with chunks", get(CHUNKED) + b"5\r\nhello\r\n0\r\n\r\n", "RFC 9110 §9.3.1", "either"),
    ("HEAD with a request as content", get(CL + b"%d\r\n" % len(SMUGGLED), method=b"HEAD") + SMUGGLED, "RFC 9110 §9.3.2", "either"),
    ("HTTP/1.0 GET with content", get(CL + b"5\r\n", version=b"HTTP/1.0") + b"hello", "RFC 9112 §6.3", "413"),
    ("HTTP/1.0 HEAD with content", get(CL + b"5\r\n", version=b"HTTP/1.0", method=b"HEAD") + b"hello", "RFC 9112 §6.3", "413"),
    ("HTTP/1.0 DELETE with content", get(CL + b"5\r\n", version=b"HTTP/1.0", method=b"DELETE") + b"hello", "RFC 9112 §6.3", "413"),
    ("POST without a length", b"POST /p-@ID@ HTTP/1.1\r\n" + HOST + b"\r\n", "RFC 9112 §6.3", "either"),
    ("POST with CL", post(CL + b"5\r\n", b"hello"), "RFC 9112 §6.2", "accept"),
    ("POST with chunks", post(CHUNKED, b"5\r\nhello\r\n0\r\n\r\n"), "RFC 9112 §7.1", "accept"),
    ("TE upper case", post(TE + b"CHUNKED\r\n", b"5\r\nhello\r\n0\r\n\r\n"), "RFC 9112 §7", "accept"),
    *te_obfuscated(),
    *lengths(),
])
