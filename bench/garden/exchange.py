"""One payload through the front to one backend: what the client received.

In: a lane (the front's ports for one backend) and a case. Out: an Outcome. Nothing is judged here.
"""

import itertools
import json
import ssl
import time
from dataclasses import dataclass, field

from web import frames, h1

# How long the client waits for the next byte. A request that the front regards as unfinished costs this time.
QUIET = 1.5
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_numbers, _latest = itertools.count(1), 0


def new_token():
    """Four characters, as many as its placeholder has: lengths within payloads are computed with that."""
    global _latest
    number, out = next(_numbers), ""
    _latest = max(_latest, number)
    for _ in range(4):
        number, digit = divmod(number, 36)
        out = DIGITS[digit] + out
    return out


def was_given(token):
    """Whether it can be a token of this run, and not another word of a payload."""
    return int(token, 36) <= _latest


@dataclass
class Lane:
    """The way to one backend."""

    backend: object
    route: object
    outcomes: list = field(default_factory=list)


@dataclass
class Outcome:
    """`answers`: (status, target that the backend echoed or None) in order. `other`: the same of the other connection's marker."""

    case: object
    token: str
    answers: list
    other: tuple
    closed: bool
    hung: bool = False
    problem: str = ""
    seconds: float = 0.0

    def verdict(self):
        """accept: the first response is one of a backend; reject with a status; hang: no response and no end."""
        if self.answers:
            status, target = self.answers[0]
            # A response without an echo (to HEAD, or of a backend that refused) has a status only.
            return ("accept", status) if target or status < 400 else ("reject", status)
        return ("hang", 0) if self.hung else ("reject", 0)


def echoed(body):
    """The target that a backend reports in its response; None when it is not an echo."""
    try:
        return json.loads(body)["target"]
    except (ValueError, KeyError, TypeError):
        return None


def marker(kind, token, close=False):
    """A request that is recognised by its target. `m` follows the payload, `o` has another connection."""
    end = "Connection: close\r\n" if close else ""
    return f"GET /{kind}-{token} HTTP/1.1\r\nHost: garden.test\r\n{end}\r\n".encode()


def run(lane, case, token, apart=False):
    """Sends the payload and both markers. `apart`: the second marker waits for the first response."""
    exchange = over_h2 if case.version == "h2" else over_h1
    try:
        answers, closed, hung, connection = exchange(lane, case, token, apart)
    except (OSError, ssl.SSLError, ValueError) as problem:
        return Outcome(case, token, [], other_connection(lane, token), True, problem=f"{type(problem).__name__}: {problem}")
    try:
        # The first connection is still open: whatever is left of it in the front meets a request of another client.
        other = other_connection(lane, token)
    finally:
        connection.close()
    return Outcome(case, token, answers, other, closed, hung)


def over_h1(lane, case, token, apart):
    """(answers, whether the front closed, whether it went quiet, the connection)."""
    connection = h1.Connection(lane.route.plain)
    data, last = case.data.replace(b"@ID@", token.encode()), marker("m", token)
    connection.send(data if apart else data + last)
    answers, heads = [], data.startswith(b"HEAD ")
    if apart:
        first = connection.response(QUIET / 3, heads)
        answers += [(first.status, echoed(first.body))] if first else []
        heads = heads and not first
        connection.send(last)
    while len(answers) < 20:
        found = connection.response(QUIET, heads)
        if found is None or found.status == 101:
            answers += [(101, None)] if found else []
            break
        heads = False
        target = echoed(found.body)
        answers.append((found.status, target))
        if target == f"/m-{token}":
            break
    return answers, connection.ended, not connection.ended, connection


def over_h2(lane, case, token, _apart):
    """The same over HTTP/2: the payload is stream 1, the marker stream 3."""
    peer = frames.Peer(lane.route.tls)
    fields, body = case.data
    replaced = [tuple(word.replace(b"@ID@", token.encode()) for word in pair) for pair in fields]
    out = frames.headers(1, replaced, body is None)
    if body is not None:
        out += frames.frame(frames.DATA, frames.END_STREAM, 1, body.replace(b"@ID@", token.encode()))
    peer.send(out + frames.headers(3, frames.request(f"/m-{token}".encode())))
    answers = []
    for stream in (1, 3):
        found = peer.wait(stream, QUIET)
        if found["status"]:
            answers.append((found["status"], echoed(found["body"])))
        elif stream == 1 and (found["end"] or peer.ended):
            # A reset, or the end of the connection: refused without a status.
            answers.append((499, None))
    return answers, peer.ended, not answers, peer


def other_connection(lane, token):
    """(status, echoed target) of a marker on a connection by itself; status 0 without a response."""
    try:
        connection = h1.Connection(lane.route.plain)
        connection.send(marker("o", token, close=True))
        found = connection.response(5.0)
        connection.close()
    except OSError:
        return 0, None
    return (found.status, echoed(found.body)) if found else (0, None)


def run_all(lane, cases, apart=False):
    """Every case in turn on one lane; a thread for each lane runs this."""
    for case in cases:
        begin = time.monotonic()
        outcome = run(lane, case, new_token(), apart)
        outcome.seconds = round(time.monotonic() - begin, 3)
        lane.outcomes.append(outcome)
