"""What caches answer to the questions of RFC 9111, 5861, 9213 and 9211: the public suite of HTTP cache tests, and questions.mjs.

In: names of caches. Out: rows of suite.mjs for each, and the tables of them.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

from harness import machine
from harness.machine import Failed, Process
from recipes import programs
from web import fronts, tools

from .fronts import FRONTS

HERE = Path(__file__).resolve().parent
PACKAGE = "http-cache-tests"
SUITE = programs.MODULES / PACKAGE
SECONDS = 300
# A cache, or one with more keys than the five lines.
ASKED = {"handfast": {}, "handfast-permissive": {"cache": ['heuristic = "10%"', "store-set-cookie = true"]},
         # Every response that has content is compressed for the suite's client, which decodes it.
         "handfast-compressed": {"cache": ["[service.http]", 'compression = { min-size = "1B", types = "*/*" }']}, "nginx": {}, "varnish": {}, "apache": {}}
TITLES = {
    "9111": {"1.2.2": "Numbers of seconds", "2": "Overview", "3": "Which responses may be stored", "3.1": "Storing fields",
             "3.4": "Combining parts", "3.5": "Requests with `Authorization`", "4": "Answering from what is stored", "4.1": "`Vary`", "4.2": "Freshness", "4.2.1": "Lifetime", "4.2.2": "Heuristic freshness", "4.2.3": "Age",
             "4.2.4": "Serving stale responses", "4.3": "Validation", "4.3.1": "Conditional requests", "4.3.2": "Conditions of clients",
             "4.3.4": "Updating by 304", "4.3.5": "Updating by HEAD", "4.4": "Invalidation", "5.1": "`Age`", "5.2": "`Cache-Control`: syntax", "5.2.1.1": "`max-age` of requests", "5.2.1.2": "`max-stale`",
             "5.2.1.3": "`min-fresh`", "5.2.1.4": "`no-cache` of requests", "5.2.1.5": "`no-store` of requests", "5.2.1.7": "`only-if-cached`",
             "5.2.2": "`Cache-Control` of responses", "5.2.2.1": "`max-age`", "5.2.2.2": "`must-revalidate`", "5.2.2.3": "`must-understand`",
             "5.2.2.4": "`no-cache`", "5.2.2.5": "`no-store`", "5.2.2.7": "`private`", "5.2.2.8": "`proxy-revalidate`", "5.2.2.9": "`public`",
             "5.2.2.10": "`s-maxage`", "5.2.3": "Extensions", "5.3": "`Expires`", "5.4": "`Pragma`", "-": "Others of the suite"},
    "5861": {"3": "`stale-while-revalidate`", "4": "`stale-if-error`"},
    "9213": {"2": "Targeted fields", "2.1": "Syntax", "2.2": "`CDN-Cache-Control` before others"},
    "9211": {"2.1": "`hit`", "2.2": "`fwd`", "2.4": "`ttl`", "2.5": "`stored`"},
}
KINDS = ("required", "optimal", "check")
NAMES = {"handfast": "Handfast", "handfast-permissive": "Handfast, permissive", "handfast-compressed": "Handfast, compressing", "nginx": "nginx", "varnish": "Varnish", "apache": "Apache"}


def start_origin(folder, suite):
    """The suite's own server, which responds as each question says: its port."""
    port = machine.free_port()
    words = {"npm_config_protocol": "http", "npm_config_port": str(port), "npm_config_pidfile": str(folder / "origin.pid")}
    os.environ.update(words)
    engine = suite / "test-engine" if (suite / "test-engine").exists() else suite
    process = Process([tools.find("node"), "--no-warnings", engine / "server/server.mjs"], None, folder / "origin.log", suite)
    machine.wait_for_port(port, process)
    return port


def ask(name, folder, certificate, origin, suite):
    """The rows of one cache."""
    kind = name.partition("-")[0]
    folder = folder / name
    folder.mkdir()
    front = FRONTS[kind](folder, certificate, {"threads": 2, **ASKED[name]})
    front.start([fronts.Route("cache", origin)])
    try:
        words = [tools.find("node"), "--no-warnings", HERE / "suite.mjs", suite, f"http://127.0.0.1:{front.routes[0].plain}"]
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=SECONDS, check=False)
        if done.returncode:
            raise Failed(f"{name}: {done.stderr.strip()[-2000:]}")
        return json.loads(done.stdout)
    finally:
        front.stop()


def install():
    """The suite, where it is not there yet."""
    if shutil.which("npm"):
        programs.install([PACKAGE])
    if absent := programs.missing([PACKAGE]):
        raise Failed(f"ask caches: not installed: {programs.describe(absent)}; hint: `scripts/install-missing package npm`")


def count(rows, kind):
    """`yes/all` of the rows of a kind that could be put and do not depend on others; empty without any."""
    asked = [row for row in rows if row["kind"] == kind and row["answer"] != "depends"]
    return f"{sum(row['answer'] == 'yes' for row in asked)}/{len(asked)}" if asked else ""


def by_section(found, kinds=KINDS):
    """Markdown: all in one table, then for each RFC a row for each section and each of these kinds that it has questions of."""
    lines = ["## All", "", *head("RFC", "", found)]
    of_suite = [[row for row in rows if row.get("suite")] for rows in found.values()]
    lines += [row_of("the public suite", kind, [count(rows, kind) for rows in of_suite]) for kind in KINDS]
    lines += [row_of(rfc, kind, [count([row for row in rows if row["rfc"] == rfc], kind) for rows in found.values()]) for rfc in TITLES for kind in KINDS]
    for rfc, titles in TITLES.items():
        sections = []
        for section, title in titles.items():
            here = [[row for row in rows if (row["rfc"], row["section"]) == (rfc, section)] for rows in found.values()]
            sections += [row_of(section, f"{title}: {kind}", [count(rows, kind) for rows in here]) for kind in kinds]
        if any(sections):
            lines += ["", f"## RFC {rfc}", "", *head("section", "", found), *sections]
    return "\n".join(line for line in lines if line is not None) + "\n"


def head(first, second, found):
    return [f"| {first} | {second} | {' | '.join(NAMES[name] for name in found)} |", f"|---|---|{'---|' * len(found)}"]


def row_of(first, second, cells):
    """A row of a table; none where nobody could be asked."""
    return f"| {first} | {second} | {' | '.join(cells)} |" if any(cells) else None


def by_question(found):
    """Markdown: each question with the answer of each cache."""
    names = list(found)
    lines = ["# What caches answer", "", "`yes`: as the question says; `setup`: it could not be put; `depends`: an answer that it needs is missing.", "",
             f"| RFC, section | kind | question | {' | '.join(NAMES[name] for name in names)} |", f"|---|---|---|{'---|' * len(names)}"]
    places = [(rfc, section) for rfc, titles in TITLES.items() for section in titles]
    rows = {name: {row["id"]: row for row in rows} for name, rows in found.items()}
    for row in sorted(found[names[0]], key=lambda row: places.index((row["rfc"], row["section"]))):
        text = row["text"].replace("|", "\\|")
        answers = " | ".join(rows[name][row["id"]]["answer"] for name in names)
        lines.append(f"| {row['rfc']} {row['section']} | {row['kind']} | {text} | {answers} |")
    return "\n".join(lines) + "\n"
