# A gRPC client for tests by the C implementation of gRPC, not the one that dq uses.
# Reads a JSON command per line: {n, service, method, request, metadata, timeout}, or {cancel: n}. Writes a line per
# call: {n, code, details, trailers, reply}. Arguments: the descriptors that protoc wrote, an address, and
# `retries` where the client repeats UNAVAILABLE.
import json, sys, threading
import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

pool = descriptor_pool.DescriptorPool()
with open(sys.argv[1], 'rb') as file:
    for proto in descriptor_pb2.FileDescriptorSet.FromString(file.read()).file:
        pool.AddSerializedFile(proto.SerializeToString())
factory = message_factory.MessageFactory(pool)
# Without this the library repeats only calls that the server did not begin.
retries = {'methodConfig': [{'name': [{'service': 'dq.v1.Queue'}], 'retryPolicy': {
    'maxAttempts': 5, 'initialBackoff': '0.1s', 'maxBackoff': '1s', 'backoffMultiplier': 2,
    'retryableStatusCodes': ['UNAVAILABLE']}}]}
# Not grpc.min_reconnect_backoff_ms, which is the time that the server has to answer a connection.
options = [('grpc.service_config', json.dumps(retries if sys.argv[3] == 'retries' else {})),
           ('grpc.initial_reconnect_backoff_ms', 100), ('grpc.max_reconnect_backoff_ms', 500)]
channel = grpc.insecure_channel(sys.argv[2], options=options)
lock = threading.Lock()
calls = {}


def write(value):
    with lock:
        sys.stdout.write(json.dumps(value) + '\n')
        sys.stdout.flush()


def done(n, call):
    calls.pop(n, None)
    if call.cancelled():
        write({'n': n, 'code': 'CANCELLED', 'details': '', 'trailers': {}, 'reply': None})
        return
    code = call.code()
    trailers = {}
    for key, value in call.trailing_metadata() or ():
        trailers[key] = value if isinstance(value, str) else value.hex()
    reply = json_format.MessageToDict(call.result()) if code is grpc.StatusCode.OK else None
    write({'n': n, 'code': code.name, 'details': call.details(), 'trailers': trailers, 'reply': reply})


for line in sys.stdin:
    command = json.loads(line)
    if 'cancel' in command:
        call = calls.get(command['cancel'])
        if call is not None:
            call.cancel()
        continue
    method = pool.FindServiceByName(command['service']).FindMethodByName(command['method'])
    request = json_format.ParseDict(command['request'], factory.GetPrototype(method.input_type)())
    stub = channel.unary_unary('/%s/%s' % (command['service'], command['method']),
                               request_serializer=lambda message: message.SerializeToString(),
                               response_deserializer=factory.GetPrototype(method.output_type).FromString)
    call = stub.future(request, timeout=command['timeout'],
                       metadata=[tuple(pair) for pair in command['metadata']])
    calls[command['n']] = call
    call.add_done_callback(lambda call, n=command['n']: done(n, call))
