"""The metrics of a running Handfast.

In: its admin port. Out: samples, and sums of them.
"""

import urllib.request


def read(port):
    """[(name with labels, value)]."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    samples = [line.rsplit(" ", 1) for line in lines if line and not line.startswith("#")]
    return [(name, float(value)) for name, value in samples]


def total(samples, name, label=""):
    """The sum of a metric over its labels, or over those that have this text."""
    return sum(value for full, value in samples if full.partition("{")[0] == name and label in full)
