"""Answers that are a backend's own: it refuses what the table accepts and what the front forwarded, so only its status differs.

Each row is (backend, case, status, reason). The other rules hold for these cases too: what the backend saw is what the log has.
"""

NO_LENGTH = "lighttpd wants a length for each POST (RFC 9110 §15.5.12), and this one has none, which means no content"
CONTROL = "lighttpd decodes the path and refuses control characters in it (url-ctrls-reject)"
DESYNC = "desync-guardian: "

ROWS = [
    ("lighttpd", DESYNC + "ambiguous: Transfer_Encoding with underscore.", "411", NO_LENGTH),
    ("lighttpd", DESYNC + "ambiguous: Content_Length with underscore.", "411", NO_LENGTH),
    ("lighttpd", DESYNC + "ambiguous: Transfer-Encoding with multiple hyphens", "411", NO_LENGTH),
    ("lighttpd", DESYNC + "ambiguous: Transfer-Encoding with multiple delimiters", "411", NO_LENGTH),
    ("lighttpd", DESYNC + "rfc-compliant: Valid custom header with tchar in name and obs-text", "411", NO_LENGTH),
    ("lighttpd", DESYNC + "rfc-compliant: Valid custom header with underscore in name", "411", NO_LENGTH),
    ("lighttpd", DESYNC + "rfc-compliant: Valid custom header with dot in name", "411", NO_LENGTH),
    ("lighttpd", DESYNC + "rfc-compliant: Valid custom header with digits in name", "411", NO_LENGTH),
    ("lighttpd", DESYNC + "uri-specific-test-cases: %09 in URI is OK", "400", CONTROL),
    ("lighttpd", DESYNC + "uri-specific-test-cases: %0A in URI is OK", "400", CONTROL),
    ("lighttpd", DESYNC + "uri-specific-test-cases: %0D in URI is OK", "400", CONTROL),
    ("jetty", "heads: line: two slashes", "400", "Jetty refuses an empty path segment as ambiguous (UriCompliance)"),
    ("tornado", "chunks: trailer", "400", "Tornado refuses every trailer field"),
]


def apply(cases):
    """Puts the rows into their cases."""
    named = {case.label: case for case in cases}
    for backend, label, status, reason in ROWS:
        case = named[label]
        case.own[backend] = status
        case.notes.append(f"{backend} answers {status}: {reason}")
