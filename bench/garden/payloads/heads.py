"""Payloads about request lines, fields and Host (RFC 9112 §2 to §5, RFC 9110 §5 and §7)."""

from . import HOST, SMUGGLED, get, table

LINE, NAME, VALUE, HOSTS = "RFC 9112 §3", "RFC 9110 §5.1", "RFC 9110 §5.5", "RFC 9112 §3.2"
G = b"GET /p-@ID@ HTTP/1.1"


def with_line(line, host=HOST):
    return line + b"\r\n" + host + b"\r\n"


def request_lines():
    P = b"/p-@ID@"
    spellings = {
        "two blanks before the target": b"GET  " + P + b" HTTP/1.1", "tab before the target": b"GET\t" + P + b" HTTP/1.1",
        "two blanks before the version": b"GET " + P + b"  HTTP/1.1", "blank after the version": G + b" ",
        "blank before the method": b" " + G, "blank in the target": b"GET " + P + b" x HTTP/1.1",
        "no version": b"GET " + P, "no target": b"GET HTTP/1.1", "version 2.0": b"GET " + P + b" HTTP/2.0",
        "version 1.10": b"GET " + P + b" HTTP/1.10",
        "version 0.9": b"GET " + P + b" HTTP/0.9", "version in lower case": b"GET " + P + b" http/1.1",
        "version with a plus": b"GET " + P + b" HTTP/+1.1", "version 1,1": b"GET " + P + b" HTTP/1,1",
        "version with a letter": b"GET " + P + b" HTTP/1.x", "method with a colon": b"GE:T " + P + b" HTTP/1.1",
        "method with NUL": b"GE\0T " + P + b" HTTP/1.1", "no method": P + b" HTTP/1.1",
        "target without a slash": b"GET p-@ID@ HTTP/1.1", "target with a fragment": b"GET " + P + b"#x HTTP/1.1",
        "target with NUL": b"GET " + P + b"\0 HTTP/1.1", "target with 0x01": b"GET " + P + b"\x01 HTTP/1.1",
        "target with DEL": b"GET " + P + b"\x7f HTTP/1.1", "target with UTF-8": b"GET " + P + "é".encode() + b" HTTP/1.1",
        "target with 0xff": b"GET " + P + b"\xff HTTP/1.1", "target with a bare CR": b"GET " + P + b"\rX HTTP/1.1",
        "target `*` of GET": b"GET * HTTP/1.1", "bare CR at the end": G + b"\rX: y",
        "target of 40,000 bytes": b"GET " + P + b"x" * 40000 + b" HTTP/1.1",
    }
    for name, line in spellings.items():
        yield f"line: {name}", with_line(line), LINE, "reject"
    yield "line: method in lower case", with_line(b"get " + P + b" HTTP/1.1"), "RFC 9110 §9.1", "either"
    yield "line: unknown method", with_line(b"GARDEN " + P + b" HTTP/1.1"), "RFC 9110 §9.1", "either"
    yield "line: OPTIONS *", with_line(b"OPTIONS * HTTP/1.1"), "RFC 9112 §3.2.4", "either"
    yield "line: two slashes", with_line(b"GET /" + P + b" HTTP/1.1"), LINE, "accept"
    yield "line: dot segments", with_line(b"GET /p-@ID@/../x/./y HTTP/1.1"), "RFC 3986 §6.2.2.3", "either"
    yield "line: percent signs", with_line(b"GET /p-@ID@%2f..%00%zz HTTP/1.1"), "RFC 3986 §2.1", "either"
    yield "line: brackets and quotes", with_line(b'GET /p-@ID@?a[]="{}|\\^`<> HTTP/1.1'), LINE, "either"
    yield "line: TRACE", with_line(b"TRACE " + P + b" HTTP/1.1"), "RFC 9110 §9.3.8", "either"
    yield "line: CONNECT", b"CONNECT garden.test:443 HTTP/1.1\r\nHost: garden.test:443\r\n\r\n", "RFC 9110 §9.3.6", "405"
    yield "line: CONNECT with a path", with_line(b"CONNECT " + P + b" HTTP/1.1"), "RFC 9110 §9.3.6", "reject"
    yield "line: version 1.2", with_line(b"GET " + P + b" HTTP/1.2"), "RFC 9110 §2.5", "accept"
    yield "line: HTTP/1.0", get(version=b"HTTP/1.0"), LINE, "accept"
    yield "line: HTTP/1.0 without Host", get(version=b"HTTP/1.0", host=b""), HOSTS, "either"


def line_ends():
    yield "ends: LF everywhere", get().replace(b"\r\n", b"\n"), "RFC 9112 §2.2", "reject"
    yield "ends: LF after the request line", G + b"\n" + HOST + b"\r\n", "RFC 9112 §2.2", "reject"
    yield "ends: LF after a field", G + b"\r\n" + HOST[:-2] + b"\nX: y\r\n\r\n", "RFC 9112 §2.2", "reject"
    yield "ends: LF as the empty line", G + b"\r\n" + HOST + b"\n", "RFC 9112 §2.2", "reject"
    yield "ends: CR as the empty line", G + b"\r\n" + HOST + b"\r" + SMUGGLED, "RFC 9112 §2.2", "reject"
    yield "ends: LF CR LF hides a request", G + b"\r\n" + HOST + b"X: y\n\r\n" + SMUGGLED, "RFC 9112 §2.2", "reject"
    yield "ends: CR within a value", get(b"X: a\rb\r\n"), VALUE, "reject"
    yield "ends: CR before a field", get(b"X: a\rY: b\r\n"), VALUE, "reject"
    yield "ends: one empty line before", b"\r\n" + get(), "RFC 9112 §2.2", "accept"
    yield "ends: five empty lines before", b"\r\n" * 5 + get(), "RFC 9112 §2.2", "reject"
    yield "ends: LF before", b"\n" + get(), "RFC 9112 §2.2", "reject"


def fields():
    names = {"blank before the colon": b"X : y", "tab before the colon": b"X\t: y", "blank within the name": b"X Y: z",
             "no colon": b"nonsense", "no name": b": y", "NUL in the name": b"X\0: y", "UTF-8 in the name": "é: y".encode(),
             "parenthesis in the name": b"X(: y", "slash in the name": b"X/Y: z", "0x01 before the name": b"\x01X: y",
             "blank before the first name": b" X: y", "obs-fold": b"X: y\r\n z", "obs-fold with a tab": b"X: y\r\n\tz"}
    for name, line in names.items():
        yield f"field: {name}", get(line + b"\r\n"), NAME, "400"
    for name, value in {"NUL": b"a\0b", "0x01": b"a\x01b", "DEL": b"a\x7fb", "vertical tab": b"a\x0bb", "form feed": b"\x0c", "ESC": b"\x1b"}.items():
        yield f"value: {name}", get(b"X: " + value + b"\r\n"), VALUE, "400"
    yield "field: blank before Host", G + b"\r\n " + HOST + b"\r\n", "RFC 9112 §2.2", "400"
    yield "value: tab within", get(b"X: a\tb\r\n"), VALUE, "accept"
    yield "value: obs-text", get(b"X: \xe9\xff\r\n"), VALUE, "either"
    yield "value: empty", get(b"X:\r\n"), VALUE, "accept"
    yield "field: underscore", get(b"X_Garden: y\r\n"), NAME, "either"
    yield "field: underscore in a forwarding name", get(b"X_Forwarded_For: 192.0.2.1\r\n"), NAME, "either"
    yield "field: Proxy", get(b"Proxy: http://192.0.2.1/\r\n"), "RFC 3875 §4.1.18", "either", {"never": ("proxy",)}
    yield "field: 200 fields", get(b"".join(b"X%d: y\r\n" % n for n in range(200))), "RFC 9110 §5.4", "reject"
    yield "field: 100 fields", get(b"".join(b"X%d: y\r\n" % n for n in range(90))), "RFC 9110 §5.4", "either"
    yield "field: 40,000 bytes", get(b"X: " + b"y" * 40000 + b"\r\n"), "RFC 9110 §5.4", "reject"
    yield "field: 7,000 bytes", get(b"X: " + b"y" * 7000 + b"\r\n"), "RFC 9110 §5.4", "either"
    yield "field: two cookies", get(b"Cookie: a=b\r\nCookie: c=d\r\n"), "RFC 6265 §5.4", "either"


def hosts():
    bad = {"slash": b"a/b", "userinfo": b"u@garden.test", "userinfo and slash": b"a/b@c", "blank within": b"a b", "comma": b"a, b",
           "fragment": b"a#b", "question mark": b"a?b", "backslash": b"a\\b", "port not a number": b"a:b", "two ports": b"a:1:2",
           "bracket": b"[::1", "quote": b'"a"', "0xff": b"a\xff", "percent": b"a%zz"}
    for name, value in bad.items():
        yield f"host: {name}", get(host=b"Host: " + value + b"\r\n"), HOSTS, "400"
    yield "host: none", get(host=b""), HOSTS, "400"
    yield "host: two, equal", get(HOST), HOSTS, "400"
    yield "host: two, different", get(b"Host: other.test\r\n"), HOSTS, "400"
    yield "host: two, the second with a blank", get(b"Host : other.test\r\n"), HOSTS, "400"
    yield "host: empty", get(host=b"Host:\r\n"), HOSTS, "either"
    yield "host: with a port", get(host=b"Host: garden.test:80\r\n"), HOSTS, "accept"
    yield "host: IPv6", get(host=b"Host: [::1]:80\r\n"), HOSTS, "accept"
    yield "host: upper case", get(host=b"Host: GARDEN.TEST\r\n"), HOSTS, "accept"
    absolute = "RFC 9112 §3.2.2"
    yield "absolute: equal to Host", get(target=b"http://garden.test/p-@ID@"), absolute, "accept"
    yield "absolute: other than Host", get(target=b"http://other.test/p-@ID@"), absolute, "400"
    yield "absolute: userinfo", get(target=b"http://garden.test@other.test/p-@ID@"), absolute, "reject"
    yield "absolute: without Host", get(target=b"http://garden.test/p-@ID@", host=b""), absolute, "400"
    yield "absolute: other scheme", get(target=b"ftp://garden.test/p-@ID@"), absolute, "either"
    yield "absolute: port", get(target=b"http://garden.test:81/p-@ID@"), absolute, "400"
    yield "absolute: no path", get(target=b"http://garden.test?p-@ID@"), absolute, "either"


CASES = table("heads", [*request_lines(), *line_ends(), *fields(), *hosts()])
