"""Handfast against each peer, in turn: A B B A.

In: running proxies and the work. Out: for each peer the ratio of CPU time in each pair, and every run for the record.
"""

from statistics import median

from .machine import Failed


def order(peers, turn):
    """One round: every peer stands beside a run of ours, and every other round goes backwards.

    Yields (peer, number of our run that it is compared with); peer None is ours.
    """
    line = []
    for number, start in enumerate(range(0, len(peers), 2)):
        two = peers[start : start + 2]
        line += [(two[0], number), (None, number)] + [(peer, number) for peer in two[1:]]
    return line if turn % 2 == 0 else line[::-1]


def compare(bench, work, peers, load, seconds, pairs, ours="handfast", unit=None):
    """Runs the pairs; the result is also kept in the book.

    A peer that fails once has no figure, with the reason. When we fail, nobody has one: Failed.
    """
    site, out = bench.site(work.kind), {"peers": {}, "void": {}, "ours": []}
    peers = [peer for peer in peers if peer in site.peers]
    if not peers:
        raise Failed("there is no peer to compare with")
    for turn in range(pairs):
        found, base = {}, {}
        for peer, number in order([peer for peer in peers if peer not in out["void"]], turn):
            label = peer or ours
            try:
                row = bench.generator.run(site.peers[label], load, seconds, unit)
            except Failed as problem:
                if peer is None:
                    raise
                out["void"][peer] = str(problem)
                bench.book.void(work.name, peer, str(problem))
                continue
            bench.book.run(work.name, turn, row)
            if peer is None:
                base[number] = row
                out["ours"].append(row)
            else:
                found[peer] = (row, number)
        for peer, (row, number) in found.items():
            rows = out["peers"].setdefault(peer, {"ratios": [], "rows": []})
            rows["ratios"].append(row["cpu_ns"] / base[number]["cpu_ns"])
            rows["rows"].append(row)
    for peer in out["void"]:
        out["peers"].pop(peer, None)
    if not out["ours"]:
        raise Failed("every peer failed in its first run")
    return out


def figure(rows, key="cpu_ns"):
    """Median, least and greatest of a figure over runs."""
    values = [row[key] for row in rows]
    return (median(values), min(values), max(values)) if values else None


def ratio(found):
    return median(found["ratios"]), min(found["ratios"]), max(found["ratios"])


def best(result, rivals):
    """The rival with the least CPU time, that is the least ratio: (name, median, least, greatest)."""
    rows = [(ratio(found)[0], peer) for peer, found in result["peers"].items() if peer in rivals]
    if not rows:
        return None
    _, peer = min(rows)
    return (peer, *ratio(result["peers"][peer]))
