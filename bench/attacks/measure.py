"""What an attack costs: memory of the front, and the latency of another client with and without it.

In: a running front, an attack. Out: a Cost. Quiet and attacked windows take turns, so that slow changes of the machine affect both. Each window has
an attacker process by itself, on the core of the load.
"""

import multiprocessing
import os
import time
from dataclasses import dataclass
from statistics import median

from harness import machine
from harness.machine import Failed
from harness.pairs import percentile
from web import h1

# Requests of the other client in a second, and the least p99 that counts: below it, a ratio is about the machine's timer and not about the front.
RATE, FLOOR_MS = 200, 1.0
CONTEXT = multiprocessing.get_context("fork")


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
        # Only time that no other process wants. At any nice value the other client would wait for a slice of 3 ms, which is not the front's
        # latency.
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        attack(port)

    process = CONTEXT.Process(target=run, daemon=True)
    process.start()
    return process


class Client:
    """The other client: requests at a fixed rate on one kept connection, timed from when each was due."""

    def __init__(self, port, path, length):
        self.port, self.connection, self.length = port, None, length
        self.request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()

    def window(self, seconds):
        """(latencies in ms, failures); ten failures end it."""
        found, failed, start = [], 0, time.monotonic()
        for number in range(int(RATE * seconds)):
            due = start + number / RATE
            time.sleep(max(0, due - time.monotonic()))
            try:
                self.connection = self.connection or h1.Connection(self.port, tls=True)
                self.connection.send(self.request)
                answer = self.connection.response(2)
                right = answer and answer.status == 200 and len(answer.body) == self.length
            except OSError:
                right = False
            if not right:
                failed, self.connection = failed + 1, None
            found.append((time.monotonic() - due) * 1000)
            if failed >= 10:
                break
        return found, failed


class Memory:
    """The greatest RSS of the front while it is sampled, 20 times a second; by another process, as a thread would hold up the client."""

    def __init__(self, front):
        self.greatest = CONTEXT.Value("q", 0)
        self.process = CONTEXT.Process(target=self.sample, args=(front.members(),), daemon=True)
        self.process.start()

    def sample(self, members):
        while True:
            try:
                self.greatest.value = max(self.greatest.value, machine.memory_kib(members)[0])
            except (Failed, OSError):
                return
            time.sleep(0.05)

    def stop(self):
        self.process.kill()
        self.process.join()
        return self.greatest.value


def cost(front, attack, seconds, rounds, path="/bytes?n=1000", length=1000):
    """Quiet and attacked windows in turn. `path`, `length`: what the other client asks for, and how long its response is."""
    port, client = front.routes[0].tls, Client(front.routes[0].tls, path, length)
    client.window(0.5)
    before, quiet, attacked, failed, greatest = front.rss_kib(), [], [], 0, 0
    for _ in range(rounds):
        for latencies in (quiet, attacked):
            # Sampled in both, so that what it costs is in both.
            memory = Memory(front)
            process = begin(attack, port) if latencies is attacked else None
            try:
                found, wrong = client.window(seconds)
            finally:
                if process:
                    process.kill()
                    process.join()
                greatest = max(greatest, memory.stop())
            latencies.append(percentile(found, 0.99))
            failed += wrong
    front.members()
    return Cost((greatest - before) / 1024, median(quiet), median(attacked), failed)
