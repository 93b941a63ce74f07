"""The program of scripts/probe-accuracy: rows of servers, and of delays that a relay injects, measured by `handfast probe` in `handfast lab`."""

import json
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from harness import rows
from harness.certificates import self_signed
from harness.peers import fill
from web import tools

HERE = Path(__file__).resolve().parent
INJECTED_MS, REPEATS, BOUND_MS = (0, 1, 5, 20, 50), 3, 0.3


@dataclass
class Row:
    """`holds` is asked with what was seen; `expected` says the same in words."""

    name: str
    server: str
    expected: str
    holds: object
    probe: tuple = ()
    lab: tuple = ()


class Seen:
    """What a report says, and what the relay wrote, if there was one."""

    def __init__(self, report, truth=()):
        full, resumed = report["full"], report["resumed"]
        self.report, self.trips, self.think = report, full["round_trips"], full["server_ms"]["p50"]
        self.handshake = self.trips["handshake"]
        self.again = resumed["round_trips"]["handshake"] if resumed else None
        self.think_resumed = resumed["server_ms"]["p50"] if resumed else None
        self.window, self.rtt, self.lost = report["window"], report["rtt_ms"]["p50"], report["loss"]["retransmitted"]
        self.topics = [advice["topic"] for advice in report["advice"]]
        # The relay's first line is of the connection that looks around, then full and resumed ones are in turn.
        self.truth = list(truth)
        self.true_full, self.true_resumed = (statistics.median_low(self.truth[first::2] or [0.0]) for first in (1, 2))

    def __str__(self):
        words = [f"round trips {self.handshake}, resumed {self.again}", f"server {self.think:.2f} ms, resumed {self.think_resumed or 0:.2f}",
                 f"window {'=' if self.window['full'] else '>='} {self.window['first_segments']}", f"rtt {self.rtt:.2f}", f"lost {self.lost}"]
        return "; ".join(words + ([f"in truth {self.true_full:.2f} ms, resumed {self.true_resumed:.2f}"] if self.truth else []))


class Place:
    """The options, and the certificates: `short`, `long` (a chain of about 20 kB) and `rsa`, whose key has 4,096 bits."""

    def __init__(self, found, folder):
        self.rows, self.folder, self.program = found, folder, tools.handfast_argument()
        self.rtt, self.only = os.environ.get("RTT", "20ms"), os.environ.get("ONLY", "*")
        self.runs = int(os.environ.get("RUNS", 10))
        self.short = self_signed(folder, "short", ["server"])
        self.long, filler = self_signed(folder, "long", ["server"], key=self.short.key), ["filler"]
        filler += [f"a-name-that-only-makes-it-longer-{number}.example" for number in range(150)]
        for number in range(3):
            more = self_signed(folder, f"filler-{number}", filler, key=self.short.key)
            self.long.chain.write_text(self.long.chain.read_text() + more.chain.read_text())
        self.long.join()
        self.rsa = self_signed(folder, "rsa", ["server"], "rsa-4096")
        self.truth = folder / "truth.txt"

    def configuration(self, template, certificate):
        made = self.folder / f"{certificate.key.stem}-{template}"
        values = {"FOLDER": self.folder, "CHAIN": certificate.chain, "KEY": certificate.key, "PEM": certificate.pem}
        made.write_text(fill((HERE / "servers" / template).read_text(), values))
        return made

    def measure(self, row):
        """What the probe sees of a server; None with a FAILED row."""
        report = self.folder / "report.json"
        self.truth.unlink(missing_ok=True)
        words = [self.program, "lab", "--quiet", "--rtt", self.rtt, *row.lab, "--server", row.server, "--", self.program, "probe", "--insecure",
                 "--runs", str(self.runs), "--json", report, *row.probe, "server:8443"]
        done = subprocess.run(words, cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode:
            self.rows.row("FAILED", row.name, " / ".join(done.stderr.strip().splitlines()[-2:]))
            return None
        truth = map(float, self.truth.read_text().split()) if self.truth.exists() else ()
        return Seen(json.loads(report.read_text()), truth)

    def judge(self, row):
        if not fnmatch(row.name, self.only):
            return
        if seen := self.measure(row):
            good = row.holds(seen)
            # Where the emulated path itself is late, tenths of milliseconds cannot be judged.
            late = seen.truth and not good and seen.rtt > float(self.rtt.removesuffix("ms")) + 0.15
            note = f"{seen}{'' if good else f'; expected {row.expected}'}"
            self.rows.row("ok" if good else "BUSY" if late else "FAILED", row.name, note)


def three(name, short, long):
    """The rows that every server has. Of the long chain: the share of another group is sent than the server's first one, and it is taken."""
    full_window = lambda seen: seen.handshake == 2 and seen.trips["window"] == 1 and seen.window["full"] and 9 <= seen.window["first_segments"] <= 11
    return [
        Row(f"{name}, TLS 1.3", short, "1 round trip, resumed 1", lambda seen: (seen.handshake, seen.again) == (1, 1)),
        Row(f"{name}, TLS 1.2", short, "2 round trips, resumed 1", lambda seen: (seen.handshake, seen.again) == (2, 1), ("--tls", "1.2")),
        Row(f"{name}, long chain", long, "2 round trips, one for the window of 10 segments", full_window),
    ]


def openssl(place):
    command = f"openssl s_server -quiet -www -accept 8443 -key {place.short.key}"
    short, rsa = f"{command} -cert {place.short.chain}", f"openssl s_server -quiet -www -accept 8443 -key {place.rsa.key} -cert {place.rsa.chain}"
    name = "openssl s_server"
    return [
        *three(name, short, f"{short} -cert_chain {place.long.chain}"),
        Row(f"{name}, hello retry", f"{short} -groups X25519", "2 round trips, one for a HelloRetryRequest",
            lambda seen: seen.handshake == 2 and seen.report["agreed"]["hello_retry"], ("--groups", "secp384r1,X25519")),
        Row(f"{name}, RSA-4096", rsa, "1 round trip, 1 ms more than resumed, and advice about the key",
            lambda seen: seen.handshake == 1 and seen.think > seen.think_resumed + 1 and seen.topics[0] == "rsa"),
        Row(f"{name}, 4 % loss", short, "1 round trip, packets sent again, and advice about loss",
            lambda seen: seen.handshake == 1 and seen.lost > 0 and "loss" in seen.topics, lab=("--loss", "4%", "--seed", "5")),
    ]


def both(place, name, command, template):
    """Rows of a server with a configuration; `command` has a place for it."""
    configurations = (place.configuration(template, certificate) for certificate in (place.short, place.long))
    return three(name, *(command.format(config=config, folder=place.folder) for config in configurations))


def gnutls(place):
    command = f"gnutls-serv --echo --quiet -p 8443 --x509keyfile {place.short.key} --x509certfile {place.short.chain}"
    return [
        # It writes its flight in pieces without TCP_NODELAY, so there can be one more round trip, which is Nagle's.
        Row("gnutls-serv, TLS 1.3", command, "1 round trip, and what Nagle's algorithm costs",
            lambda seen: seen.handshake - seen.trips["nagle"] == 1 and seen.again - seen.report["resumed"]["round_trips"]["nagle"] == 1),
        Row("gnutls-serv, TLS 1.2", command, "2 round trips, resumed 1 or not at all",
            lambda seen: seen.handshake == 2 and seen.again in (1, None), ("--tls", "1.2")),
    ]


def injected(place, wait):
    """Each figure is the median of its runs; of three measurements the median difference counts, as what a busy machine does to the path is in the
    probe's figure and not in the relay's."""
    server = (f"{sys.executable} {HERE}/relay.py {wait} {place.truth} openssl s_server -quiet -www -accept 9443 -key {place.short.key} "
              f"-cert {place.short.chain}")
    off = []

    def holds(seen):
        off.append((seen.think - seen.true_full, (seen.think_resumed or 0) - seen.true_resumed))
        middle = [abs(statistics.median(column)) for column in zip(*off)]
        return (seen.handshake == 1 and len(seen.truth) == 2 * place.runs + 1 and min(seen.truth) >= wait
                and (len(off) < REPEATS or max(middle) <= BOUND_MS))

    expected = f"1 round trip, {2 * place.runs + 1} connections of at least {wait} ms, the median of {REPEATS} measurements at most {BOUND_MS} ms off"
    for number in range(1, REPEATS + 1):
        place.judge(Row(f"injected {wait} ms, {number} of {REPEATS}", server, expected, holds))
    if len(off) == REPEATS:
        print(f"         injected {wait} ms: off by {', resumed '.join(f'{statistics.median(column):.2f}' for column in zip(*off))} ms", flush=True)


def check(found, folder):
    place = Place(found, folder)
    servers = [
        ("openssl", "openssl", lambda: openssl(place)),
        ("nginx", "nginx", lambda: both(place, "nginx", "nginx -p {folder} -e stderr -c {config}", "nginx.conf")),
        ("HAProxy", "haproxy", lambda: both(place, "HAProxy", "haproxy -q -db -f {config}", "haproxy.cfg")),
        ("stunnel", "stunnel", lambda: both(place, "stunnel", "stunnel {config}", "stunnel.conf")),
        ("gnutls-serv", "gnutls-serv", lambda: gnutls(place)),
    ]
    for name, program, made in servers:
        found.group(name, [program], lambda made=made: [place.judge(row) for row in made()])
    place.runs = int(os.environ.get("RUNS", 16))
    for wait in INJECTED_MS:
        injected(place, wait)


def main():
    return rows.main("probe-accuracy", check)
