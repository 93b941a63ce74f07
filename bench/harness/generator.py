"""One run of `handfast load` against one proxy, and what both cost.

In: a proxy, options, what must have been agreed. Out: a record of figures; or Failed, with the reason, when anything
was not as it should be: an error, another version, suite or group, more or less resumption than was asked for.
"""

import json

from . import machine
from .machine import Cores, Failed, Process, Stolen

AES128 = "TLSv1.3 TLS_AES_128_GCM_SHA256 X25519"
# Resumed handshakes that must come of those asked for.
RESUMED = 0.999
# Runs that are dropped for stolen time before one gives up.
REPEATS = 4


class Load:
    """Options of `handfast load`, and what has to come of them."""

    def __init__(self, *options, agreed=AES128, resumed=False, tls="1.3"):
        _, suite, group = agreed.split()
        self.agreed, self.resumed = agreed, resumed
        # The same offer to everyone: one version, one suite, X25519 first, or what shall be agreed. P-256 is offered for the sake of TLS 1.2
        # with an ECDSA certificate, which needs the certificate's curve among the groups.
        self.options = ["--tls", tls, "--suites", suite, "--groups", f"{group},secp256r1", *map(str, options)]
        if resumed:
            self.options += ["--resume", "1"]

    def check(self, report):
        totals, mix = report["totals"], report["mix"]
        if report["errors"] or totals["failed"] or report["verdict"]["word"] in ("errors", "port-limited"):
            rows = [f"{row['count']} × {row['step']}: {row['cause']}" for row in report["errors"]]
            raise Failed(f"{report['verdict']['word']}: {totals['failed']} failed ({', '.join(rows) or 'no cause told'})")
        if set(mix["agreed"]) != {self.agreed}:
            raise Failed(f"agreed on {mix['agreed']}, expected {self.agreed} alone")
        if mix["hello_retry"] or mix["early_data_accepted"]:
            raise Failed(f"{mix['hello_retry']} handshakes took a second round, {mix['early_data_accepted']} early data")
        share = mix["resumed"] / max(1, mix["resumed"] + mix["full"])
        if self.resumed and share < RESUMED or not self.resumed and mix["resumed"]:
            raise Failed(f"{share:.2%} of handshakes resumed, expected {'at least 99.9 %' if self.resumed else 'none'}")
        if not totals["transactions"]:
            raise Failed("no transaction in the whole run")


class Generator:
    """Runs the load."""

    def __init__(self, program, folder, note):
        self.program, self.folder, self.note = program, folder, note
        self.dropped, self.others = 0, []

    def begin(self, port, options, cores=None):
        """Starts it and does not wait."""
        words = [self.program, "load", f"127.0.0.1:{port}", "--sni", "localhost", "--threads", "1", "-q", "--json",
                 self.folder / "report.json", *options]
        return Process(words, cores or {machine.LOAD_CORE}, self.folder / "load.log")

    def finish(self, process, seconds):
        """Its report. Codes 0 and 3 come with one, and 130, that of a run which was interrupted."""
        code = process.wait(seconds)
        process.stop()
        if code not in (0, 3, 130):
            raise Failed(f"handfast load ended with {code}: {process.said()}")
        return json.loads((self.folder / "report.json").read_text())

    def once(self, peer, load, seconds):
        """The report of one run, unchecked."""
        (self.folder / "load.log").write_text("")
        return self.finish(self.begin(peer.port, [*load.options, "-d", f"{int(seconds * 1000)}ms"], peer.others), seconds + 60)

    def warm(self, peer, load, seconds):
        """Load that is not timed: only what was agreed, and that nothing failed, is looked at."""
        load.check(self.once(peer, load, seconds))

    def run(self, peer, load, seconds, unit=None, rough=False):
        """One run that counts; a `rough` one only finds a rate to use, and stolen time does not spoil it. `unit` makes units of
        work of a report's totals; connections when it is not given.

        Connections are all that were begun, warm-up included, as the CPU time is that of all of them.
        """
        each = unit or (lambda totals: totals["connections"])
        for _ in range(REPEATS):
            members = peer.members()
            before, generator, cores = machine.settled_cpu_ns(members), machine.children_cpu_ns(), Cores()
            around = {process.pid: 0 for process in peer.around}
            backend = machine.cpu_ns(around)
            report = self.once(peer, load, seconds)
            taken, generator = cores.since(), machine.children_cpu_ns() - generator
            spent = machine.settled_cpu_ns(members) - before
            if peer.members() != members:
                raise Failed(f"{peer.label}: a process came or went during the run")
            load.check(report)
            stolen = max(taken.values())
            if cores.much_stolen() and not rough:
                self.dropped += 1
                self.note(f"dropped a run of {peer.label}: the hypervisor took {stolen:.1%} of a core")
                continue
            units = each(report["totals"])
            if units <= 0:
                raise Failed(f"{peer.label}: nothing was done")
            spent_by_backend = machine.cpu_ns(around) - backend
            # While the load lasted: the ticks of the cores would have start and end of the generator in them.
            rate = unit(report["totals"]) / report["totals"]["duration_seconds"] if unit else report["totals"]["rate"]
            others = cores.others(spent + spent_by_backend + generator)
            self.others.append(others)
            return {
                "peer": peer.label, "cpu_ns": spent / units, "units": units, "cpu_total_ns": spent,
                "rate": report["totals"]["rate"], "exchange_rate": report["totals"]["exchange_rate"],
                "proxy_busy": spent / units * rate / 1e9,
                "load_busy": report["workers"][0]["cpu"] + spent_by_backend / units * rate / 1e9,
                "stolen": stolen, "others": others,
                "generator_cpu_ns": generator / units, "backend_cpu_ns": spent_by_backend / units,
                "generator_cpu": report["workers"][0]["cpu"], "verdict": report["verdict"]["word"],
                "agreed": report["mix"]["agreed"], "full": report["mix"]["full"], "resumed": report["mix"]["resumed"],
                "warm_up": report["totals"]["warm_up_connections"],
                "percentiles_ns": {row["name"]: row["percentiles_ns"] for row in report["series"]},
            }
        raise Stolen(f"{peer.label}: the hypervisor took more than {machine.STEAL_BOUND:.1%} of a core in {REPEATS} runs")
