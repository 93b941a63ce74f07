"""What an attack costs: memory of the front, and the latency of another client with and without it.

In: a running front, an attack. Out: a Cost. Quiet and attacked windows take turns, so that slow changes of the machine affect both. Each window has
an attacker process by itself, on the core of the load.
"""

import multiprocessing
import os
import threading
import time
from dataclasses import dataclass
from statistics import median

from harness import machine
from harness.machine import Failed
from web import h1

# Requests of the other client in a second, and the least p99 that counts: below it, a ratio is about the machine's timer and not about the front.
RATE, FLOOR_MS = 200, 1.0


@dataclass
class Cost:
    """RSS growth in MiB, p99 in ms."""

    growth: float
    quiet: float
    attacked: float
    failed: int

    @property
    def ratio(self):
        return max(self.attacked, FLOOR_MS) / max(self.quiet, FLOOR_MS)


def begin(attack, port):
    """Starts the attacker as a process."""

    def run():
        os.sched_setaffinity(0, {machine.LOAD_CORE})
        # Lower priority: the other client's own waiting for the core is not the front's latency.
        os.nice(10)
        attack(port)

    process = multiprocessing.get_context("fork").Process(target=run, daemon=True)
    process.start()
    return process


class Client:
    """The other client: requests at a fixed rate on one kept connection, timed from when each was due."""

    def __init__(self, port):
        self.port, self.connection = port, None

    def window(self, seconds):
        """(latencies in ms, failures); ten failures end it."""
        found, failed, start = [], 0, time.monotonic()
        for number in range(int(RATE * seconds)):
            due = start + number / RATE
            time.sleep(max(0, due - time.monotonic()))
            try:
                self.connection = self.connection or h1.Connection(self.port, tls=True)
                self.connection.send(b"GET /bytes?n=1000 HTTP/1.1\r\nHost: localhost\r\n\r\n")
                answer = self.connection.response(2)
                right = answer and answer.status == 200 and len(answer.body) == 1000
            except OSError:
                right = False
            if not right:
                failed, self.connection = failed + 1, None
            found.append((time.monotonic() - due) * 1000)
            if failed >= 10:
                break
        return found, failed


def p99(values):
    return sorted(values)[int(len(values) * 0.99)]


class Memory:
    """The greatest RSS of the front while it is sampled, 20 times a second."""

    def __init__(self, front):
        self.front, self.greatest, self.running = front, 0, True
        self.thread = threading.Thread(target=self.sample, daemon=True)
        self.thread.start()

    def sample(self):
        while self.running:
            try:
                self.greatest = max(self.greatest, self.front.rss_kib())
            except (Failed, OSError):
                return
            time.sleep(0.05)

    def stop(self):
        self.running = False
        self.thread.join()
        return self.greatest


def cost(front, attack, seconds, rounds):
    """Quiet and attacked windows in turn."""
    port, client = front.routes[0].tls, Client(front.routes[0].tls)
    client.window(0.5)
    before, quiet, attacked, failed, greatest = front.rss_kib(), [], [], 0, 0
    for _ in range(rounds):
        found, wrong = client.window(seconds)
        quiet.append(p99(found))
        failed += wrong
        memory, process = Memory(front), begin(attack, port)
        try:
            found, wrong = client.window(seconds)
        finally:
            process.kill()
            process.join()
            greatest = max(greatest, memory.stop())
        attacked.append(p99(found))
        failed += wrong
    front.members()
    return Cost((greatest - before) / 1024, median(quiet), median(attacked), failed)
