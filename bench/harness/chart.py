"""The table of 2005 beside the same three designs today, as one SVG.

In: transactions a second on one core. Out: SVG text that needs nothing else.
"""

from html import escape

from .pairs import figure

THEN = [("SSLProxy.java", 7), ("stunnel", 110), ("async_ssl_proxy", 240)]
DESIGNS = ["two threads a session", "a process or thread a connection", "one event loop"]
COLOURS = ["#b8c4d0", "#7c93a8", "#1f5f8b"]


def today(result):
    """The three of today, or None when one is missing."""
    peers = result["peers"] if result else {}
    if not {"SSLProxy.java", "stunnel"} <= set(peers):
        return None
    rate = lambda rows: 1e9 / figure(rows)[0]
    return [("SSLProxy.java", rate(peers["SSLProxy.java"]["rows"])), ("stunnel", rate(peers["stunnel"]["rows"])),
            ("handfast", rate(result["ours"]))]


def panel(left, title, rows):
    most, parts = max(value for _, value in rows), []
    parts.append(f'<text x="{left}" y="58" class="title">{escape(title)}</text>')
    for number, (name, value) in enumerate(rows):
        top, width = 78 + number * 62, max(2, 300 * value / most)
        parts.append(f'<text x="{left}" y="{top + 10}">{escape(name)}: {DESIGNS[number]}</text>')
        parts.append(f'<rect x="{left}" y="{top + 16}" width="{width:.1f}" height="24" fill="{COLOURS[number]}"/>')
        parts.append(f'<text x="{left + width + 6:.1f}" y="{top + 33}" class="value">{value:,.0f}/s</text>')
    return "".join(parts)


def svg(now):
    """Each panel has its own scale: the machines are twenty years apart, the proportions are what compares."""
    style = ("text{font:13px sans-serif;fill:#222}.head{font-size:16px;font-weight:bold}.title{font-size:14px;font-weight:bold}"
             ".value{font-weight:bold}.small{font-size:11px;fill:#555}")
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 820 300" role="img"><style>{style}</style>'
            '<rect width="820" height="300" fill="#fff"/><text x="20" y="28" class="head">Standard transactions a second: three designs of '
            f'a TLS proxy</text>{panel(20, "2005, a machine of then", THEN)}{panel(430, "today, one core", now)}'
            '<text x="20" y="288" class="small">Connect, handshake, 4 KiB there, 4 KiB back, close. Each side has its own scale. Today: '
            'what the CPU time of a transaction allows on one core.</text></svg>\n')
