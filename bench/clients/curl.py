"""curl as a client, HTTP/1.1 and HTTP/2. Each check asserts on the bytes and the fields that arrive."""

import hashlib
import json
import subprocess

from web import tools

from .checks import Skip, check, pattern

VERSIONS = ("--http1.1", "--http2")


def curl(place, *words, code=0, content=None):
    """Runs curl; its standard output. `code` is the expected exit code, or None for any but 0."""
    if not tools.find("curl"):
        raise Skip("curl is not installed")
    command = ["curl", "-sS", "--max-time", "120", "--cacert", place.certificate, *words]
    done = subprocess.run(command, input=content, capture_output=True, timeout=150, check=False)
    right = done.returncode != 0 if code is None else done.returncode == code
    assert right, f"exit code {done.returncode}, expected {'a failure' if code is None else code}: {done.stderr.decode().strip()}"
    return done.stdout


@check("curl", "GET of 10 MB, h1 and h2")
def get(place):
    for version in VERSIONS:
        out = curl(place, version, "-w", "%{http_version}", f"{place.url}/bytes?n=10000000")
        expected = b"1.1" if version == "--http1.1" else b"2"
        assert out.endswith(expected), f"the version is {out[10000000:]}"
        assert out[:10000000] == pattern(10000000), "other bytes"


@check("curl", "plain HTTP")
def plain(place):
    assert curl(place, f"http://localhost:{place.plain}/bytes?n=100") == pattern(100)


@check("curl", "upload of 100 MB, h1 and h2")
def upload(place):
    path = place.folder / "upload"
    data = pattern(100_000_000)
    path.write_bytes(data)
    for version in VERSIONS:
        found = json.loads(curl(place, version, "-T", str(path), f"{place.url}/sum"))
        assert found["length"] == len(data) and found["sha256"] == hashlib.sha256(data).hexdigest(), found
        assert found["declared"] == len(data), f"the length was declared as {found['declared']}"


@check("curl", "upload without a length")
def chunked(place):
    data = pattern(3_000_000)
    for version in VERSIONS:
        # From a pipe, curl does not know the length.
        words = (version, "-X", "POST", "-T", "-", f"{place.url}/sum")
        found = json.loads(curl(place, *words, content=data))
        assert found["length"] == len(data) and found["sha256"] == hashlib.sha256(data).hexdigest(), found


@check("curl", "100-continue")
def expect(place):
    path = place.folder / "small"
    path.write_bytes(b"x" * 5000)
    out = curl(place, "--http1.1", "-v", "--stderr", "-", "-H", "Expect: 100-continue", "--data-binary", f"@{path}", f"{place.url}/sum")
    assert b"< HTTP/1.1 100 Continue" in out, "no 100 came"
    assert b'"length":5000' in out


@check("curl", "HEAD")
def head(place):
    for version in VERSIONS:
        out = curl(place, version, "-I", f"{place.url}/bytes?n=12345").lower()
        assert b"content-length: 12345" in out, out


@check("curl", "ranges and conditions")
def ranges(place):
    for version in VERSIONS:
        assert curl(place, version, "-r", "1000-1999", f"{place.url}/bytes?n=5000") == pattern(5000)[1000:2000]
        out = curl(place, version, "-i", "-H", 'If-None-Match: "pattern"', f"{place.url}/bytes?n=5000")
        assert b" 304" in out.split(b"\r\n")[0] and out.endswith(b"\r\n\r\n"), out


@check("curl", "statuses without content")
def statuses(place):
    for version in VERSIONS:
        for code in (204, 304):
            out = curl(place, version, "-i", f"{place.url}/status?code={code}", f"{place.url}/bytes?n=10")
            assert out.endswith(pattern(10)), f"after {code}: {out[-60:]}"


@check("curl", "trailers of a response")
def trailers(place):
    for version in VERSIONS:
        out = curl(place, version, "-D", "-", "-H", "TE: trailers", f"{place.url}/stream?n=1000", "-o", str(place.folder / "out"))
        assert b"x-checksum: done" in out.lower(), f"{version}: no trailer came"


@check("curl", "early hints")
def hints(place):
    for version in VERSIONS:
        out = curl(place, version, "-i", f"{place.url}/hints")
        assert b" 103" in out.split(b"\r\n")[0], f"{version}: the first status is {out.split(bytes([13, 10]))[0]}"
        assert out.endswith(b"after hints")


@check("curl", "response before the end of an upload")
def early(place):
    path = place.folder / "upload"
    path.write_bytes(pattern(20_000_000))
    for version in VERSIONS:
        out = curl(place, version, "-H", "Expect:", "-o", str(place.folder / "out"), "-w", "%{http_code}", "-T", str(path), f"{place.url}/early")
        assert out == b"413", out


@check("curl", "cut-off responses are failures")
def cut_off(place):
    for version in VERSIONS:
        for path in ("cut-length", "cut-chunks"):
            curl(place, version, "--fail", f"{place.url}/{path}", code=None)


@check("curl", "response until the connection closes")
def until_close(place):
    for version in VERSIONS:
        assert curl(place, version, f"{place.url}/until-close") == b"0123456789"


@check("curl", "bad length of a response is 502")
def bad_length(place):
    out = curl(place, "--http1.1", "-o", "/dev/null", "-w", "%{http_code}", f"{place.url}/bad-length")
    assert out == b"502", out


@check("curl", "client that gives up")
def gives_up(place):
    curl(place, "--max-time", "1", f"{place.url}/slow?ms=5000", code=28)
    assert curl(place, f"{place.url}/bytes?n=10") == pattern(10)


@check("curl", "two requests on one connection")
def reuse(place):
    for version in VERSIONS:
        url = f"{place.url}/bytes?n=10"
        out = curl(place, version, "-w", "%{num_connects} ", "-o", "/dev/null", "-o", "/dev/null", url, url)
        assert out.split() == [b"1", b"0"], out


@check("curl", "forwarding fields")
def forwarding(place):
    out = curl(place, "--http1.1", "-H", "X-Forwarded-For: 192.0.2.1", "-H", "Connection: X-Forwarded-For", f"{place.url}/sum")
    headers = json.loads(out)["headers"]
    assert headers.get("X-Forwarded-For"), f"no X-Forwarded-For: {headers}"
    assert "127.0.0.1" in headers["X-Forwarded-For"][-1], headers["X-Forwarded-For"]
