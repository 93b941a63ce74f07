"""Python's clients: http.client, requests, httpx over HTTP/2, websockets, and a socket for what they do not do."""

import asyncio
import hashlib
import http.client
import json
import ssl
import time

import httpx
import requests
import websockets

from web import h1

from .checks import check, pattern


def context(place):
    return ssl.create_default_context(cafile=place.certificate)


@check("python", "http.client: 100 requests on one connection")
def standard(place):
    connection = http.client.HTTPSConnection("localhost", place.tls, context=context(place), timeout=30)
    connection.connect()
    first = connection.sock
    for number in range(100):
        connection.request("POST", "/sum", body=pattern(number * 100))
        found = json.loads(connection.getresponse().read())
        assert found["length"] == number * 100, found
    assert connection.sock is first, "the connection was closed"


@check("python", "http.client: cut-off responses")
def cut_off(place):
    for path in ("/cut-length", "/cut-chunks"):
        connection = http.client.HTTPSConnection("localhost", place.tls, context=context(place), timeout=30)
        connection.request("GET", path)
        try:
            response = connection.getresponse()
            body = response.read()
        except (http.client.IncompleteRead, http.client.RemoteDisconnected, OSError):
            continue
        assert response.status == 502, f"{path}: {response.status}, {len(body)} bytes, and no error"


@check("python", "requests: session, GET, streamed upload, range")
def with_requests(place):
    with requests.Session() as session:
        # Not the environment, which may name other authorities.
        session.verify, session.trust_env = place.certificate, False
        assert session.get(f"{place.url}/bytes?n=100000", timeout=30).content == pattern(100000)
        parts = (pattern(10000) for _ in range(50))
        found = session.post(f"{place.url}/sum", data=parts, timeout=30).json()
        assert found["length"] == 500000, found
        answer = session.get(f"{place.url}/bytes?n=1000", headers={"Range": "bytes=10-19"}, timeout=30)
        assert answer.status_code == 206 and answer.content == pattern(1000)[10:20]


@check("python", "httpx: HTTP/2, 50 requests at once")
def with_httpx(place):
    async def main():
        async with httpx.AsyncClient(http2=True, verify=context(place), timeout=30) as client:
            answers = await asyncio.gather(*(client.get(f"{place.url}/bytes?n={number * 100}") for number in range(50)))
            for number, answer in enumerate(answers):
                assert answer.http_version == "HTTP/2", answer.http_version
                assert answer.content == pattern(number * 100)
            found = (await client.post(f"{place.url}/sum", content=pattern(1_000_000))).json()
            assert found["sha256"] == hashlib.sha256(pattern(1_000_000)).hexdigest()

    asyncio.run(main())


@check("python", "websockets: messages of 10 bytes to 1 MB, ping, close")
def with_websockets(place):
    async def main():
        uri = place.url.replace("https", "wss") + "/ws"
        async with websockets.connect(uri, ssl=context(place), max_size=None, compression=None, proxy=None) as socket:
            for length in (10, 126, 70000, 1_000_000):
                await socket.send(pattern(length))
                assert await socket.recv() == pattern(length), f"message of {length} bytes"
            await socket.send("garden")
            assert await socket.recv() == "garden"

    asyncio.run(main())


@check("python", "socket: request trailers reach the backend")
def request_trailers(place):
    connection = h1.Connection(place.tls, tls=True)
    connection.send(b"POST /sum HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sent\r\n\r\n"
                    b"5\r\nhello\r\n0\r\nX-Sent: all\r\n\r\n")
    found = json.loads(connection.response(10).body)
    assert found["trailers"] == {"X-Sent": ["all"]}, f"the backend received {found['trailers']}"


@check("python", "socket: five requests in one write")
def pipelining(place):
    connection = h1.Connection(place.tls, tls=True)
    connection.send(b"".join(b"GET /bytes?n=%d HTTP/1.1\r\nHost: localhost\r\n\r\n" % (number * 1000) for number in range(5)))
    for number in range(5):
        found = connection.response(10)
        assert found and found.body == pattern(number * 1000), f"response {number}"


@check("python", "socket: bytes in both directions at once")
def full_duplex(place):
    connection = h1.Connection(place.tls, tls=True)
    connection.send(b"POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
    found = b""
    end = time.monotonic() + 10
    while b"hello" not in found and connection.fill(end):
        found = connection.buffer
    assert b"hello" in found, "the first piece did not come back before the request had ended"
    connection.send(b"5\r\nworld\r\n0\r\n\r\n")
    answer = connection.response(10)
    assert answer and answer.body == b"helloworld", answer


@check("python", "socket: HTTP/1.0 client")
def old_version(place):
    connection = h1.Connection(place.tls, tls=True)
    connection.send(b"GET /stream?n=50000 HTTP/1.0\r\nHost: localhost\r\n\r\n")
    found = connection.response(10)
    assert found and found.body == pattern(50000) and not found.header("transfer-encoding"), found and found.headers
