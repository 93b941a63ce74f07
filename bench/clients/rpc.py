"""gRPC through the front: grpcio as client and as server, all four kinds of calls, errors, deadlines, metadata."""

from concurrent import futures

import grpc

from harness import machine

from .checks import check


class Handler(grpc.GenericRpcHandler):
    """A service without a schema: messages are bytes."""

    def service(self, details):
        kinds = {
            "/garden/Unary": grpc.unary_unary_rpc_method_handler(unary),
            "/garden/Server": grpc.unary_stream_rpc_method_handler(lambda request, _: (request + b"%d" % n for n in range(int(request)))),
            "/garden/Client": grpc.stream_unary_rpc_method_handler(lambda requests, _: b"%d" % sum(len(one) for one in requests)),
            "/garden/Both": grpc.stream_stream_rpc_method_handler(lambda requests, _: (one[::-1] for one in requests)),
            "/garden/Fail": grpc.unary_unary_rpc_method_handler(fail),
        }
        return kinds.get(details.method)


def unary(request, context):
    metadata = dict(context.invocation_metadata())
    context.set_trailing_metadata((("x-seen", metadata.get("x-sent", "nothing")), ("x-bin", b"\0\xff")))
    return request


def fail(_request, context):
    context.abort(grpc.StatusCode.FAILED_PRECONDITION, "as requested")


def server():
    """A running server without TLS; its port."""
    port = machine.free_port()
    running = grpc.server(futures.ThreadPoolExecutor(8))
    running.add_generic_rpc_handlers((Handler(),))
    if not running.add_insecure_port(f"127.0.0.1:{port}"):
        raise machine.Failed(f"start the gRPC server: port {port} is in use")
    running.start()
    return running, port


def channel(place):
    credentials = grpc.ssl_channel_credentials(open(place.certificate, "rb").read())
    return grpc.secure_channel(f"localhost:{place.grpc}", credentials, options=(("grpc.enable_http_proxy", 0),
                                                                               ("grpc.max_receive_message_length", -1)))


@check("grpcio", "unary, metadata, 1 MB")
def calls(place):
    with channel(place) as open_channel:
        call = open_channel.unary_unary("/garden/Unary")
        for data in (b"", b"hello", b"x" * 1_000_000):
            answer, done = call.with_call(data, timeout=20, metadata=(("x-sent", "yes"),))
            assert answer == data
            assert dict(done.trailing_metadata())["x-seen"] == "yes", done.trailing_metadata()


@check("grpcio", "streams in each direction")
def streams(place):
    with channel(place) as open_channel:
        assert [*open_channel.unary_stream("/garden/Server")(b"300", timeout=20)] == [b"300%d" % n for n in range(300)]
        assert open_channel.stream_unary("/garden/Client")((b"x" * 100 for _ in range(1000)), timeout=20) == b"100000"
        answers = [*open_channel.stream_stream("/garden/Both")((b"ab%d" % n for n in range(100)), timeout=20)]
        assert answers == [(b"ab%d" % n)[::-1] for n in range(100)]


@check("grpcio", "errors, unknown methods, deadlines")
def errors(place):
    with channel(place) as open_channel:
        for method, expected in (("Fail", grpc.StatusCode.FAILED_PRECONDITION), ("Nothing", grpc.StatusCode.UNIMPLEMENTED)):
            try:
                open_channel.unary_unary(f"/garden/{method}")(b"x", timeout=20)
                raise AssertionError(f"{method} succeeded")
            except grpc.RpcError as error:
                assert error.code() == expected, f"{method}: {error.code()} {error.details()}"


@check("grpcio", "10,000 messages of 10 bytes")
def tiny(place):
    with channel(place) as open_channel:
        answers = open_channel.stream_stream("/garden/Both")((b"0123456789" for _ in range(10000)), timeout=60)
        assert sum(1 for _ in answers) == 10000
