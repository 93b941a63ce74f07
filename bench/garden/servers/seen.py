"""What every Python backend does with a request: one JSON line in the file SEEN, and the same JSON as the response.

In: the request as the server parsed it. Out: the bytes of the response. `body` is None when the server gave up within the content.
"""

import json
import os
import threading

_lock, _counts = threading.Lock(), {}


def record(method, target, headers, body, connection):
    """Writes the line and returns it. `headers` are (name, value) pairs, `connection` any identifier of the connection."""
    with _lock:
        number = _counts[connection] = _counts.get(connection, 0) + 1
        line = json.dumps({
            "method": method, "target": target, "headers": headers, "length": None if body is None else len(body),
            "body": (body or b"")[:512].hex(), "connection": str(connection), "number": number,
        })
        with open(os.environ["SEEN"], "a", encoding="utf-8") as out:
            out.write(line + "\n")
    return line.encode()
