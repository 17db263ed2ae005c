// gRPC's interop test service on grpc-js. Prints its port; serves until it is killed.
//
// Arguments: a file with the serialized FileDescriptorSet of the service.
'use strict';

const fs = require('fs');
const grpc = require('@grpc/grpc-js');
const loader = require('@grpc/proto-loader');

const ECHO_INITIAL = 'x-grpc-test-echo-initial';
const ECHO_TRAILING = 'x-grpc-test-echo-trailing-bin';

const definitions = loader.loadFileDescriptorSetFromBuffer(fs.readFileSync(process.argv[2]), {
  keepCase: true,
});
const service = grpc.loadPackageDefinition(definitions).grpc.testing.TestService.service;

function payload(size) {
  return { payload: { body: Buffer.alloc(size) } };
}

function echoMetadata(call) {
  const initial = call.metadata.get(ECHO_INITIAL);
  if (initial.length > 0) {
    const metadata = new grpc.Metadata();
    metadata.set(ECHO_INITIAL, initial[0]);
    call.sendMetadata(metadata);
  }
  const trailers = new grpc.Metadata();
  const trailing = call.metadata.get(ECHO_TRAILING);
  if (trailing.length > 0) {
    trailers.set(ECHO_TRAILING, trailing[0]);
  }
  return trailers;
}

function status(request) {
  const { code, message } = request.response_status;
  return { code, details: message };
}

async function write(call, request) {
  for (const wanted of request.response_parameters ?? []) {
    if (wanted.interval_us > 0) {
      await new Promise((wake) => setTimeout(wake, wanted.interval_us / 1000));
    }
    call.write(payload(wanted.size));
  }
}

const implementation = {
  EmptyCall(call, callback) {
    callback(null, {});
  },

  UnaryCall(call, callback) {
    const trailers = echoMetadata(call);
    if (call.request.response_status) {
      callback(status(call.request));
    } else {
      callback(null, payload(call.request.response_size ?? 0), trailers);
    }
  },

  async StreamingOutputCall(call) {
    await write(call, call.request);
    call.end();
  },

  StreamingInputCall(call, callback) {
    let total = 0;
    call.on('data', (request) => {
      total += request.payload.body.length;
    });
    call.on('end', () => callback(null, { aggregated_payload_size: total }));
  },

  FullDuplexCall(call) {
    const trailers = echoMetadata(call);
    let written = Promise.resolve();
    call.on('data', (request) => {
      if (request.response_status) {
        call.emit('error', status(request));
      } else {
        written = written.then(() => write(call, request));
      }
    });
    call.on('end', () => written.then(() => call.end(trailers)));
  },
};
delete service.UnimplementedCall;

const server = new grpc.Server();
server.addService(service, implementation);
server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error, port) => {
  if (error) {
    throw error;
  }
  console.log(port);
});
