"""What the outcomes mean: five rules, each one a function from what was seen to findings.

In: for each lane its outcomes, the requests that its backend has seen, and the front's log. Out: a list of Finding.

    desync     a connection received a response that belongs to another request
    unlogged   a backend received a request that the front's log does not have
    differ     two backends understood what the front sent in different ways
    strict     the front sent something that RFC 9112 does not allow
    verdict    the front refused or accepted another way than the table expects; or passed a field that it must not
"""

import re
from collections import Counter
from dataclasses import dataclass

from .exchange import was_given

TOKEN = re.compile(r"[/?&]([pmso])-([0-9a-z]{4})")


@dataclass
class Finding:
    """One violation or note."""

    rule: str
    case: object
    backend: str
    what: str


def plain_target(target):
    """A target without scheme, authority and query, in ASCII only (logs and servers decode the rest in several ways); `*` is `/`."""
    target = re.sub(r"^[a-z]+://[^/?#]*", "", target, flags=re.I).split("?")[0].split("#")[0]
    return re.sub(r"[^!-~]", "", target).replace("*", "/") or "/"


def by_token(requests):
    """Token → requests. One without a token belongs to the next one that has it: a lane runs one case at a time, its marker last."""
    found, waiting = {}, []
    for request in requests:
        match = TOKEN.search(request.get("target", "") + request.get("raw", ""))
        waiting.append(request)
        if match:
            found.setdefault(match[2], []).extend(waiting)
            waiting = []
    return found


def understood(requests, token):
    """What a backend understood, comparable between backends: a multiset of method, target, content, Host. Cut-off requests and markers of
    the other connection are left out."""
    found = Counter()
    for request in requests:
        if "method" not in request or request["length"] is None:
            continue
        target = re.sub(r"^[a-z]+://[^/?#]*|[^!-~]", "", request["target"], flags=re.I).replace(token, "ID")
        if target.startswith("/o-"):
            continue
        host = next((value for name, value in request["headers"] if name.lower() == "host"), None)
        body = bytes.fromhex(request["body"]).replace(token.encode(), b"ID")
        # A length may end the content within the token.
        body = re.sub(rb"-(%s|%s|%s)$" % tuple(token[:size].encode() for size in (3, 2, 1)), b"-ID", body)
        # CGI has no port in some servers, and one backend writes methods in upper case. nginx reads `name.` as `name`, and so do our routes.
        host = re.sub(r":[^\]]*$", "", host or "").lower().removesuffix(".")
        found[(request["method"].upper(), target, request["length"], body, host)] += 1
    return found


def desync(lane):
    """Responses that belong to other requests."""
    for outcome in lane.outcomes:
        status, target = outcome.other
        if target and target != f"/o-{outcome.token}" or status == 0:
            what = f"another connection received the response to {target}" if status else "another connection received no response"
            yield Finding("desync", outcome.case, lane.backend.name, what)
        targets = [TOKEN.search(target) for _, target in outcome.answers if target]
        kinds = [match[1] for match in targets if match and match[2] == outcome.token]
        foreign = [match[0] for match in targets if match and match[2] != outcome.token and was_given(match[2])]
        if foreign or kinds != sorted(kinds, key="psmo".index):
            what = f"the connection received the responses {outcome.answers}"
            yield Finding("desync", outcome.case, lane.backend.name, what)


def smuggled(lane, seen):
    """Requests hidden in a payload for which the client received no response of its connection while the payload is one request."""
    for outcome in lane.outcomes:
        case = outcome.case
        if case.group == "connections" or case.version == "h1" and not hidden(case):
            continue
        for request in seen.get(outcome.token, []):
            if request.get("target", "").startswith("/s-"):
                yield Finding("desync", case, lane.backend.name, "the backend served the request that was hidden in the content")


def hidden(case):
    """Whether the embedded request is content by the table: it may be served only where the payload was one whole request before it."""
    return case.expect == "accept" and isinstance(case.data, bytes) and b"/s-@ID@" in case.data


def log_key(method, target):
    """What is compared: the log has 16 bytes of a method and 512 of a target, which may be fewer characters."""
    return str(method or "").upper()[:16], plain_target(str(target or ""))[:128]


def unlogged(lanes, seen, log):
    """Requests of backends that the log does not have; counted, so that one line does not excuse two requests."""
    logged = Counter(log_key(entry["method"], entry.get("path")) for entry in log)
    for lane in lanes:
        cases = {outcome.token: outcome.case for outcome in lane.outcomes}
        for token, requests in seen[lane.backend.name].items():
            for request in requests:
                key = log_key(request.get("method"), request.get("target"))
                if "method" not in request:
                    continue
                if logged[key] == 0:
                    yield Finding("unlogged", cases.get(token), lane.backend.name, f"{request['method']} {key[1][:80]}")
                logged[key] -= 1


def differ(lanes, seen):
    """Backends of which each understood something that the other did not. One that refused, so that it only has less, is no difference; and
    one that has more than the front sent is found by `unlogged`."""
    for index, outcome in enumerate(lanes[0].outcomes):
        views = {}
        for lane in lanes:
            one = lane.outcomes[index]
            views[lane.backend.name] = understood(seen[lane.backend.name].get(one.token, []), one.token)
        alike = Counter(tuple(sorted(view.items())) for view in views.values())
        most = Counter(dict(max(alike, key=lambda view: (len(view), alike[view]))))
        for name, view in views.items():
            if extra := view - most:
                yield Finding("differ", outcome.case, name, f"understood {sorted(extra)}, another one {sorted(most)}")


def strict(lane, seen):
    """What the strict backend refused."""
    for outcome in lane.outcomes:
        for request in seen.get(outcome.token, []):
            if "strict" in request:
                yield Finding("strict", outcome.case, lane.backend.name, request["strict"])


def verdicts(lane, seen):
    """Differences from the table: statuses, and fields that must or must not reach a backend."""
    for outcome in lane.outcomes:
        case, (kind, status) = outcome.case, outcome.verdict()
        expected = case.own.get(lane.backend.name, case.expect)
        wrong = expected == "accept" and kind != "accept" or expected == "reject" and kind != "reject"
        if expected.isdigit():
            wrong = kind != "reject" or (case.version == "h1" and status not in (int(expected), 0))
        if wrong:
            yield Finding("verdict", case, lane.backend.name, f"expected {expected}, is {kind}{f' {status}' if status else ''}")
        for request in seen.get(outcome.token, []):
            names = {name.lower() for name, _ in request.get("headers", [])}
            if not request.get("target", "").startswith("/p-"):
                continue
            for name in case.never:
                if name in names:
                    yield Finding("verdict", case, lane.backend.name, f"the backend received `{name}`")
            for name in case.must:
                if name not in names:
                    yield Finding("verdict", case, lane.backend.name, f"the backend did not receive `{name}`")


def judge(lanes, seen, log):
    """All findings. `seen` is backend name → token → requests."""
    found = [*unlogged(lanes, seen, log), *differ(lanes, seen)]
    for lane in lanes:
        mine = seen[lane.backend.name]
        found += [*desync(lane), *smuggled(lane, mine), *verdicts(lane, mine)]
        found += strict(lane, mine) if lane.backend.name == "strict" else []
    return found
