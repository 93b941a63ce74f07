"""HTTP/2 requests that become dangerous as HTTP/1.1 (RFC 9113 §8.2 and §8.3). `data` is (header list, content or None)."""

from web.frames import request

from . import SMUGGLED, table

FIELDS, PSEUDO, LENGTH = "RFC 9113 §8.2", "RFC 9113 §8.3", "RFC 9113 §8.1.1"
P = b"/p-@ID@"
CRLF = b"\r\n"


def fields(*more, **changes):
    """The header list of a GET with further fields; `path=`, `method=`, `authority=` replace those."""
    return request(changes.pop("path", P), more=more, **changes)


def post(*more, **changes):
    return fields(*more, method=b"POST", **changes)


def injected():
    """Bytes in names, values and pseudo fields that end a line of HTTP/1."""
    for name, bad in (("CR LF", CRLF), ("LF", b"\n"), ("CR", b"\r"), ("NUL", b"\0")):
        tail = bad + b"transfer-encoding: chunked" if bad != b"\0" else bad
        yield f"{name} in a value", (fields((b"x", b"a" + tail)), None), "RFC 9113 §8.2.1", "reject"
        yield f"{name} in a name", (fields((b"x" + bad + b"y", b"a")), None), "RFC 9113 §8.2.1", "reject"
        yield f"{name} in :path", (fields(path=P + bad + b"x"), None), PSEUDO, "reject"
        yield f"{name} in :method", (fields(method=b"GET" + bad), None), PSEUDO, "reject"
        yield f"{name} in :authority", (fields(authority=b"garden.test" + bad), None), PSEUDO, "reject"
    whole = b"a" + CRLF + CRLF + SMUGGLED
    yield "a request in a value", (fields((b"x", whole)), None), "RFC 9113 §8.2.1", "reject"
    yield "a request in a name", (fields((whole, b"a")), None), "RFC 9113 §8.2.1", "reject"
    yield "a request in :path", (fields(path=P + b" HTTP/1.1" + CRLF + CRLF + SMUGGLED), None), PSEUDO, "reject"
    yield "a request in :method", (fields(method=b"GET /s-@ID@ HTTP/1.1" + CRLF + b"x: "), None), PSEUDO, "reject"
    yield "a request in :authority", (fields(authority=b"a" + CRLF + CRLF + SMUGGLED), None), PSEUDO, "reject"
    yield "a request in :scheme", ([(b":scheme", b"http://garden.test/s-@ID@?") if name == b":scheme" else (name, value)
                                    for name, value in fields()], None), PSEUDO, "either"


def names_and_values():
    for name in (b"X-Upper", b"x y", b"x:y", b"x(", b"", b"x\x7f", b"x\xe9", b" x", b"x ", b"transfer-encoding ", b"content-length:"):
        yield f"name {name!r}", (fields((name, b"a")), None), "RFC 9113 §8.2.1", "reject"
    yield "blank before a value", (fields((b"x", b" a")), None), "RFC 9113 §8.2.1", "reject"
    yield "blank after a value", (fields((b"x", b"a ")), None), "RFC 9113 §8.2.1", "reject"
    for name, value in ((b"transfer-encoding", b"chunked"), (b"connection", b"close"), (b"connection", b"x-forwarded-for"),
                        (b"keep-alive", b"timeout=5"), (b"proxy-connection", b"keep-alive"), (b"upgrade", b"h2c"), (b"te", b"gzip")):
        yield f"field {name.decode()}: {value.decode()}", (post((name, value)), b"0\r\n\r\n" + SMUGGLED), "RFC 9113 §8.2.2", "reject"
    yield "field te: trailers", (fields((b"te", b"trailers")), None), "RFC 9113 §8.2.2", "accept"
    yield "field transfer_encoding", (post((b"transfer_encoding", b"chunked")), b"0\r\n\r\n" + SMUGGLED), FIELDS, "either"
    yield "two cookies", (fields((b"cookie", b"a=b"), (b"cookie", b"c=d")), None), "RFC 9113 §8.2.3", "accept"
    yield "field proxy", (fields((b"proxy", b"http://192.0.2.1/")), None), "RFC 3875 §4.1.18", "either", {"never": ("proxy",)}
    yield "200 fields", (fields(*((b"x%d" % n, b"y") for n in range(200))), None), "RFC 9113 §10.5.1", "reject"
    yield "expect unknown", (post((b"expect", b"x"), (b"content-length", b"5")), b"hello"), "RFC 9110 §10.1.1", "either"
    yield "expect 100-continue", (post((b"expect", b"100-continue"), (b"content-length", b"5")), b"hello"), "RFC 9110 §10.1.1", "accept"


def lengths():
    body = b"0\r\n\r\n" + SMUGGLED
    for name, value in (("shorter", b"3"), ("zero", b"0"), ("longer", b"%d" % (len(body) + 9)), ("sign", b"+%d" % len(body)),
                        ("list", b"%d, %d" % (len(body), len(body))), ("empty", b""), ("no number", b"x")):
        yield f"content-length {name}", (post((b"content-length", value)), body), LENGTH, "reject"
    twice = ((b"content-length", b"%d" % len(body)), (b"content-length", b"0"))
    yield "content-length twice", (post(*twice), body), LENGTH, "reject"
    yield "content-length without content", (post((b"content-length", b"5")), None), LENGTH, "reject"
    yield "content that is a request", (post((b"content-length", b"%d" % len(SMUGGLED))), SMUGGLED), LENGTH, "accept"
    yield "content without a length", (post(), SMUGGLED), LENGTH, "accept"
    yield "GET with content", (fields(), SMUGGLED), LENGTH, "either"


def pseudo():
    path, method = (b":path", b"/s-@ID@"), (b":method", b"POST")
    yield "two :path", (fields() + [path], None), PSEUDO, "reject"
    yield "two :method", ([method] + fields(), None), PSEUDO, "reject"
    yield "two :authority", ([(b":authority", b"other.test")] + fields(), None), PSEUDO, "reject"
    yield "pseudo after a field", ([(b"x", b"y")] + fields(), None), PSEUDO, "reject"
    yield "unknown pseudo", ([(b":x", b"y")] + fields(), None), PSEUDO, "reject"
    yield ":status in a request", ([(b":status", b"200")] + fields(), None), PSEUDO, "reject"
    yield ":protocol without a setting", ([(b":protocol", b"websocket")] + fields(), None), "RFC 8441 §4", "reject"
    for missing in (b":path", b":method", b":scheme"):
        yield f"no {missing.decode()}", ([pair for pair in fields() if pair[0] != missing], None), PSEUDO, "reject"
    yield "no :authority and no host", ([pair for pair in fields() if pair[0] != b":authority"], None), PSEUDO, "either"
    yield ":authority and host, equal", (fields((b"host", b"garden.test")), None), "RFC 9113 §8.3.1", "accept"
    yield ":authority and host, different", (fields((b"host", b"other.test")), None), "RFC 9113 §8.3.1", "reject"
    yield ":authority and two host", (fields((b"host", b"garden.test"), (b"host", b"other.test")), None), "RFC 9113 §8.3.1", "reject"
    for authority in (b"a/b@c", b"u@garden.test", b"a b", b"a?b", b"a#b", b"", b"garden.test, other.test"):
        yield f":authority {authority!r}", (fields(authority=authority), None), "RFC 9113 §8.3.1", "reject"
    for name, value in (("empty", b""), ("without a slash", b"p-@ID@"), ("`*` of GET", b"*"), ("blank", P + b" HTTP/1.1"),
                        ("absolute", b"http://other.test/p-@ID@"), ("DEL", P + b"\x7f"), ("tab", P + b"\tx"), ("0xff", P + b"\xff")):
        yield f":path {name}", (fields(path=value), None), PSEUDO, "reject"
    yield ":path fragment", (fields(path=P + b"#x"), None), "RFC 9113 §8.3.1", "reject"
    for value in (b"GET /s-@ID@", b"GE T", b"", b"G(T", b"GET\t"):
        yield f":method {value!r}", (fields(method=value), None), PSEUDO, "reject"
    yield ":method CONNECT with a path", (fields(method=b"CONNECT"), None), "RFC 9113 §8.5", "reject"
    yield ":method in lower case", (fields(method=b"get"), None), "RFC 9110 §9.1", "either"
    yield "GET", (fields(), None), PSEUDO, "accept"


def build():
    cases = table("h2 to h1", [*injected(), *names_and_values(), *lengths(), *pseudo()])
    for case in cases:
        case.version = "h2"
    return cases


CASES = build()
