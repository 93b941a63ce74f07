"""The list of checks and what each one gets.

In: functions with the decorator `check`. Out: rows. A check passes when it returns; AssertionError or another exception is a
failure; `Skip` says what is missing.
"""

from dataclasses import dataclass, field

CHECKS = []


class Skip(Exception):
    """The client is not installed, or lacks the feature."""


@dataclass
class Place:
    """What a check may use: ports of the front on its ways to backends, the certificate that clients trust, a folder."""

    front: object
    plain: int
    tls: int
    grpc: int
    certificate: str
    folder: object
    extra: dict = field(default_factory=dict)

    @property
    def url(self):
        """The front over TLS. The name is in its certificate."""
        return f"https://localhost:{self.tls}"


def check(client, name):
    """Registers a check."""

    def register(function):
        CHECKS.append((client, name, function))
        return function

    return register


def pattern(length):
    """Bytes that every client can compute: byte i is i modulo 251."""
    return (bytes(range(251)) * (length // 251 + 1))[:length]


def run(found, place, wanted):
    """Makes the rows of the checks whose client or name has one of the words."""
    for client, name, function in CHECKS:
        if wanted and not any(word in f"{client}: {name}" for word in wanted):
            continue
        try:
            for part, problem in function(place) or [(name, None)]:
                found.check(f"{client}, {part}", problem or "")
        except Skip as reason:
            found.row("skipped", f"{client}, {name}", str(reason))
        except Exception as reason:  # whatever a client library raises is the result of the check
            found.row("FAILED", f"{client}, {name}", f"{type(reason).__name__}: {' '.join(str(reason).split())[:200]}")
