"""The tables of payloads, by class.

A case has a name, bytes, the RFC section and the expected verdict: a status, `reject` (any error status, or the connection closed), `accept`, or
`either`. `@ID@` in the bytes is replaced by an identifier of the run, so that a request is recognised wherever it arrives.
"""

from dataclasses import dataclass, field

HOST = b"Host: garden.test\r\n"
# A whole request within a payload: it must not be served unless the payload really has two requests.
SMUGGLED = b"GET /s-@ID@ HTTP/1.1\r\n" + HOST + b"\r\n"


@dataclass
class Case:
    """One payload."""

    group: str
    name: str
    data: object
    rfc: str
    expect: str
    # Field names in lower case: none of the backends may receive one of `never`; each one must receive all of `must`.
    never: tuple = ()
    must: tuple = ()
    version: str = "h1"
    notes: list = field(default_factory=list)
    # Backend → the status of an answer that is the rule of this backend (own_answers.py). The other backends have `expect`.
    own: dict = field(default_factory=dict)

    @property
    def label(self):
        return f"{self.group}: {self.name}"


def post(headers, body=b"", path=b"/p-@ID@", version=b"HTTP/1.1"):
    """A POST with these header lines (each with its line end) and this content."""
    return b"POST " + path + b" " + version + b"\r\n" + HOST + headers + b"\r\n" + body


def get(headers=b"", target=b"/p-@ID@", version=b"HTTP/1.1", host=HOST, method=b"GET"):
    """A request without content."""
    return method + b" " + target + b" " + version + b"\r\n" + host + headers + b"\r\n"


def table(group, rows):
    """Cases of (name, bytes, RFC section, verdict, more)."""
    return [Case(group, *row[:4], **(row[4] if len(row) > 4 else {})) for row in rows]


def all_cases():
    """Every case of every table, HTTP/1 first."""
    from . import chunks, connections, downgrade, framing, heads, own_answers
    from garden import desync_cases

    found = [*framing.CASES, *chunks.CASES, *heads.CASES, *connections.CASES, *desync_cases.cases(), *downgrade.CASES]
    labels = [case.label for case in found]
    assert len(set(labels)) == len(labels), "two cases have one name"
    own_answers.apply(found)
    return found
