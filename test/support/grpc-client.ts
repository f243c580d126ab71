// Clients of gRPC for tests: one by the C implementation of gRPC in Python, with messages by protoc; and the
// bytes of a request over HTTP/2, as a consumer of Dubbo sends them.

import { spawn } from 'node:child_process';
import { connect, type IncomingHttpHeaders } from 'node:http2';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { onTestFinished } from 'vitest';
import { runTool } from '../../scripts/services/server-process.ts';
import { runDirectory } from './services-setup.ts';

const protos = resolve(import.meta.dirname, '../../src/proto');
const files = ['dq/v1/queue', 'grpc/health/v1/health', 'io/mykit/delay/rpc/dubbo/mykit'];
const mykit = 'io.mykit.delay.rpc.dubbo.MykitDelayDubboInterface';

/** once for all tests of a file */
let described: Promise<string> | null = null;

/** What protoc makes of the .proto files. */
function describe(): Promise<string> {
  const path = join(runDirectory(), `grpc-descriptors-${process.pid}`);
  const inputs = files.map((file) => `${file}.proto`);
  described ??= runTool('protoc', [`--descriptor_set_out=${path}`, `-I${protos}`, ...inputs]).then(
    () => path,
  );
  return described;
}

export interface GrpcAnswer {
  readonly code: string;
  readonly details: string;
  readonly trailers: Readonly<Record<string, string>>;
  /** JSON of the message; null: a failure */
  // biome-ignore lint/suspicious/noExplicitAny: tests look into it
  readonly reply: any;
}

export interface GrpcCallOptions {
  readonly token?: string;
  readonly metadata?: Readonly<Record<string, string>>;
  /** seconds */
  readonly timeout?: number;
}

export interface GrpcClient {
  /** A call of dq.v1.Queue. `request`: JSON of the message. */
  queue(method: string, request: object, options?: GrpcCallOptions): Promise<GrpcAnswer>;
  mykit(method: string, request: object, options?: GrpcCallOptions): Promise<GrpcAnswer>;
  health(service: string): Promise<GrpcAnswer>;
  /** A call that the client can cancel. */
  begin(method: string, request: object): { readonly answer: Promise<GrpcAnswer>; cancel(): void };
}

/** `retries`: the client repeats calls that are answered UNAVAILABLE. */
export async function grpcClient(port: number, { retries = false } = {}): Promise<GrpcClient> {
  const script = join(import.meta.dirname, 'grpc-client.py');
  const args = [script, await describe(), `127.0.0.1:${port}`, retries ? 'retries' : ''];
  const child = spawn('/usr/bin/python3', args, { stdio: ['pipe', 'pipe', 'inherit'] });
  const waiting = new Map<number, (answer: GrpcAnswer) => void>();
  createInterface({ input: child.stdout }).on('line', (line) => {
    const { n, ...answer } = JSON.parse(line) as GrpcAnswer & { n: number };
    waiting.get(n)?.(answer);
    waiting.delete(n);
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  const write = (command: object) => child.stdin.write(`${JSON.stringify(command)}\n`);
  let n = 0;
  const call = (service: string, method: string, request: object, options: GrpcCallOptions = {}) => {
    n += 1;
    const own = n;
    const { token, timeout = 60 } = options;
    const metadata = Object.entries(options.metadata ?? {});
    if (token !== undefined) metadata.push(['authorization', `Bearer ${token}`]);
    const answer = new Promise<GrpcAnswer>((answered, fail) => {
      waiting.set(own, answered);
      child.once('exit', () => fail(new Error('the gRPC client has ended')));
    });
    write({ n: own, service, method, request, metadata, timeout });
    return { answer, cancel: () => void write({ cancel: own }) };
  };
  child.setMaxListeners(0);
  return {
    queue: (method, request, options) => call('dq.v1.Queue', method, request, options).answer,
    mykit: (method, request, options) => call(mykit, method, request, options).answer,
    health: (service) => call('grpc.health.v1.Health', 'Check', { service }).answer,
    begin: (method, request) => call('dq.v1.Queue', method, request),
  };
}

export interface RawGrpcReply {
  readonly headers: IncomingHttpHeaders;
  readonly trailers: IncomingHttpHeaders;
  readonly bytes: Buffer;
}

/** `bytes`: the body of the request, frames of gRPC included. */
export function rawGrpc(
  port: number,
  path: string,
  bytes: Buffer,
  headers: Readonly<Record<string, string>> = {},
): Promise<RawGrpcReply> {
  return new Promise((answered, fail) => {
    const session = connect(`http://127.0.0.1:${port}`);
    session.on('error', fail);
    const stream = session.request({
      ':method': 'POST',
      ':path': path,
      'content-type': 'application/grpc+proto',
      te: 'trailers',
      ...headers,
    });
    const reply: { -readonly [K in keyof RawGrpcReply]: RawGrpcReply[K] } = {
      ...{ headers: {}, trailers: {}, bytes: Buffer.alloc(0) },
    };
    stream.on('response', (received) => (reply.headers = received));
    stream.on('trailers', (received) => (reply.trailers = received));
    stream.on('data', (chunk: Buffer) => (reply.bytes = Buffer.concat([reply.bytes, chunk])));
    stream.on('error', fail);
    stream.on('close', () => {
      session.destroy();
      answered(reply);
    });
    stream.end(bytes);
  });
}

/** A message with the prefix of gRPC. */
export function framed(message: Buffer): Buffer {
  const prefix = Buffer.alloc(5);
  prefix.writeUInt32BE(message.length, 1);
  return Buffer.concat([prefix, message]);
}
