"""The echo for WSGI servers (gunicorn, waitress): `wsgi_echo:app`."""

from seen import record


def app(environ, start_response):
    """CGI names: `_` and `-` in field names are the same here, which is one of the differences that the garden looks for."""
    try:
        body = environ["wsgi.input"].read()
    except Exception:  # whatever the server raises when the content is cut off
        body = None
    target = environ.get("RAW_URI") or environ.get("REQUEST_URI") or environ["PATH_INFO"]
    headers = [(key[5:].replace("_", "-").lower(), value) for key, value in environ.items() if key.startswith("HTTP_")]
    headers += [(key.replace("_", "-").lower(), environ[key]) for key in ("CONTENT_TYPE", "CONTENT_LENGTH") if environ.get(key)]
    answer = record(environ["REQUEST_METHOD"], target, headers, body, environ.get("REMOTE_PORT"))
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(answer)))])
    return [answer]
