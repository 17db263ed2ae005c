"""gRPC's interop test service on gRPC C-core. Prints its port; serves until it is killed.

Arguments: a file with the serialized FileDescriptorSet of the service.
"""

import sys
import time
from concurrent import futures

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

SERVICE = "grpc.testing.TestService"
ECHO_INITIAL = "x-grpc-test-echo-initial"
ECHO_TRAILING = "x-grpc-test-echo-trailing-bin"

pool = descriptor_pool.DescriptorPool()
with open(sys.argv[1], "rb") as file:
    for proto in descriptor_pb2.FileDescriptorSet.FromString(file.read()).file:
        pool.Add(proto)


def message(name):
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("grpc.testing." + name))


Empty = message("Empty")
SimpleResponse = message("SimpleResponse")
InputResponse = message("StreamingInputCallResponse")
OutputResponse = message("StreamingOutputCallResponse")


def echo_metadata(context):
    asked = dict(context.invocation_metadata())
    if ECHO_INITIAL in asked:
        context.send_initial_metadata([(ECHO_INITIAL, asked[ECHO_INITIAL])])
    if ECHO_TRAILING in asked:
        context.set_trailing_metadata([(ECHO_TRAILING, asked[ECHO_TRAILING])])


def echo_status(request, context):
    if not request.HasField("response_status"):
        return False
    code = request.response_status.code
    context.set_code(next(known for known in grpc.StatusCode if known.value[0] == code))
    context.set_details(request.response_status.message)
    return True


def empty_call(request, context):
    return Empty()


def unary_call(request, context):
    if request.HasField("response_compressed"):
        context.set_compression(grpc.Compression.Gzip)
        if not request.response_compressed.value:
            context.disable_next_message_compression()
    echo_metadata(context)
    echo_status(request, context)
    response = SimpleResponse()
    response.payload.body = bytes(request.response_size)
    return response


def outputs(request, context):
    for wanted in request.response_parameters:
        time.sleep(wanted.interval_us / 1e6)
        if wanted.HasField("compressed") and not wanted.compressed.value:
            context.disable_next_message_compression()
        response = OutputResponse()
        response.payload.body = bytes(wanted.size)
        yield response


def streaming_output_call(request, context):
    if any(wanted.HasField("compressed") for wanted in request.response_parameters):
        context.set_compression(grpc.Compression.Gzip)
    yield from outputs(request, context)


def streaming_input_call(requests, context):
    total = sum(len(request.payload.body) for request in requests)
    return InputResponse(aggregated_payload_size=total)


def full_duplex_call(requests, context):
    echo_metadata(context)
    for request in requests:
        if echo_status(request, context):
            return
        yield from outputs(request, context)


def handler(kind, function, request):
    return kind(
        function,
        request_deserializer=message(request).FromString,
        response_serializer=lambda response: response.SerializeToString(),
    )


unary = grpc.unary_unary_rpc_method_handler
handlers = {
    "EmptyCall": handler(unary, empty_call, "Empty"),
    "UnaryCall": handler(unary, unary_call, "SimpleRequest"),
    "StreamingOutputCall": handler(
        grpc.unary_stream_rpc_method_handler, streaming_output_call, "StreamingOutputCallRequest"
    ),
    "StreamingInputCall": handler(
        grpc.stream_unary_rpc_method_handler, streaming_input_call, "StreamingInputCallRequest"
    ),
    "FullDuplexCall": handler(
        grpc.stream_stream_rpc_method_handler, full_duplex_call, "StreamingOutputCallRequest"
    ),
}

server = grpc.server(futures.ThreadPoolExecutor(max_workers=16))
server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, handlers)])
port = server.add_insecure_port("127.0.0.1:0")
server.start()
print(port, flush=True)
server.wait_for_termination()
