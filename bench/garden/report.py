"""What a run of the garden prints and keeps. In: outcomes and findings. Out: a table, a summary, a JSON file."""

import json
from collections import Counter, defaultdict

RULES = ("desync", "unlogged", "differ", "strict", "verdict")


def violations(findings, front):
    """The findings that make the run fail: of a front that is not ours, other verdicts than our table's are notes."""
    return [finding for finding in findings if finding.rule != "verdict" or front.judged]


def table(lanes, findings):
    """A line for each class: cases, what the front did in the first lane, cases with a finding by rule."""
    groups, found = defaultdict(Counter), defaultdict(set)
    for outcome in lanes[0].outcomes:
        groups[outcome.case.group]["cases"] += 1
        groups[outcome.case.group][outcome.verdict()[0]] += 1
    for finding in findings:
        if finding.case:
            found[finding.case.group, finding.rule].add(finding.case.label)
    yield f"{'class':<16}{'cases':>6}{'accept':>8}{'reject':>8}{'hang':>6}" + "".join(f"{rule:>10}" for rule in RULES)
    for group, counts in groups.items():
        line = f"{group:<16}{counts['cases']:>6}{counts['accept']:>8}{counts['reject']:>8}{counts['hang']:>6}"
        yield line + "".join(f"{len(found[group, rule]):>10}" for rule in RULES)


def details(findings, limit=None):
    """Findings by rule and case, the backends of one kind together."""
    merged = defaultdict(list)
    for finding in findings:
        label = finding.case.label if finding.case else "(no case)"
        merged[finding.rule, label, finding.what].append(finding.backend)
    lines = [f"{rule:<9} {label} [{', '.join(sorted(set(backends)))}]: {what[:300]}"
             for (rule, label, what), backends in sorted(merged.items())]
    yield from lines[:limit]
    if limit and len(lines) > limit:
        yield f"… and {len(lines) - limit} more; all are in the JSON file"


def write(path, front, lanes, seen, findings, absent):
    """The JSON file: each case with what every backend answered and saw, and all findings."""
    cases = []
    for index, first in enumerate(lanes[0].outcomes):
        row = {"class": first.case.group, "case": first.case.name, "rfc": first.case.rfc, "expected": first.case.expect,
               "own": first.case.own, "notes": first.case.notes, "backends": {}}
        for lane in lanes:
            if index < len(lane.outcomes):
                outcome = lane.outcomes[index]
                row["backends"][lane.backend.name] = {
                    "verdict": outcome.verdict(), "answers": outcome.answers, "other": outcome.other, "closed": outcome.closed,
                    "problem": outcome.problem, "seconds": outcome.seconds, "seen": seen[lane.backend.name].get(outcome.token, [])}
        cases.append(row)
    rows = [{"rule": finding.rule, "case": finding.case.label if finding.case else None, "backend": finding.backend,
             "what": finding.what} for finding in findings]
    text = json.dumps({"front": front.name, "missing": absent, "cases": cases, "findings": rows}, indent=1)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
