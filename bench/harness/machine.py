"""This machine: its two cores, processes on them, what they cost, and whether somebody else had the cores meanwhile.

In: programs to start. Out: CPU nanoseconds, memory, steal. Ends what it started and nothing else.
"""

import ctypes
import os
import resource
import signal
import socket
import subprocess
import time
from pathlib import Path

_allowed = sorted(os.sched_getaffinity(0))
# The proxy has a core of its own; generator and backend share the other.
PROXY_CORE = _allowed[0]
LOAD_CORE = _allowed[1] if len(_allowed) > 1 else None

# Share of a core's time that the hypervisor may take before a run is dropped.
STEAL_BOUND = 0.005


class Failed(Exception):
    """Something that makes a figure impossible, in words for people."""


class Stolen(Failed):
    """The hypervisor took too much, again and again: this run has no figure, and nobody here is at fault."""


class Process:
    """A program on given cores, in a session of its own so that it can be ended with its children."""

    started = []

    def __init__(self, words, cores, log, folder=None, stdout=None, stdin=subprocess.DEVNULL):
        """`cores`: a set of their numbers, or None for all."""
        self.words = [str(word) for word in words]
        self.log = Path(log)
        libc = ctypes.CDLL(None)
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]

        def prepare():
            os.sched_setaffinity(0, cores or _allowed)
            resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
            # PR_SET_PDEATHSIG: when the harness is killed, its proxies do not stay behind.
            libc.prctl(1, signal.SIGTERM)

        with open(log, "ab") as out:
            self.process = subprocess.Popen(
                self.words,
                stdin=stdin,
                stdout=stdout or out,
                stderr=out,
                cwd=folder,
                preexec_fn=prepare,
                start_new_session=True,
            )
        self.pid = self.process.pid
        Process.started.append(self)

    def running(self):
        return self.process.poll() is None

    def wait(self, seconds):
        """Its exit code; Failed when it has not ended by then."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.stop()
            raise Failed(f"run {self.words[0]}: not done after {seconds:.0f} s") from None

    def wait_for(self, text, seconds=10.0):
        """Waits until its log has this text, and returns the log."""
        wait_until(f"`{text}` from {self.words[0]}", lambda: text in self.log.read_text(errors="replace"), seconds, self)
        return self.log.read_text(errors="replace")

    def stop(self):
        """Ends it and its children: asked first, then not asked."""
        for number, seconds in ((signal.SIGTERM, 3), (signal.SIGKILL, 5)):
            if not self.running():
                break
            self._signal(number)
            try:
                self.process.wait(seconds)
            except subprocess.TimeoutExpired:
                continue
        self._signal(signal.SIGKILL)
        if self in Process.started:
            Process.started.remove(self)

    def _signal(self, number):
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            pass

    def said(self):
        """The end of its log, for a complaint."""
        text = self.log.read_text(errors="replace").strip().splitlines()
        return " / ".join(text[-3:]) or "it said nothing"


def stop_all():
    for process in list(Process.started):
        process.stop()


def tree(root):
    """The process and its descendants: pid → start time, which together name a process for good."""
    stats = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                fields = Path(f"/proc/{entry}/stat").read_text().rsplit(")", 1)[1].split()
            except (OSError, IndexError):
                continue
            stats[int(entry)] = (int(fields[1]), int(fields[19]))
    if root not in stats:
        raise Failed(f"process {root} is gone")
    members, found = {root: stats[root][1]}, True
    while found:
        new = {pid: start for pid, (parent, start) in stats.items() if parent in members and pid not in members}
        members.update(new)
        found = bool(new)
    return members


def cpu_ns(members):
    """CPU time of processes, ended threads included, in nanoseconds.

    The process clocks of clock_getcpuclockid(3). /proc/PID/task/*/schedstat forgets a thread when it ends, and stunnel
    and Java have one or two for each connection; utime and stime are sampled 100 to 1,000 times a second.
    """
    # CPUCLOCK_SCHED of the whole process, as the C library makes it from the pid.
    return sum(time.clock_gettime_ns((~pid << 3) | 2) for pid in members)


def settled_cpu_ns(members, seconds=0.5):
    """The same once it has stopped growing: what is still closing belongs to the run too. Virtual machines of Java
    never quite stop, so not longer than given."""
    end = time.monotonic() + seconds
    before = cpu_ns(members)
    while time.monotonic() < end:
        # Not for luck: the figure is read until two readings agree.
        time.sleep(0.01)
        now = cpu_ns(members)
        if now == before:
            return now
        before = now
    return before


def memory_kib(members):
    """Resident memory of processes, and what of it is anonymous: (Rss, Pss_Anon).

    Not Pss: the generator is the same program file as one of the proxies, and halves its share while it runs.
    """
    total = {"Rss:": 0, "Pss_Anon:": 0}
    for pid in members:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            words = line.split()
            if words[0] in total:
                total[words[0]] += int(words[1])
    return total["Rss:"], total["Pss_Anon:"]


def open_files(members):
    return sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in members)


def children_cpu_ns():
    """CPU time of children that ended and were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return int((used.ru_utime + used.ru_stime) * 1e9)


class Cores:
    """What the kernel counts for the two cores, from one moment to another. It counts in ticks of 10 ms."""

    def __init__(self):
        self.before, self.delta = self._read(), {}

    @staticmethod
    def _read():
        rows = {}
        for line in Path("/proc/stat").read_text().splitlines():
            words = line.split()
            if words[0].startswith("cpu") and words[0] != "cpu":
                rows[int(words[0][3:])] = [int(word) for word in words[1:9]]
        return rows

    def since(self):
        """For each of our cores: the share that the hypervisor took."""
        now, found = self._read(), {}
        for core in (PROXY_CORE, LOAD_CORE):
            delta = [after - before for after, before in zip(now[core], self.before[core])]
            total, idle, stolen = sum(delta) or 1, delta[3] + delta[4], delta[7]
            self.delta[core] = (total, total - idle - stolen, stolen)
            found[core] = stolen / total
        return found

    def much_stolen(self):
        """Whether the hypervisor took more of a core than the bound. One tick alone is no more than was rounded."""
        return any(stolen > 1 and stolen / total > STEAL_BOUND for total, _, stolen in self.delta.values())

    def others(self, ours_ns):
        """Share of the two cores that somebody else used."""
        total = sum(total for total, _, _ in self.delta.values())
        busy = sum(busy for _, busy, _ in self.delta.values())
        return max(0.0, (busy - ours_ns / 1e7) / total)


_given = set()


def free_port():
    """A port that nobody listens on, and that was not returned before."""
    while True:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        if port not in _given:
            _given.add(port)
            return port


def wait_until(what, condition, seconds=20.0, process=None, pause=0.02):
    """Polls until the condition gives something, and returns it; Failed when it does not, or when the process has ended."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        if process and not process.running():
            raise Failed(f"wait for {what}: {process.words[0]} ended: {process.said()}")
        if time.monotonic() > end:
            raise Failed(f"wait for {what}: not within {seconds:.0f} s{f': {process.said()}' if process else ''}")
        time.sleep(pause)
    return found


def listens(port):
    """Whether a program accepts connections there."""
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def wait_for_port(port, process, seconds=30.0):
    """Waits until a program listens there."""
    wait_until(f"port {port}", lambda: listens(port), seconds, process, 0.002)
