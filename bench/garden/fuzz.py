"""Differential fuzzing: payloads of the tables with small changes, the same rules as for the tables.

In: a running garden, seconds, a seed. Out: the exit code; each violation is printed with its bytes. One seed gives the same payloads.
"""

import random
import time

from . import payloads, report
from .payloads import Case

# Bytes and words that parsers disagree about.
WORDS = [b"\r\n", b"\n", b"\r", b"\0", b" ", b"\t", b"\x0b", b"\x0c", b":", b";", b",", b"0", b"0x", b"+", b"-", b"\xff", b"\x7f", b"#", b"//", b"@",
         b"chunked", b"identity", b"Transfer-Encoding: chunked\r\n", b"Content-Length: 0\r\n", b"Content-Length: 5\r\n", b"Connection: close\r\n",
         b"Connection: keep-alive\r\n", b"Host: other.test\r\n", b"Expect: 100-continue\r\n", b"Upgrade: h2c\r\n", b"HTTP/1.0", b"0\r\n\r\n",
         b"\r\n\r\n", b"5\r\nhello\r\n", b"http://garden.test", b"TRACE ", b"HEAD ", b"X: y\r\n"]
ROUND = 40


def outside(data, at):
    """That position, or the one behind the identifier: a word in front of an identifier would be read as another one."""
    return at + 4 if data[at : at + 4] == b"@ID@" else at


def mutate(source, data, others):
    """A payload with one to four changes."""
    data = bytearray(data)
    for _ in range(source.randint(1, 4)):
        at = outside(data, source.randrange(len(data) + 1))
        kind = source.randrange(6)
        if kind == 0:
            data[at:at] = source.choice(WORDS)
        elif kind == 1:
            data[at : at + source.randint(1, 4)] = b""
        elif kind == 2 and at < len(data):
            data[at] = source.randrange(256)
        elif kind == 3:
            data[at : at + 2] = source.choice(WORDS)
        elif kind == 4:
            lines = bytes(data).split(b"\r\n")
            lines.insert(source.randrange(len(lines) + 1), source.choice(source.choice(others).split(b"\r\n")))
            data = bytearray(b"\r\n".join(lines))
        else:
            lines = bytes(data).split(b"\r\n")
            lines.insert(source.randrange(len(lines) + 1), source.choice(lines))
            data = bytearray(b"\r\n".join(lines))
    return bytes(data)


def mutate_fields(source, fields):
    """An HTTP/2 header list with one change."""
    pairs = list(fields)
    at, side = source.randrange(len(pairs)), source.randrange(2)
    pair = list(pairs[at])
    where = outside(pair[side], source.randrange(len(pair[side]) + 1))
    pair[side] = pair[side][:where] + source.choice(WORDS) + pair[side][where:]
    pairs[at] = tuple(pair)
    if source.random() < 0.2:
        pairs.insert(source.randrange(len(pairs) + 1), source.choice(pairs))
    return pairs


def batch(source, tables, number):
    """One round of payloads."""
    plain = [case for case in tables if case.version == "h1" and len(case.data) < 2000]
    framed = [case for case in tables if case.version == "h2"]
    found = []
    for index in range(ROUND):
        name = f"{number}.{index}"
        if framed and source.random() < 0.2:
            base = source.choice(framed)
            data = (mutate_fields(source, base.data[0]), base.data[1])
            found.append(Case("fuzz", f"{name} of {base.label}", data, "", "either", version="h2"))
            continue
        base = source.choice(plain)
        data = mutate(source, base.data, [case.data for case in plain])
        found.append(Case("fuzz", f"{name} of {base.label}", data, "", "either"))
    return found


def run(garden):
    """Rounds until the time is over. 1 when a rule was violated."""
    seed = garden.options.seed if garden.options.seed is not None else random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    source, tables, count, wrong = random.Random(seed), payloads.all_cases(), 0, 0
    tables = [case for case in tables if garden.options.cases in case.label]
    end = time.monotonic() + garden.options.fuzz
    number = 0
    while time.monotonic() < end:
        number += 1
        cases = batch(source, tables, number)
        _, _, findings = garden.round(cases, source.random() < 0.5)
        broken = report.violations(findings, garden.front)
        count += len(cases)
        wrong += len({finding.case.label for finding in broken if finding.case})
        for line in report.details(broken):
            print(line)
        for case in {id(finding.case): finding.case for finding in broken if finding.case}.values():
            print(f"  {case.label}: {case.data!r}")
    print(f"{garden.front.name}: {count} payloads, {wrong} with a violation, seed {seed}")
    return 1 if wrong else 0
