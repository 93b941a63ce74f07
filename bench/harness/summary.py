"""summary.md: the goals with what was found, then every work with every peer; and the chart.

In: the book's results. Out: text for people. Every figure here can be made again from raw.jsonl.
"""

from statistics import median

from . import chart
from .pairs import best, figure, ratio, spread
from .peers import RIVALS

MIB = 1024 * 1024
# Share of the cores that somebody else may use before the summary says that the figures are worth nothing.
BUSY = 0.03


class Goals:
    """The table that the project holds itself to."""

    def __init__(self, results):
        self.results, self.rows, self.missed = results, [], 0

    def add(self, what, goal, found, held):
        """`held` None: not measured, which is neither."""
        word = "not measured" if held is None else "held" if held else "**short**"
        self.missed += held is False
        self.rows.append(f"| {what} | {goal} | {found or '—'} | {word} |")

    def against_best(self, what, work, mode, goal):
        result = self.results.get(work, {}).get(mode)
        found = best(result, RIVALS) if result else None
        if not found or len(result["peers"]) < 1:
            return self.add(what, f"best peer ≥ {goal} ×", None, None)
        peer, middle, least, most = found
        self.add(what, f"best peer ≥ {goal} ×", f"{middle:.2f} × ({least:.2f} to {most:.2f}), {peer}, {mode}", middle >= goal)

    def share_of_limit(self, what, work, goal):
        """Taken within a turn, of runs that follow each other, with the peers where the limit had them."""
        shares = like_for_like(self.results.get("limit", {})).get(work)
        if not shares:
            return self.add(f"{what}: share of the limit", f"≥ {goal} %", None, None)
        middle, low, high = (100 * value for value in spread(shares))
        self.add(f"{what}: share of the limit", f"≥ {goal} %", f"{middle:.0f} % ({low:.0f} to {high:.0f})", middle >= goal)

    def all(self, bench):
        for mode in ("same rate", "full speed"):
            self.against_best("standard transaction, ECDSA", "ecdsa", mode, 2.5)
        self.share_of_limit("standard transaction, ECDSA", "ecdsa", 90)
        for mode in ("same rate", "full speed"):
            self.against_best("standard transaction, RSA-2048", "rsa", mode, 1.35)
        self.share_of_limit("standard transaction, RSA-2048", "rsa", 92)
        for mode in ("same rate", "full speed"):
            self.against_best("standard transaction, resumed", "resumed", mode, 2.2)
        self.share_of_limit("standard transaction, resumed", "resumed", 90)
        self.against_best("50 exchanges on a connection", "exchanges50", "full speed", 1.8)
        self.share_of_limit("50 exchanges on a connection", "exchanges50", 85)
        self.against_best("bulk, 4 streams, AES-128-GCM", "bulk", "aes128, 4 streams", 1.6)
        self.share_of_limit("bulk, 4 streams, AES-128-GCM", "bulk", 80)
        for name, what in (("reencrypt", "TLS on both sides"), ("originate", "TLS with the backend alone")):
            self.against_best(f"{what}: transaction", name, "full speed", 1.8)
            self.against_best(f"{what}: bulk", name, "aes128, 4 streams", 1.5)
        self.java()
        self.calls()
        self.idle()
        self.latency()
        self.handshakes()
        self.flood()
        self.cores()
        self.program()
        return self

    def java(self):
        found = self.results.get("ecdsa", {}).get("full speed", {}).get("peers", {}).get("SSLProxy.java")
        text = found and "{:.1f} × ({:.1f} to {:.1f})".format(*ratio(found))
        self.add("against `SSLProxy.java`", "≥ 20 ×", text, found and ratio(found)[0] >= 20)

    def calls(self):
        found = self.results.get("calls")
        self.add("system calls of a transaction, 8 clients", "≤ 20", found and f"{found['calls']:.1f}",
                 found and found["calls"] <= 20)

    def idle(self):
        row = self.results.get("idle9k", {}).get("handfast")
        self.add("idle connection, resident memory, 9,000 held", "≤ 5 KiB", row and f"{row['rss_kib']:.2f} KiB",
                 row and row["rss_kib"] <= 5)

        row = self.results.get("idle-reencrypt", {}).get("handfast")
        self.add("idle connection with TLS on both sides, 4,000 held", "≤ 8 KiB", row and f"{row['rss_kib']:.2f} KiB",
                 row and row["rss_kib"] <= 8)

    def latency(self):
        added = self.results.get("latency", {}).get("added_ns", {})
        mine = added.get("handfast")
        rivals = [row for name, row in added.items() if name in RIVALS]
        for name, bound in (("p50", 30), ("p99", 100)):
            self.add(f"added latency, 4 KiB there and back, {name}", f"≤ {bound} µs",
                     mine and f"{mine[name] / 1e3:.0f} µs", mine and mine[name] <= bound * 1e3)
        worse = mine and rivals and any(mine[name] > min(row[name] for row in rivals) for name in ("p50", "p99"))
        self.add("added latency, beside the peers", "never worse", mine and rivals and ("worse than one" if worse else "not worse"),
                 not worse if mine and rivals else None)

    def handshakes(self):
        result = self.results.get("open", {})
        level = f"70% of {result.get('fastest')}'s"
        found = {row["peer"]: row["handshake"]["p99"] for row in result.get("rows", []) if row["level"] == level and "handshake" in row}
        mine, theirs = found.get("handfast"), found.get(result.get("fastest"))
        share = mine / theirs if mine and theirs else None
        self.add("handshake p99 at 70 % of the best peer's maximum", "≤ 0.6 × that peer", share and f"{share:.2f} ×",
                 share and share <= 0.6)

    def flood(self):
        rows = self.results.get("flood", {}).get("handfast")
        rate = rows and median(row["flooded"]["rate"] / row["alone"]["rate"] for row in rows)
        p99 = rows and median(row["flooded"]["p99"] / row["alone"]["p99"] for row in rows)
        self.add("exchanges while handshakes saturate the core: rate", "≥ 90 %", rows and f"{rate:.0%}", rows and rate >= 0.9)
        self.add("… p99", "≤ 2 ×", rows and f"{p99:.1f} ×", rows and p99 <= 2)

    def cores(self):
        found = self.results.get("cores", {}).get("full speed", {}).get("peers", {}).get("two threads")
        text = found and "{:+.1%} ({:+.1%} to {:+.1%})".format(*(value - 1 for value in ratio(found)))
        self.add("CPU time of a transaction, two threads against one", "within 3 %", text, found and abs(ratio(found)[0] - 1) <= 0.03)

    def program(self):
        size = self.results.get("size")
        self.add("program, stripped", "≤ 24 MiB (more: ask what grew)", size and f"{size['bytes'] / MIB:.1f} MiB",
                 size and size["bytes"] <= 24 * MIB)
        rows = {row["certificates"]: row for row in self.results.get("certificates", []) if row["peer"] == "handfast"}
        for count, bound in ((1, 50), (10_000, 2000)):
            row = rows.get(count)
            self.add(f"start to serving, {count:,} certificate{'s' if count > 1 else ''}", f"≤ {bound} ms",
                     row and f"{row['start_ns'] / 1e6:.0f} ms", row and row["start_ns"] <= bound * 1e6)
        row = rows.get(10_000)
        self.add("memory with 10,000 certificates", "≤ 150 MiB", row and f"{row['rss_kib'] / 1024:.0f} MiB",
                 row and row["rss_kib"] <= 150 * 1024)
        grown = row and row["rss_after_reloads_kib"] / row["rss_kib"]
        self.add("… after 10 reloads", "unchanged (at most + 1 %)", row and f"{row['rss_after_reloads_kib'] / 1024:.1f} MiB, {grown - 1:+.1%}",
                 row and grown <= 1.01)


def write(bench, chosen):
    """Writes summary.md and the chart, prints the summary; how many goals were missed."""
    book = bench.book
    goals = Goals(book.results).all(bench)
    lines = ["# Summary", "", "Ratios are CPU time of the peer over that of Handfast: above 1 the peer takes more. Median of the pairs, and",
             "least to greatest. [setup.md](setup.md) says on what, raw.jsonl has every run, bench/README.md how to read it.", ""]
    lines += quiet(bench.generator.others)
    lines += same_twice(book.results.get("a-a")) + ["## Goals", "", "| what | goal | found | |", "|---|---|---|---|", *goals.rows, ""]
    if book.voids:
        lines += ["## Not measured", "", *(f"- {work}, {peer}: {why}" for work, peer, why in book.voids), ""]
    for work in chosen:
        found = book.results.get(work.name)
        if found and work.name in TABLES:
            lines += [f"## {work.name}: {work.what}", "", *TABLES[work.name](found), ""]
    lines += notes(bench)
    today = chart.today(book.results.get("ecdsa", {}).get("full speed"))
    if today:
        (book.folder / "chart.svg").write_text(chart.svg(today))
        lines += ["![2005 and today](chart.svg)", ""]
    text = "\n".join(lines)
    (book.folder / "summary.md").write_text(text)
    print(text)
    return goals.missed


def like_for_like(found):
    """Shares of the limit with generator and backend on the core where the bare relay's peers were when it was measured."""
    return found.get("shares", {}).get("same core" if found.get("relay", {}).get("one_cpu") else "other core", {})


def quiet(others):
    """Whether anybody else used the cores."""
    if not others:
        return []
    middle = median(others)
    if middle > BUSY:
        return [f"**The machine was not quiet: others used {middle:.0%} of the two cores (median of the runs). These figures are worth "
                "nothing beyond showing that the benchmark works.**", ""]
    return [f"Others used {middle:.1%} of the two cores (median of the runs).", ""]


def same_twice(result):
    found = result and result["full speed"]["peers"].get("again")
    if not found:
        return ["**No A/A run: nobody knows what a difference is worth here.**", ""]
    middle, least, most = ratio(found)
    return [f"A/A: the same program against itself gave {middle:.3f} ({least:.3f} to {most:.3f}). Differences smaller than that are none.", ""]


def notes(bench):
    rows = [f"- {note}" for note in bench.book.notes[:20]]
    if len(bench.book.notes) > 20:
        rows.append(f"- and {len(bench.book.notes) - 20} more, in raw.jsonl")
    if bench.generator.dropped:
        rows.append(f"- {bench.generator.dropped} runs were dropped and repeated because the hypervisor took time")
    return ["## Notes", "", *rows, ""] if rows else []


def by_mode(found):
    lines = []
    for mode, result in found.items():
        rate = f", {result['rate']:,}/s" if "rate" in result else ""
        bulk = "stream" in mode
        unit = "ns a byte" if bulk else "µs of CPU"
        lines += [f"{mode}{rate}:", "", f"| | {unit} | ratio | one core could | proxy busy | generator and backend |",
                  "|---|---|---|---|---|---|"]
        everyone = [("handfast", result["ours"], None)]
        everyone += [(name, peer["rows"], peer) for name, peer in result["peers"].items()]
        for name, rows, peer in everyone:
            middle, least, most = (value if bulk else value / 1e3 for value in figure(rows))
            times = "1" if peer is None else "{:.2f} ({:.2f} to {:.2f})".format(*ratio(peer))
            could = f"{1e9 / middle / MIB:,.0f} MiB/s" if bulk else f"{1e6 / middle:,.0f}/s"
            busy = median(row["proxy_busy"] for row in rows)
            load = median(row["load_busy"] for row in rows)
            lines.append(f"| {name} | {middle:.3g} ({least:.3g} to {most:.3g}) | {times} | {could} | {busy:.0%} | {load:.0%} |")
        lines.append("")
    return lines


def idle_table(found):
    return ["| | Rss each | anonymous each | before |", "|---|---|---|---|"] + [
        f"| {name} | {row['rss_kib']:.2f} KiB | {row['anonymous_kib']:.2f} KiB | {row['rss_before_kib'] / 1024:.1f} MiB |"
        for name, row in found.items()]


def latency_table(found):
    lines = [f"{found['rate']:,} exchanges a second. Added: percentile less the same percentile of the TLS echo without a proxy.",
             "", "| | p50 added | p99 added | p50 | p99 |", "|---|---|---|---|---|"]
    micro = lambda value: f"{value / 1e3:.0f} µs"
    return lines + [f"| {name} | {micro(row['p50'])} | {micro(row['p99'])} | {micro(row['total p50'])} | {micro(row['total p99'])} |"
                    for name, row in found["added_ns"].items()]


def milli(value):
    return f"{value / 1e6:.2f} ms"


def open_table(found):
    lines = ["Maximum that the CPU time allows on one core: " + ", ".join(f"{name} {rate:,.0f}/s" for name, rate in found["maximum"].items()) + ".",
             "", "| | level | rate | handshake p50 | p99 | total p99 |", "|---|---|---|---|---|---|"]
    for row in found["rows"]:
        if "left_out" in row:
            lines.append(f"| {row['peer']} | {row['level']} | {row['rate']:,}/s | left out: {row['left_out']} | | |")
        else:
            limited = " (its limit)" if row["verdict"] == "target-limited" else ""
            lines.append(f"| {row['peer']} | {row['level']} | {row['rate']:,}/s{limited} | {milli(row['handshake']['p50'])} | "
                         f"{milli(row['handshake']['p99'])} | {milli(row['total']['p99'])} |")
    return lines


def flood_table(found):
    lines = ["| | rate kept | p50 alone | p50 flooded | p99 alone | p99 flooded | core busy |", "|---|---|---|---|---|---|---|"]
    for name, rows in found.items():
        of = lambda mode, what: median(row[mode][what] for row in rows)
        kept = median(row["flooded"]["rate"] / row["alone"]["rate"] for row in rows)
        times = " | ".join(milli(of(mode, what)) for what in ("p50", "p99") for mode in ("alone", "flooded"))
        lines.append(f"| {name} | {kept:.0%} | {times} | {of('flooded', 'busy'):.0%} |")
    return lines


def certificates_table(found):
    lines = ["| | certificates | start to serving | Rss | after 10 reloads |", "|---|---|---|---|---|"]
    return lines + [f"| {row['peer']} | {row['certificates']:,} | {row['start_ns'] / 1e6:,.0f} ms | {row['rss_kib'] / 1024:,.1f} MiB | "
                    + (f"{row['rss_after_reloads_kib'] / 1024:,.1f} MiB |" if "rss_after_reloads_kib" in row else "|") for row in found]


def calls_table(found):
    names = sorted(found["by_name"].items(), key=lambda row: -row[1])
    return ["| call | each transaction |", "|---|---|"] + [f"| {name} | {each:.2f} |" for name, each in names if each >= 0.01]


def limit_table(found):
    lines = ["| | peers on the proxy's core | peers on the other core |", "|---|---|---|"]
    for name in found["shares"]["same core"]:
        cells = ["{:.0f} % ({:.0f} to {:.0f})".format(*(100 * value for value in spread(shares))) if shares else "—"
                 for shares in (found["shares"][place][name] for place in ("same core", "other core"))]
        lines.append(f"| {name} | {cells[0]} | {cells[1]} |")
    where = "the same core" if found["relay"]["one_cpu"] else "another core"
    return [f"Share of the limit, whose relay had its peers on {where}.", "", *lines, ""]


BY_MODE = ("a-a", "ecdsa", "rsa", "resumed", "tls12", "hybrid", "exchanges50", "bulk", "bulk-others", "cores", "reencrypt", "originate")
TABLES = {name: by_mode for name in BY_MODE} | {
    "idle1k": idle_table, "idle9k": idle_table, "idle-reencrypt": idle_table, "latency": latency_table, "open": open_table,
    "certificates": certificates_table, "calls": calls_table, "flood": flood_table, "limit": limit_table}
