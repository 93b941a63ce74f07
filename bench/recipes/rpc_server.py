"""The server of the gRPC recipe. In: a port, a name. Methods of /demo.Echo: Say, Count (a stream), Chat (streams in both directions)."""

import sys
from concurrent import futures

import grpc

PORT, NAME = sys.argv[1:]


class Echo(grpc.GenericRpcHandler):
    def service(self, call):
        return {
            "/demo.Echo/Say": grpc.unary_unary_rpc_method_handler(lambda request, _: request + b" from " + NAME.encode()),
            "/demo.Echo/Count": grpc.unary_stream_rpc_method_handler(lambda _, __: (str(number).encode() for number in range(5))),
            "/demo.Echo/Chat": grpc.stream_stream_rpc_method_handler(lambda requests, _: requests),
        }.get(call.method)


server = grpc.server(futures.ThreadPoolExecutor(8))
server.add_generic_rpc_handlers((Echo(),))
server.add_insecure_port(f"127.0.0.1:{PORT}")
server.start()
server.wait_for_termination()
