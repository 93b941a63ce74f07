"""Handfast against each peer, in turn: A B B A.

In: running proxies and the work. Out: for each peer the ratio of CPU time in each pair, and every run for the record.
"""

from statistics import median

from .machine import Failed, Stolen


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
    """Runs the pairs; each run is also kept in the book.

    A peer that fails once has no figure, with the reason. When we fail, nobody has one: Failed. A pair that the hypervisor
    spoiled is made again, in as many rounds more as were asked for.
    """
    site, out = bench.site(work.kind), {"peers": {}, "void": {}, "ours": []}
    peers = [peer for peer in peers if peer in site.peers]
    if not peers:
        raise Failed("there is no peer to compare with")
    done = {peer: {"ratios": [], "rows": []} for peer in peers}
    for turn in range(2 * pairs):
        wanted = [peer for peer in peers if peer not in out["void"] and len(done[peer]["ratios"]) < pairs]
        found, base = one_round(bench, work, (wanted, turn), (load, seconds, unit), (site, ours, out))
        for peer, (row, number) in found.items():
            if number in base:
                done[peer]["ratios"].append(row["cpu_ns"] / base[number]["cpu_ns"])
                done[peer]["rows"].append(row)
        out["ours"] += base.values()
    for peer in peers:
        if peer not in out["void"] and len(done[peer]["ratios"]) < pairs:
            why = f"{len(done[peer]['ratios'])} of {pairs} pairs only: the hypervisor took too much"
            out["void"][peer] = why
            bench.book.void(work.name, peer, why)
    out["peers"] = {peer: found for peer, found in done.items() if peer not in out["void"]}
    if not out["ours"]:
        raise Failed("no run of ours has a figure")
    return out


def one_round(bench, work, which, how, where):
    """Every peer once: those that have a row, with the number of our run beside it; and our runs by their numbers."""
    (wanted, turn), (site, ours, out), found, base = which, where, {}, {}
    for peer, number in order(wanted, turn):
        label = peer or ours
        try:
            row = bench.generator.run(site.peers[label], *how)
        except Stolen:
            continue
        except Failed as problem:
            if peer is None:
                raise
            out["void"][peer] = str(problem)
            bench.book.void(work.name, peer, str(problem))
            continue
        bench.book.run(work.name, turn, row)
        if peer is None:
            base[number] = row
        else:
            found[peer] = (row, number)
    return found, base


def figure(rows, key="cpu_ns"):
    """Median, least and greatest of a figure over runs."""
    return spread([row[key] for row in rows]) if rows else None


def percentile(values, share):
    """The value that this share of the others is below."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def spread(values):
    """Median, least and greatest."""
    return median(values), min(values), max(values)


def ratio(found):
    return spread(found["ratios"])


def best(result, rivals):
    """The rival with the least CPU time, that is the least ratio: (name, median, least, greatest)."""
    rows = [(ratio(found)[0], peer) for peer, found in result["peers"].items() if peer in rivals]
    if not rows:
        return None
    _, peer = min(rows)
    return (peer, *ratio(result["peers"][peer]))
