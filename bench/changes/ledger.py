"""What clients sent and what came of it, compared with the access log.

In: attempts of clients, the lines of the log. Out: counts, and what is wrong, in words.
"""

import re
import threading
from collections import Counter, defaultdict
from dataclasses import dataclass, field

# What came of an attempt. CLOSED: an HTTP/1 connection that had served a request ended cleanly before a byte of the response, the race of RFC 9112
# §9.3.1, which loses a POST: clients send only idempotent requests again. GOAWAY: the stream is beyond the last one that the proxy named (RFC
# 9113 §6.8), or was refused; the client sends it again.
ANSWERED, CLOSED, GOAWAY, LOST, UNCONNECTED = "answered", "closed", "goaway", "lost", "unconnected"


@dataclass
class Attempt:
    """One time that a request was sent; `name` is in its path, so that the log has it."""

    name: str
    method: str
    outcome: str
    status: int = 0
    why: str = ""


@dataclass
class Tunnel:
    """A WebSocket: the proxy's port and its client's, the messages that came back, and how it ended."""

    service: int
    port: int
    echoed: int = 0
    # A message that did not come back before the end.
    unanswered: bool = False
    ended: bool = False
    why: str = ""

    @property
    def client(self):
        """As the log names it."""
        return f"127.0.0.1:{self.port}"


@dataclass
class Ledger:
    """All clients write into one."""

    attempts: list = field(default_factory=list)
    tunnels: list = field(default_factory=list)
    # Connections that the proxy ended, while the client would have used them again.
    ended: Counter = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, attempt):
        with self.lock:
            self.attempts.append(attempt)

    def connection_ended(self, kind):
        with self.lock:
            self.ended[kind] += 1

    def echoed(self):
        return sum(tunnel.echoed for tunnel in self.tunnels)

    def count(self, *outcomes):
        return sum(attempt.outcome in outcomes for attempt in self.attempts)


def name_of(path):
    """The name of the attempt in a path, or None."""
    found = re.search(r"[?&]id=([\w.-]+)", path)
    return found and found[1]


@dataclass
class Judgement:
    """A row of the table."""

    sent: int
    good: int
    other: Counter
    again: Counter
    lost: int
    logged: int
    faults: list


def spares_nothing(attempt, line):
    """No request of this change may fail."""
    return False


def judge(ledger, lines, spares=spares_nothing):
    """Compares attempts with the log. `spares`: whether a failure could not be avoided, by the attempt and its line."""
    by_name = defaultdict(list)
    for line in lines:
        by_name[name_of(line.get("path", ""))].append(line)
    faults, logged, lost, other = [], 0, 0, Counter()
    for attempt in ledger.attempts:
        found = by_name.get(attempt.name, [])
        logged += len(found)
        if attempt.outcome == ANSWERED:
            if [line["status"] for line in found] != [attempt.status]:
                faults.append(f"{attempt.name} was answered with {attempt.status}, the log has {[line['status'] for line in found]}")
            if attempt.status != 200:
                other[attempt.status] += 1
                if not found or not spares(attempt, found[0]):
                    lost += 1
                    faults.append(f"{attempt.name} {attempt.method} received {attempt.status}: {found and found[0].get('reason')}")
        elif attempt.outcome in (CLOSED, GOAWAY) and found:
            lost += 1
            faults.append(f"{attempt.name} {attempt.method} ended unprocessed ({attempt.outcome}), and the log has it: {found[0]}")
        elif attempt.outcome == CLOSED and attempt.method == "POST":
            lost += 1
            faults.append(f"{attempt.name} POST met a closed connection: clients do not send it again")
        elif attempt.outcome == LOST and found and spares(attempt, found[0]):
            other["cut"] += 1
        elif attempt.outcome == LOST:
            lost += 1
            faults.append(f"{attempt.name} {attempt.method} was lost: {attempt.why}; the log has {[line.get('reason') for line in found]}")
    again = Counter(attempt.outcome for attempt in ledger.attempts if attempt.outcome in (CLOSED, GOAWAY))
    good = sum(attempt.status == 200 for attempt in ledger.attempts)
    sent = len(ledger.attempts) - ledger.count(UNCONNECTED)
    return Judgement(sent, good, other, again, lost, logged, faults)
