"""Other proxies as clients of the front and as its backends: nginx and HAProxy before and behind it."""

import json

from harness.machine import Failed
from web import fronts, h1, tools

from .checks import Skip, check, pattern


def neighbour(place, name, backend):
    """A running nginx or HAProxy with that backend; its route."""
    if not tools.find(name):
        raise Skip(f"{name} is not installed")
    made = fronts.make(name, place.folder / f"beside-{backend}", place.extra["pem"])
    try:
        made.start([fronts.Route("front", backend)])
    except Failed as reason:
        raise Skip(str(reason)) from None
    return made, made.routes[0]


def exchanges(port):
    """Requests of several kinds on one connection, with their content compared."""
    connection = h1.Connection(port)
    for number in range(30):
        connection.send(b"GET /bytes?n=%d HTTP/1.1\r\nHost: localhost\r\n\r\n" % (number * 1000))
        found = connection.response(10)
        assert found and found.body == pattern(number * 1000), f"GET {number}: {found and found.status}"
        connection.send(b"POST /sum HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3e8\r\n" + pattern(1000) + b"\r\n0\r\n\r\n")
        found = connection.response(10)
        assert found and json.loads(found.body)["length"] == 1000, f"POST {number}: {found and found.status}"
    connection.send(b"GET /stream?n=100000 HTTP/1.1\r\nHost: localhost\r\n\r\n")
    found = connection.response(10)
    assert found and found.body == pattern(100000), "stream"


for _name in ("nginx", "haproxy"):

    @check(_name, "as a client of the front")
    def before(place, name=_name):
        made, route = neighbour(place, name, place.plain)
        try:
            exchanges(route.plain)
        finally:
            made.stop()

    @check(_name, "as a backend of the front")
    def behind(place, name=_name):
        # Another front of the same kind, with the neighbour between it and the backend.
        made, route = neighbour(place, name, place.extra["backend"])
        front = fronts.make(place.front.name, place.folder / f"before-{name}", place.extra["pem"])
        try:
            front.start([fronts.Route("neighbour", route.plain)])
            exchanges(front.routes[0].plain)
        finally:
            front.stop()
            made.stop()
