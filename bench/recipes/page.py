"""Blocks of the pages of the documentation, and the changes that make them work in a folder on loopback.

In: a page, a heading, a language. Out: the text of the block.
"""

import re
from pathlib import Path

from harness.machine import Failed

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"
# An address with a port, as configurations have it.
ADDRESS = re.compile(r"(?:\*|127\.0\.0\.1|localhost):\d+\b")


class Section:
    """What stands below one heading of a page."""

    def __init__(self, page, heading):
        self.name = f"docs/{page}, `{heading}`"
        parts = re.split(r"^#+ (.+)$", (DOCS / page).read_text(), flags=re.MULTILINE)
        texts = dict(zip(parts[1::2], parts[2::2]))
        if heading not in texts:
            raise Failed(f"read {self.name}: the page has no such heading")
        self.text = texts[heading]

    def block(self, language, number=0):
        """A block of this language; `number` counts from 0."""
        blocks = re.findall(rf"^```{language}\n(.*?)^```$", self.text, flags=re.MULTILINE | re.DOTALL)
        if number >= len(blocks):
            raise Failed(f"read {self.name}: block {number + 1} of {language} is not there")
        return blocks[number]


def changed(name, text, changes):
    """The text with these changes, each of which must find something. An address that is neither changed nor new is an error: nothing
    may listen outside of the trial."""
    for old in changes:
        if old not in text:
            raise Failed(f"change {name}: `{old}` is not there")
    # Longer ones first, all in one pass: what is new is not changed again.
    words = sorted(map(re.escape, changes), key=len, reverse=True)
    result = re.sub("|".join(words), lambda found: str(changes[found[0]]), text) if words else text
    new = " ".join(map(str, changes.values()))
    for address in ADDRESS.findall(result):
        if address not in new:
            raise Failed(f"change {name}: `{address}` is not changed")
    return result
