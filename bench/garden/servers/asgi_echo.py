"""The echo for ASGI servers (uvicorn, hypercorn): `asgi_echo:app`."""

from seen import record


async def content(receive):
    """The whole content; None when the client went away within it."""
    body = b""
    while True:
        event = await receive()
        if event["type"] != "http.request":
            return None
        body += event.get("body", b"")
        if not event.get("more_body"):
            return body


async def app(scope, receive, send):
    """One request; WebSocket and lifespan events are not for us."""
    if scope["type"] != "http":
        return
    body = await content(receive)
    target = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
    if scope.get("query_string"):
        target += "?" + scope["query_string"].decode("latin-1")
    headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
    answer = record(scope["method"], target, headers, body, (scope.get("client") or (0, 0))[1])
    fields = [(b"content-type", b"application/json"), (b"content-length", str(len(answer)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": fields})
    await send({"type": "http.response.body", "body": answer})
