"""The program of scripts/cache-rules: caches, the questions, tables, the exit code."""

import argparse
import json
import re
import shutil
import subprocess
from pathlib import Path

from harness import peers, rows
from web import tools

from . import rules
from .expected import CORRECTED, KNOWN, UNTIL_SET
from .fronts import PROGRAMS, VERSIONS

PAGE = tools.ROOT / "docs/http/cache-rules.md"
# Where caches differ and none of them is wrong, the page has the sum alone; a kept run has all.
PAGE_KINDS = ("required", "optimal")
MARKS = ("<!-- answers -->", "<!-- end of answers -->")

# Fields of a response that are different where it is compressed; the suite compares them with what its server sent.
COMPRESSION = re.compile(r'header (ETag is "W/|Vary is ".*Accept-Encoding"|Content-Length is "null")')


def main():
    parser = argparse.ArgumentParser(prog="scripts/cache-rules", description="Asks caches what RFC 9111, 5861, 9213 and 9211 say.")
    parser.add_argument("--out", type=Path, help="folder for the tables; none by default")
    parser.add_argument("--suite", type=Path, help="a clone of the suite's repository, after `npm install` in it: newer than what npm has")
    parser.add_argument("--page", action="store_true", help="write the tables into docs/http/cache-rules.md too")
    parser.add_argument("names", nargs="*", metavar="CACHE", help=f"one of {', '.join(rules.ASKED)}; all that are installed by default")
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in rules.ASKED]:
        parser.error(f"unknown cache {', '.join(unknown)}: expected one of {', '.join(rules.ASKED)}")
    return rows.main("cache-rules", lambda found, folder: ask_all(found, folder, options), ("openssl", "node"))


def ask_all(table, folder, options):
    if not options.suite:
        rules.install()
    suite = options.suite.resolve() if options.suite else rules.SUITE
    certificate, origin = peers.make_certificates(folder)["ecdsa"], rules.start_origin(folder, suite)
    found = {}
    for name in options.names or rules.ASKED:
        if absent := rows.missing(PROGRAMS[name.partition("-")[0]]):
            table.row("skipped", name, f"not installed: {', '.join(absent)}")
            continue
        found[name] = rules.ask(name, folder, certificate, origin, suite)
        judge(table, name, found[name], {} if options.suite else CORRECTED)
    if options.out:
        keep(options.out, found, "the repository of the suite" if options.suite else f"npm {rules.programs.PROGRAMS[rules.PACKAGE].package}")
    if options.page:
        write_page(found)


def judge(table, name, found, older):
    """`older`: what is excepted with an older suite alone. A row for each kind of each RFC: for Handfast those that are not as the page says are named, for others it is a note."""
    for rfc in rules.TITLES:
        here = [row for row in found if row["rfc"] == rfc]
        counts = ", ".join(f"{kind} {rules.count(here, kind)}" for kind in rules.KINDS if rules.count(here, kind))
        wrong = [row for row in here if row["answer"] in ("no", "setup") and row["kind"] != "check"]
        print(f"seen     {name}, RFC {rfc}: {counts}", flush=True)
        if name.startswith("handfast"):
            known = {**KNOWN, **({} if name == "handfast-permissive" else UNTIL_SET), **older}
            by_compression = name == "handfast-compressed"
            unknown = [f"{row['id']} ({row['seen']})" for row in wrong
                       if row["id"] not in known and not (by_compression and COMPRESSION.search(row["seen"]))]
            table.check(f"{name}, RFC {rfc}: as docs/http/cache-rules.md says", "; ".join(unknown))
            held = [row["id"] for row in here if row["id"] in known and row["answer"] == "yes"]
            table.check(f"{name}, RFC {rfc}: what that page excepts is still so", ", ".join(held))


def keep(out, found, suite):
    out.mkdir(parents=True, exist_ok=True)
    versions = {"handfast": [tools.handfast(), "--version"], **VERSIONS}
    kinds = dict.fromkeys(name.partition("-")[0] for name in found)
    texts = [f"- {kind}: {version(versions[kind])}" for kind in kinds]
    (out / "versions.md").write_text("\n".join(["# Versions", "", *texts, f"- questions: {suite}, and bench/cache/questions.mjs", ""]))
    (out / "sections.md").write_text(rules.by_section(found))
    (out / "questions.md").write_text(rules.by_question(found))
    with open(out / "answers.jsonl", "w", encoding="utf-8") as file:
        for name, answers in found.items():
            for row in answers:
                file.write(json.dumps({"cache": name, **row}, ensure_ascii=False) + "\n")


def write_page(found):
    """Puts the tables between the two marks of the page."""
    text = PAGE.read_text()
    before, rest = text.split(MARKS[0])
    PAGE.write_text(f"{before}{MARKS[0]}\n\n{rules.by_section(found, PAGE_KINDS)}\n{MARKS[1]}{rest.split(MARKS[1])[1]}")


def version(words):
    done = subprocess.run([shutil.which(words[0]) or tools.find(words[0]), *words[1:]], capture_output=True, text=True, timeout=30, check=False)
    return (done.stdout + done.stderr).splitlines()[0]
