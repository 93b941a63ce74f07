"""The works: what is measured, in which order, for how long.

In: the bench (proxies, generator, book). Out: results in the book. Each work is one function and one line in WORKS.
"""

import itertools
import json
import os
import signal
import subprocess
import time
from pathlib import Path
from statistics import median

from . import machine, pairs
from .generator import AES128, Load
from .machine import Failed, Stolen
from .peers import ONWARDS, RIVALS, resumed_behind

KIB4 = ["-c", "16"]
# Seconds that the Java virtual machine gets to compile what it runs; the others get one.
JAVA_WARM = 15
EXCHANGES = 50
BULK = 4 * 1024 * 1024
SUITES = {
    "aes128": AES128,
    "aes256": "TLSv1.3 TLS_AES_256_GCM_SHA384 X25519",
    "chacha": "TLSv1.3 TLS_CHACHA20_POLY1305_SHA256 X25519",
}
HYBRID = "TLSv1.3 TLS_AES_128_GCM_SHA256 X25519MLKEM768"
TLS12 = {
    "ecdsa": "TLSv1.2 TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 X25519",
}
LEVELS = (0.1, 0.3, 0.5, 0.7, 0.8)


class Work:
    """A name, what it needs, how long it takes."""

    def __init__(self, name, run, what, seconds, kind="ecdsa", java=False, pairs=None, **options):
        self.name, self.run, self.what, self.seconds, self.pairs = name, run, what, seconds, pairs
        self.kind, self.java, self.options = kind, java, options


def runs(config, pairs_wanted, rivals, java=False, modes=1):
    """Estimated seconds of compare(): peers, and ours once for every two."""
    peers = rivals + java
    return pairs_wanted * (peers + (peers + 1) // 2) * (config.seconds + 0.3) * modes


def transactions(bench, work):
    """As fast as the generator goes, then all at the same rate: 60 % of what the slowest rival can do."""
    load = Load(*KIB4, **work.options)
    out = {"full speed": pairs.compare(bench, work, bench.rivals(work.java), load, bench.config.seconds, bench.pairs(work))}
    result = out["full speed"]
    everyone = [result["ours"]] + [found["rows"] for name, found in result["peers"].items() if name in RIVALS]
    most = [min(1e9 / pairs.figure(rows)[0], pairs.figure(rows, "rate")[0]) for rows in everyone]
    if work.name != "tls12" and len(everyone) > 1:
        rate = max(1, int(0.6 * min(most)))
        # At most 32 in flight: the pool of tickets is filled by full handshakes, one for each that could be resuming, and
        # these are in the CPU time too.
        load = Load("--rate", rate, "-c", 32, **work.options)
        same = pairs.compare(bench, work, bench.rivals(), load, bench.config.seconds, bench.pairs(work))
        out["same rate"] = same | {"rate": rate}
    bench.book.result(work.name, out)


def same_twice(bench, work):
    """Two processes of the same program: what this machine calls a difference where there is none."""
    site = bench.site("ecdsa")
    if "again" not in site.peers:
        site.start("handfast", label="again")
    bench.warm(site.peers["again"])
    load = Load(*KIB4)
    result = pairs.compare(bench, work, ["again"], load, bench.config.seconds, bench.pairs(work))
    site.peers.pop("again").stop_all()
    bench.book.result(work.name, {"full speed": result})


def hybrid(bench, work):
    """The key exchange that browsers use, beside X25519 alone, on the same process. The peers of this distribution have no such group."""
    peer = bench.site(work.kind).peers["handfast"]
    loads = {None: Load(*KIB4), "X25519MLKEM768": Load(*KIB4, agreed=HYBRID)}
    ours, found = [], {"ratios": [], "rows": []}
    for turn in range(2 * bench.pairs(work)):
        rows = {}
        for label in list(loads)[:: 1 if turn % 2 == 0 else -1]:
            try:
                rows[label] = bench.generator.run(peer, loads[label], bench.config.seconds, None)
            except Stolen:
                break
            bench.book.run(work.name, turn, rows[label])
        if len(rows) == len(loads) and len(ours) < bench.pairs(work):
            ours.append(rows[None])
            found["rows"].append(rows["X25519MLKEM768"])
            found["ratios"].append(rows["X25519MLKEM768"]["cpu_ns"] / rows[None]["cpu_ns"])
    if not ours:
        raise Failed("no pair has a figure: the hypervisor took too much")
    bench.book.result(work.name, {"full speed": {"ours": ours, "peers": {"X25519MLKEM768": found}, "void": {}}})


def exchanges(bench, work):
    load = Load("-c", "16", "-n", EXCHANGES)
    result = pairs.compare(bench, work, bench.rivals(), load, bench.config.seconds, bench.pairs(work))
    bench.book.result(work.name, {"full speed": result})


def both_ways(totals):
    """Bytes as units of work, those of each direction."""
    return totals["sent_bytes"] + totals["received_bytes"]


def bulk(bench, work):
    """Echoes of 4 MiB, so that every byte that was sent came back: no byte is left on its way when the run ends, and
    each is counted once in each direction."""
    out = {}
    for cipher, streams, wanted in work.options["rows"]:
        load = Load("-n", "unlimited", "-c", streams, "--send", BULK, agreed=SUITES[cipher])
        result = pairs.compare(bench, work, bench.rivals(), load, bench.config.seconds, min(wanted, bench.config.pairs),
                               unit=both_ways)
        out[f"{cipher}, {streams} stream{'s' if streams > 1 else ''}"] = result
    bench.book.result(work.name, out)


def onwards(bench, work):
    """Transactions and bulk through proxies that speak TLS with their backends, with the share that they resumed there."""
    site, out = bench.site(work.kind), {}
    loads = {"full speed": (Load(*KIB4), None, bench.pairs(work)),
             "aes128, 4 streams": (Load("-n", "unlimited", "-c", 4, "--send", BULK), both_ways, bench.pairs(work))}
    for mode, (load, unit, pairs_wanted) in loads.items():
        before = {name: resumed_behind(peer) for name, peer in site.peers.items()}
        out[mode] = pairs.compare(bench, work, bench.rivals(), load, bench.config.seconds, pairs_wanted, unit=unit)
        if unit:
            continue
        for name, peer in site.peers.items():
            now = resumed_behind(peer)
            full, resumed = (now[what] - before[name][what] for what in ("full", "resumed"))
            bench.note(f"{work.name}: {name} resumed {resumed / max(1, full + resumed):.1%} of {full + resumed:,.0f} sessions with its backend")
    bench.book.result(work.name, out)


def idle(bench, work):
    """Memory of connections that stand and do nothing, over what the proxy had before, each proxy fresh."""
    count, out = work.options["count"], {}
    for name in ["handfast", *(name for name in bench.rivals() if name in ONWARDS.get(work.kind, [name]))]:
        site = bench.fresh_site()
        try:
            peer = site.start(name, work.kind)
            # A few first, so that what is set up once is not counted as the connections'.
            bench.generator.warm(peer, Load("-c", "4"), 0.5)
            members = peer.members()
            rss, anonymous = machine.memory_kib(members)
            files = machine.open_files(members)
            process = bench.generator.begin(peer.port, ["--idle", "-c", str(count), "-d", "10m", "--timeout", "60s"])
            standing(process, members, files + 2 * count)
            time.sleep(bench.config.quiet)
            after_rss, after_anonymous = machine.memory_kib(members)
            process.process.send_signal(signal.SIGINT)
            report = bench.generator.finish(process, 60)
            if report["totals"]["failed"] or peer.members() != members:
                raise Failed(f"{report['totals']['failed']} of {count} connections failed")
            row = {"peer": name, "connections": count, "rss_kib": (after_rss - rss) / count,
                   "anonymous_kib": (after_anonymous - anonymous) / count, "rss_before_kib": rss, "rss_after_kib": after_rss}
            bench.book.run(work.name, 0, row)
            out[name] = row
        except Failed as problem:
            bench.book.void(work.name, name, str(problem))
        finally:
            site.stop()
    bench.book.result(work.name, out)


def standing(process, members, files):
    """Waits until the proxy has a descriptor for each side of each connection. Deadline: 60 s."""
    try:
        machine.wait_until(f"{files} descriptors of the proxy", lambda: machine.open_files(members) >= files, 60, process, 0.1)
    except Failed:
        process.stop()
        raise


class Direct:
    """The TLS echo without a proxy, in the proxy's place: on its core, with its certificate."""

    def __init__(self, bench, kind="ecdsa"):
        log = bench.folder / "direct.log"
        words = [bench.programs["benchmark"], "tls-echo", "127.0.0.1:0", bench.certificates[kind]]
        self.process = machine.Process(words, {machine.PROXY_CORE}, log, stdout=subprocess.PIPE)
        line = self.process.process.stdout.readline().decode().strip()
        if not line:
            raise Failed(f"start the TLS echo: {self.process.said()}")
        self.port, self.label, self.name, self.around = int(line.rsplit(":", 1)[1]), "direct", "direct", []
        self.others = {machine.LOAD_CORE}

    def members(self):
        return machine.tree(self.process.pid)

    def stop(self):
        self.process.stop()


def latency(bench, work):
    """4 KiB there and back on kept connections, at half of what the slowest can do with eight of them, three times in turn.

    64 connections, so that one is free when an exchange is due; what is compared is the exchange itself, from the first
    byte handed over.
    """
    site, out = bench.site("ecdsa"), {}
    direct = Direct(bench)
    try:
        everyone = [direct] + [site.peers[name] for name in ["handfast", *bench.rivals()] if name in site.peers]
        kept = ["-n", "unlimited", "-c"]
        unit = lambda totals: max(totals["exchanges"], 1)
        most = {peer.label: bench.generator.run(peer, Load(*kept, 8), 1, unit, rough=True)["exchange_rate"] for peer in everyone}
        rate = int(0.5 * min(most.values()))
        load = Load(*kept, 64, "--rate", rate)
        for turn in range(3):
            for peer in everyone if turn % 2 == 0 else everyone[::-1]:
                try:
                    row = bench.generator.run(peer, load, 2 * bench.config.seconds, unit)
                except Failed as problem:
                    bench.book.void(work.name, peer.label, f"turn {turn + 1}: {problem}")
                    continue
                bench.book.run(work.name, turn, row)
                if row["verdict"] == "valid":
                    out.setdefault(peer.label, []).append(row["percentiles_ns"]["exchange"])
                else:
                    bench.book.void(work.name, peer.label, f"{row['verdict']} at {rate}/s, turn {turn + 1}")
    finally:
        direct.stop()
    zero = out.get("direct")
    if not zero:
        raise Failed("the direct echo has no valid run, so there is no zero line")
    middle = lambda rows, name: median(row[name] for row in rows)
    added = {
        peer: {name: middle(rows, name) - middle(zero, name) for name in ("p50", "p99")}
        | {f"total {name}": middle(rows, name) for name in ("p50", "p99")}
        for peer, rows in out.items()
    }
    bench.book.result(work.name, {"rate": rate, "added_ns": added})


def open_loop(bench, work):
    """Handshake latency of the standard transaction at shares of each one's own maximum, and at the same rates for all.

    The maximum is what the CPU time of a transaction allows on one core. Rates that the generator cannot make with
    30 % of its core to spare are left out by name.
    """
    site, load = bench.site("ecdsa"), lambda rate: Load("--rate", rate)
    names, peaks = [name for name in ["handfast", *bench.rivals()] if name in site.peers], {}
    for name in list(names):
        try:
            peaks[name] = bench.generator.run(site.peers[name], Load(*KIB4), bench.config.seconds)
        except Failed as problem:
            bench.book.void(work.name, name, f"its maximum: {problem}")
            names.remove(name)
    if not names:
        raise Failed("nobody's maximum is known")
    most = {name: 1e9 / row["cpu_ns"] for name, row in peaks.items()}
    ceiling = 0.7 * max(row["rate"] for row in peaks.values())
    fastest = max((name for name in names if name != "handfast"), key=most.get, default="handfast")
    wanted = [(name, f"{share:.0%} of its own", int(share * most[name])) for share in LEVELS for name in names]
    wanted += [(name, f"{share:.0%} of {fastest}'s", int(share * most[fastest])) for share in LEVELS for name in names]
    out = {"maximum": most, "fastest": fastest, "rows": []}
    for name, level, rate in wanted:
        if rate > ceiling:
            out["rows"].append({"peer": name, "level": level, "rate": rate, "left_out": "more than the generator can make"})
            continue
        try:
            row = bench.generator.run(site.peers[name], load(rate), bench.config.seconds)
        except Failed as problem:
            bench.book.void(work.name, name, f"{level}: {problem}")
            continue
        bench.book.run(work.name, 0, row | {"level": level, "offered": rate})
        if row["verdict"] == "generator-limited":
            out["rows"].append({"peer": name, "level": level, "rate": rate, "left_out": "the generator was the limit"})
            continue
        found = row["percentiles_ns"]
        out["rows"].append({"peer": name, "level": level, "rate": rate, "verdict": row["verdict"],
                            "handshake": found["handshake"], "total": found["total"]})
    bench.book.result(work.name, out)


def flood(bench, work):
    """Exchanges on connections that stand, alone and while others do nothing but RSA handshakes as fast as the proxy lets
    them: what a flood of newcomers costs those who are there.

    The flood's generator has the lowest priority on its core, so that it does not delay the one that measures.
    """
    site, seconds, out = bench.site("rsa"), 2 * bench.config.seconds, {}
    load = Load("-n", "unlimited", "-c", 16, "--rate", work.options["rate"])
    for name in [name for name in ["handfast", *bench.rivals()] if name in site.peers]:
        for turn in range(work.pairs):
            try:
                row = {"peer": name, "alone": watched(bench, site.peers[name], load, seconds)}
                flooding = flood_of(bench, site.peers[name], seconds + 3)
                try:
                    row["flooded"] = watched(bench, site.peers[name], load, seconds)
                finally:
                    flooding.stop()
            except Failed as problem:
                bench.book.void(work.name, name, f"turn {turn + 1}: {problem}")
                continue
            bench.book.run(work.name, turn, row)
            out.setdefault(name, []).append(row)
    bench.book.result(work.name, out)


def watched(bench, peer, load, seconds):
    """Rate and percentiles of exchanges, and how busy the proxy was meanwhile, whoever kept it so."""
    cpu, begun = machine.cpu_ns(peer.members()), time.monotonic_ns()
    report = bench.generator.once(peer, load, seconds)
    busy = (machine.cpu_ns(peer.members()) - cpu) / (time.monotonic_ns() - begun)
    load.check(report)
    found = next(series["percentiles_ns"] for series in report["series"] if series["name"] == "exchange")
    return {"rate": report["totals"]["exchange_rate"], "p50": found["p50"], "p99": found["p99"], "busy": busy}


def flood_of(bench, peer, seconds):
    """Handshakes and nothing else, 32 at a time; returns when they have begun."""
    words = ["nice", "-n", "19", bench.programs["handfast"], "load", f"127.0.0.1:{peer.port}", "--sni", "localhost", "--threads",
             "1", "-q", "--handshake-only", "-c", "32", "-d", f"{int(seconds * 1000)}ms"]
    process = machine.Process(words, {machine.LOAD_CORE}, bench.folder / "flood.log")
    time.sleep(1)
    return process


def two_cores(bench, work):
    """CPU time of a transaction with two threads on both cores against one. There is no third core for the generator, so
    what can be seen here is only whether threads cost each other anything."""
    site = bench.site("ecdsa")
    both = {machine.PROXY_CORE, machine.LOAD_CORE}
    site.start("handfast", label="two threads", cores=both, threads=2)
    bench.warm(site.peers["two threads"])
    result = pairs.compare(bench, work, ["two threads"], Load(*KIB4), bench.config.seconds, bench.pairs(work))
    site.peers.pop("two threads").stop_all()
    bench.book.result(work.name, {"full speed": result})


def many_certificates(bench, work):
    """Start to the first handshake, memory, and memory after ten reloads, with 1, 1,000 and 10,000 certificates."""
    out = []
    for count in (1, 1000, 10_000):
        folder = bench.many_certificates(count)
        # hitch needs gigabytes for 10,000; nginx's stream and stunnel choose by name only in a section for each.
        names = ["handfast"] + [name for name in ("haproxy", "hitch") if name in bench.rivals() and count <= 1000]
        for name in names:
            site = bench.fresh_site()
            try:
                out.append(started(bench, site, name, folder, count))
                bench.book.run(work.name, 0, out[-1])
            except Failed as problem:
                bench.book.void(work.name, name, f"{count} certificates: {problem}")
            finally:
                site.stop()
    bench.book.result(work.name, out)


def started(bench, site, name, folder, count):
    certificate, more = f"{folder}/" if name == "handfast" else folder, ""
    if name == "hitch":
        # hitch names a folder in another key than a file.
        certificate, more = sorted(folder.iterdir())[0], f'pem-dir = "{folder}"\npem-dir-glob = "*.pem"\n'
    times = []
    for turn in range(5 if count == 1 else 1):
        if turn:
            site.stop()
        peer = site.start(name, certificate=certificate, more=more)
        times.append(peer.start_ns)
    # It serves, with the certificates that it was given.
    bench.generator.warm(peer, Load("-c", "4"), 0.3)
    row = {"peer": name, "certificates": count, "start_ns": median(times), "rss_kib": machine.memory_kib(peer.members())[0]}
    if name == "handfast":
        row["rss_by_reload_kib"] = []
        for turn in range(10):
            reload_once(peer, turn)
            row["rss_by_reload_kib"].append(machine.memory_kib(peer.members())[0])
        # What the old state leaves behind may go a little later; what is there then stays.
        time.sleep(bench.config.quiet)
        row["rss_after_reloads_kib"] = machine.memory_kib(peer.members())[0]
    return row


def reload_once(peer, turn):
    """HUP, and wait until the proxy says that it took effect. Deadline: 60 s."""
    log = peer.folder / "log"
    before = log.read_text().count("reloaded:")
    os.kill(peer.process.pid, signal.SIGHUP)
    machine.wait_until(f"reload {turn + 1} of 10", lambda: log.read_text().count("reloaded:") > before, 60, peer.process, 0.01)


def size(bench, work):
    """The program's size without symbols."""
    stripped = bench.folder / "stripped"
    subprocess.run(["strip", "-o", stripped, bench.programs["handfast"]], check=True, timeout=60)
    row = {"peer": "handfast", "bytes": stripped.stat().st_size}
    bench.book.run(work.name, 0, row)
    bench.book.result(work.name, row)


def calls(bench, work):
    """System calls of a transaction with eight clients at once."""
    peer = bench.site("ecdsa").peers["handfast"]
    row = {"peer": "handfast", **traced_calls(bench, peer, Load("-c", "8"), 2)}
    bench.book.run(work.name, 0, row)
    bench.book.result(work.name, row)


def traced_calls(bench, peer, load, seconds):
    """System calls of each connection, by name, while strace looks on."""
    found = bench.folder / "calls"
    tracer = machine.Process(["strace", "-qq", "-c", "-f", "-p", peer.process.pid, "-o", found], {machine.LOAD_CORE},
                             bench.folder / "strace.log")
    status = Path(f"/proc/{peer.process.pid}/status")
    machine.wait_until("strace to trace", lambda: "TracerPid:\t0" not in status.read_text(), 10, tracer)
    try:
        # What it took under strace is nobody's figure, and stolen time changes no count.
        options = [*load.options, "-d", f"{seconds}s"]
        report = bench.generator.finish(bench.generator.begin(peer.port, options), seconds + 60)
        load.check(report)
    finally:
        tracer.process.send_signal(signal.SIGINT)
        tracer.wait(10)
    counts = {}
    for line in found.read_text().splitlines():
        words = line.split()
        if len(words) >= 5 and words[3].isdigit() and words[-1] != "total":
            counts[words[-1]] = int(words[3])
    connections = report["totals"]["connections"]
    each = {name: count / connections for name, count in counts.items()}
    return {"calls": sum(each.values()), "connections": connections, "by_name": each}


def limit(bench, work):
    """Library in memory and a bare relay (`handfast speed --limit`), and right after it the proxy at the same works: its
    share of the limit is taken within a turn, and corrected by what a yardstick says before and after each run against
    what it said with the limit: the machine may be another one a second later.

    The limit is measured on the proxy's core alone, so the relay's peers are there too; whoever wakes another core pays
    for it. So the proxy is measured with its peers there, and on the other core, where all other works have them.
    """
    works = {
        "ecdsa": ("ecdsa", Load(*KIB4), None),
        "rsa": ("rsa", Load(*KIB4), None),
        "resumed": ("ecdsa", Load(*KIB4, resumed=True), None),
        "exchanges50": ("ecdsa", Load(*KIB4, "-n", EXCHANGES), None),
        "bulk": ("ecdsa", Load("-n", "unlimited", "-c", 4, "--send", BULK), both_ways),
    }
    places = {"same core": {machine.PROXY_CORE}, "other core": {machine.LOAD_CORE}}
    found, shares, site = {}, {place: {name: [] for name in works} for place in places}, bench.fresh_site()
    try:
        served = {(place, kind): site.start("handfast", kind, label=f"handfast, {kind}, peers on the {place}", others=cores)
                  for place, cores in places.items() for kind in ("ecdsa", "rsa")}
        for peer in served.values():
            bench.warm(peer)
        yardstick = Yardstick(bench)
        for turn in range(min(5, bench.config.pairs)):
            before = yardstick.all()
            found, after = measured_limit(bench), yardstick.all()
            then = {kind: (before[kind] + after[kind]) / 2 for kind in before}
            bench.book.run(work.name, turn, {"peer": "limit", **found, "library_ns": then})
            for place, (name, (kind, load, unit)) in itertools.product(places, works.items()):
                before = yardstick.all()
                try:
                    row = bench.generator.run(served[place, kind], load, bench.config.seconds, unit)
                except Failed as problem:
                    bench.book.void(work.name, name, f"turn {turn + 1}, {place}: {problem}")
                    continue
                after = yardstick.all()
                now = {kind: (before[kind] + after[kind]) / 2 for kind in before}
                bench.book.run(f"{work.name}, {name}", turn, row | {"library_ns": now})
                shares[place][name].append(least(found, name, then, now) / row["cpu_ns"])
        yardstick.stop()
    finally:
        site.stop()
    bench.book.result(work.name, found | {"shares": shares})


class Yardstick:
    """How fast the machine is just now: the library in memory, on the proxy's core. Neighbours whom nobody sees make a core
    half as fast for seconds or minutes, and the limit takes longer to measure than that."""

    KINDS = ("ecdsa", "rsa", "resumed", "exchange", "bulk")

    def __init__(self, bench):
        self.process = machine.Process([bench.programs["benchmark"], "yardstick"], {machine.PROXY_CORE},
                                       bench.folder / "yardstick.log", stdout=subprocess.PIPE, stdin=subprocess.PIPE)

    def all(self):
        """Nanoseconds for each kind of work, over 40 ms each."""
        return {kind: self.read(kind) for kind in self.KINDS}

    def read(self, kind):
        self.process.process.stdin.write(f"{kind} 40\n".encode())
        self.process.process.stdin.flush()
        line = self.process.process.stdout.readline()
        if not line:
            raise Failed(f"yardstick: {self.process.said()}")
        return float(line)

    def stop(self):
        self.process.stop()


def measured_limit(bench):
    """What `handfast speed --limit` says now, on the proxy's core."""
    found = bench.folder / "speed.json"
    process = machine.Process([bench.programs["handfast"], "speed", "--limit", "--json", found], {machine.PROXY_CORE},
                              bench.folder / "speed.log")
    code = process.wait(180)
    if code:
        raise Failed(f"handfast speed --limit ended with {code}: {process.said()}")
    return json.loads(found.read_text())["limit"]


def least(limit, name, then, now):
    """Nanoseconds below which no proxy of these parts can fall, for a unit of this work: what the library takes `now`, and
    what the bare relay took, as much faster or slower as the library was `then`."""
    def part(kind, relayed, units=1):
        return units * now[kind] + relayed * now[kind] / then[kind]

    transaction = limit["relay"]["time"]["ns"]
    if name == "bulk":
        return part("bulk", limit["relay_byte_ns"])
    if name == "exchanges50":
        bytes_each = 2 * limit["exchange_bytes"]
        return part("ecdsa", transaction) + (EXCHANGES - 1) * part("exchange", limit["relay_exchange_ns"], bytes_each)
    return part(name, transaction)


def standard_works(config):
    """All of them, in their order. Seconds are estimates, for the time that is left."""
    rivals, seconds = len(config.rivals), config.seconds
    both = lambda java=False: runs(config, config.pairs, rivals, java) + runs(config, config.pairs, rivals)
    few = min(3, config.pairs)
    one_each = (rivals + 1) * (seconds + 0.3)
    return [
        Work("a-a", same_twice, "the same program twice", config.pairs * 2 * (seconds + 0.3)),
        Work("ecdsa", transactions, "standard transaction, ECDSA P-256, TLS 1.3 full", both(True), java=True),
        Work("rsa", transactions, "standard transaction, RSA-2048, TLS 1.3 full", both(), kind="rsa"),
        Work("resumed", transactions, "standard transaction, TLS 1.3 resumed", both(), resumed=True),
        Work("hybrid", hybrid, "standard transaction, ECDSA P-256, TLS 1.3 full, X25519MLKEM768", 4 * config.pairs * (seconds + 0.3)),
        Work("exchanges50", exchanges, "50 exchanges of 4 KiB on a connection", runs(config, config.pairs, rivals)),
        Work("bulk", bulk, "bulk, both ways, AES-128-GCM",
             runs(config, config.pairs, rivals) + runs(config, few, rivals), rows=[("aes128", 4, 99), ("aes128", 1, few)]),
        Work("bulk-others", bulk, "bulk, both ways, the other ciphers", runs(config, few, rivals, modes=2),
             rows=[("aes256", 4, few), ("chacha", 4, few)]),
        Work("reencrypt", onwards, "TLS on both sides: full with the client, resumed with the backend", 2 * runs(config, config.pairs, 3),
             kind="reencrypt"),
        Work("originate", onwards, "plain clients, TLS with the backend, resumed", 2 * runs(config, config.pairs, 3), kind="originate"),
        Work("tls12", transactions, "standard transaction, ECDSA P-256, TLS 1.2 full", runs(config, few, rivals),
             pairs=few, agreed=TLS12["ecdsa"], tls="1.2"),
        Work("latency", latency, "added latency of 4 KiB there and back", (rivals + 2) * (6 * seconds + 2)),
        Work("open", open_loop, "handshake latency, open loop", 8 * one_each),
        Work("flood", flood, "exchanges while handshakes saturate the core", 3 * (rivals + 1) * (4 * seconds + 2), pairs=3, rate=1000),
        Work("cores", two_cores, "two threads against one", config.pairs * 2 * (seconds + 0.3)),
        Work("calls", calls, "system calls of a transaction", 4),
        Work("idle1k", idle, "memory of 1,000 idle connections", (rivals + 1) * (4 + config.quiet), count=1000),
        Work("idle9k", idle, "memory of 9,000 idle connections", (rivals + 1) * (14 + config.quiet), count=9000),
        Work("idle-reencrypt", idle, "memory of 4,000 idle connections with TLS on both sides", 4 * (14 + config.quiet), kind="reencrypt",
             count=4000),
        Work("certificates", many_certificates, "start and memory with many certificates", 45),
        Work("size", size, "the program's size", 1),
        Work("limit", limit, "the share of what no proxy of these parts can fall below", min(5, config.pairs) * (18 + 10 * (seconds + 0.3))),
    ]
