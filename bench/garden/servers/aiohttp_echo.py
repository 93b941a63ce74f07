"""The echo on aiohttp: `aiohttp_echo.py PORT`."""

import sys

from aiohttp import web
from seen import record


async def echo(request):
    """Any method and path."""
    try:
        body = await request.read()
    except Exception:  # the content was cut off or malformed
        body = None
    headers = [(name.decode("latin-1"), value.decode("latin-1", "replace")) for name, value in request.raw_headers]
    peer = request.transport.get_extra_info("peername") if request.transport else None
    answer = record(request.method, request.raw_path, headers, body, (peer or (0, 0))[1])
    return web.Response(body=answer, content_type="application/json")


app = web.Application(client_max_size=1 << 30)
app.router.add_route("*", "/{path:(?s:.*)}", echo)
web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), print=None, access_log=None)
