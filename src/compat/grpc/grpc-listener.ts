// GrpcListener serves gRPC over cleartext HTTP/2: admission, memory of requests, number of connections,
// draining. The services know messages and methods.
// Invariant: a call that dq has begun is answered, also in a drain.
// No check against web pages: browsers speak HTTP/2 only over TLS.

import { constants, type ServerHttp2Stream } from 'node:http2';
import { createServer, type Server, type Socket } from 'node:net';
import {
  Server as GrpcServer,
  logVerbosity,
  type Metadata,
  ServerInterceptingCall,
  type ServerInterceptingCallInterface,
  type ServerUnaryCall,
  type ServerWritableStream,
  setLogVerbosity,
  status,
  type UntypedServiceImplementation,
} from '@grpc/grpc-js';
import { BodyBudget, finishBody, releaseBody, takeOverBody } from '../../api/http/body-budget.ts';
import type { FrontTimes } from '../../api/http/http-front.ts';
import { budgetUsedUp } from '../../api/http/read-body.ts';
import { apiLimits } from '../../api/limits.ts';
import { DqError, invalidField } from '../../core/errors.ts';
import { limits } from '../../core/limits.ts';
import { clientOf, noRights, type Rights } from '../../core/token.ts';
import type { RoleContext } from '../../process/role.ts';
import queueProto from '../../proto/dq/v1/queue.proto';
import healthProto from '../../proto/grpc/health/v1/health.proto';
import mykitProto from '../../proto/io/mykit/delay/rpc/dubbo/mykit.proto';
import { setImmediate, wallNow } from '../../runtime/time.ts';
import { afterRunning } from '../../runtime/timeout.ts';
import type { CompatAccess } from '../compat-access.ts';
import { CompatJobs } from '../compat-jobs.ts';
import type { CompatListener, CompatParts } from '../compat-listener.ts';
import { compatLimits, grpcLimits } from '../limits.ts';
import { GrpcConnections } from './grpc-connections.ts';
import {
  clipped,
  type GrpcCall,
  type GrpcMethod,
  type GrpcMethods,
  type GrpcVerb,
  type Message,
  type ReadMessage,
  serviceOf,
  statusOf,
} from './messages.ts';
import { MykitService } from './mykit-service.ts';
import { QueueService } from './queue-service.ts';

const queueName = 'dq.v1.Queue';
const mykitName = 'io.mykit.delay.rpc.dubbo.MykitDelayDubboInterface';
const healthName = 'grpc.health.v1.Health';

export class GrpcListener implements CompatListener {
  readonly server: Server;
  readonly #role: RoleContext;
  readonly #access: CompatAccess;
  readonly #jobs: CompatJobs;
  readonly #grpc: GrpcServer;
  readonly #connections: GrpcConnections;
  readonly #connectionsMax: number;
  readonly #silentMs: number;
  readonly #health = new HealthService([queueName, mykitName]);
  readonly #bodies: BodyBudget;
  readonly #times: Pick<FrontTimes, 'requestTimeoutMs' | 'connectionTimeoutMs' | 'lingerMs'>;
  /** the calls that were admitted */
  readonly #calls = new WeakMap<Metadata, AdmittedCall>();
  #hasBegun = false;
  #inFlight = 0;
  #drained: Promise<void> | null = null;

  constructor(parts: CompatParts) {
    const { role, pushes, access, times, frontTimes } = parts;
    this.#role = role;
    this.#access = access;
    this.#jobs = new CompatJobs({ role, pushes, access, via: 'grpc' });
    this.#times = frontTimes ?? { ...limits, ...apiLimits };
    const messageBytesMax = Math.max(
      role.config['limits.bodyBytes'] + compatLimits.pushBytesMore,
      role.config['limits.batchBytes'],
    );
    this.#bodies = new BodyBudget(Math.max(compatLimits.bodiesHeldBytesMax, messageBytesMax));
    // Its own lines go to stderr; each failure is also the status of a call.
    setLogVerbosity(logVerbosity.NONE);
    this.#grpc = new GrpcServer({
      'grpc.max_receive_message_length': messageBytesMax,
      'grpc.max_concurrent_streams': grpcLimits.streamsMax,
      'grpc.max_connection_idle_ms': compatLimits.idleMs,
      'grpc.keepalive_time_ms': grpcLimits.pingMs,
      'grpc.keepalive_timeout_ms': grpcLimits.pingTimeoutMs,
      'grpc.enable_channelz': 0,
      interceptors: [(method, call) => this.#onCall(method.path, method.responseStream, call)],
    });
    this.#add(queueProto, queueName, new QueueService(parts).methods);
    this.#add(mykitProto, mykitName, new MykitService(parts).methods);
    this.#grpc.addService(serviceOf(healthProto, healthName), this.#health.implementation);
    this.#connections = new GrpcConnections(this.#grpc, this.#times.lingerMs);
    this.#connectionsMax = times?.connectionsMax ?? compatLimits.connectionsMax;
    this.#silentMs = times?.silentMs ?? compatLimits.silentMs;
    // Not the library's own port: this one is opened as the other ports are, and counts its connections.
    this.server = createServer({ noDelay: true, pauseOnConnect: true }, (socket) =>
      this.#onConnection(socket),
    );
    this.server.maxConnections = this.#connectionsMax;
    this.server.on('drop', () => this.#connections.endSilent(this.#silentMs));
  }

  begin(): void {
    this.#hasBegun = true;
    this.#connections.serveAll();
  }

  #onConnection(socket: Socket): void {
    this.#connections.add(socket);
    if (this.#hasBegun) this.#connections.serve(socket);
    // Clients keep their connections: some that are silent must not hold every place.
    if (this.#connections.size > this.#connectionsMax * compatLimits.crowdedPart)
      this.#connections.endSilent(this.#silentMs);
  }

  inFlight(): number {
    return this.#inFlight;
  }

  drain(deadlineMs: number): Promise<void> {
    this.#drained ??= this.server.listening ? this.#end(deadlineMs) : Promise.resolve();
    return this.#drained;
  }

  async #end(deadlineMs: number): Promise<void> {
    const closed = new Promise<void>((resolve) => this.server.close(() => resolve()));
    this.#health.drain();
    this.#connections.end();
    const deadline = afterRunning(deadlineMs, () => this.#connections.destroy());
    await closed;
    deadline.clear();
    this.#grpc.forceShutdown();
  }

  #add(proto: string, name: string, methods: GrpcMethods): void {
    const answers = Object.entries(methods).map(
      ([method, definition]) =>
        [
          method,
          (call: ServerUnaryCall<ReadMessage, object>, answer: Answer) =>
            void this.#answer(definition, call, answer),
        ] as const,
    );
    this.#grpc.addService(serviceOf(proto, name), Object.fromEntries(answers));
  }

  /** Never rejects. */
  async #answer(
    { verb, execute, isOk = () => true }: GrpcMethod,
    call: ServerUnaryCall<ReadMessage, object>,
    answer: Answer,
  ): Promise<void> {
    const { request, metadata } = call;
    const { rights, admit, client, stream } = this.#calls.get(metadata) as AdmittedCall;
    // Until its end, also if the client leaves: a client that resets its calls would hold any number of them.
    const release = takeOverBody(stream);
    try {
      if (request instanceof DqError) throw request;
      const reply = await execute(request, {
        rights,
        admit,
        client,
        metadata,
        leftMs: Number(call.getDeadline()) - wallNow(),
        onCancelled: (listener) => {
          if (call.cancelled) listener();
          else call.once('cancelled', listener);
        },
        onUnsent: (listener) =>
          stream.once('close', () => stream.rstCode !== constants.NGHTTP2_NO_ERROR && listener()),
      });
      this.#count(verb, isOk(reply));
      answer(null, reply);
    } catch (thrown) {
      this.#count(verb, false);
      const isRepeatable = verb !== 'push' || (!(request instanceof DqError) && request['id'] !== undefined);
      answer(statusOf(this.#jobs.errorOf(thrown), isRepeatable));
    } finally {
      release();
      // The reply waits for a client that does not read.
      stream.setTimeout(this.#times.connectionTimeoutMs, () => stream.close(constants.NGHTTP2_CANCEL));
    }
  }

  /** Before dq reads the message. */
  #onCall(path: string, isStream: boolean, call: ServerInterceptingCallInterface): ServerInterceptingCall {
    const { stream, incomingEncoding } = call as unknown as InnerCall;
    const reject = (error: DqError) => {
      call.sendStatus(statusOf(error));
      timer.clear();
      // Without it, a request without an end would be in flight for ever.
      timer = afterRunning(this.#times.lingerMs, () => stream.close());
    };
    let isComplete = false;
    const slow = new DqError('unavailable', 'the request arrived too slowly; send it again');
    // Arrived bytes are read first.
    const isSlow = () => setImmediate(() => !isComplete && timer === reading && reject(slow));
    const reading = afterRunning(this.#times.requestTimeoutMs, isSlow);
    let timer = reading;
    // A health check that waits has its answer.
    const weight = isStream ? 0 : 1;
    this.#inFlight += weight;
    stream.once('close', () => {
      timer.clear();
      releaseBody(stream);
      this.#inFlight -= weight;
    });
    const owner = {
      client: clientOf(noRights, call.getConnectionInfo().remoteAddress),
      giveWay: () => {
        reject(budgetUsedUp());
        // Without lingering: until then the library keeps what has arrived.
        stream.close();
      },
    };
    stream.on('data', ({ length }: Buffer) => {
      // What arrives after the status is discarded.
      if (stream.closed || stream.headersSent) releaseBody(stream);
      else if (!this.#bodies.take(stream, length, owner)) reject(budgetUsedUp());
    });
    return new ServerInterceptingCall(call, {
      start: (next) =>
        next({
          onReceiveMetadata: (metadata, accept) => {
            try {
              const admit = this.#admission(path, metadata, call);
              const rights = admit();
              const client = clientOf(rights, call.getConnectionInfo().remoteAddress);
              owner.client = client;
              this.#calls.set(metadata, { rights, admit, client, stream });
              if (incomingEncoding !== 'identity')
                throw invalidField('grpc-encoding', 'not supported; send the messages uncompressed');
              accept(metadata);
            } catch (thrown) {
              this.#count('other', false);
              reject(this.#jobs.errorOf(thrown));
            }
          },
          onReceiveHalfClose: (accept) => {
            isComplete = true;
            finishBody(stream);
            timer.clear();
            accept();
          },
        }),
    });
  }

  /** Returns the admission of a call, which throws DqError; throws DqError. */
  #admission(path: string, metadata: Metadata, call: ServerInterceptingCallInterface): () => Rights {
    const { remoteAddress = '', localAddress = '' } = call.getConnectionInfo();
    const refusal = this.#access.refuses({ remoteAddress, localAddress });
    if (refusal !== null) throw new DqError('forbidden', refusal);
    if (path.startsWith(`/${healthName}/`)) return () => noRights;
    const [authorization, ...more] = metadata.get('authorization').map(String);
    if (more.length > 0) throw invalidField('authorization', 'given twice; give it once');
    return () => this.#access.admit(authorization, path.startsWith(`/${queueName}/`));
  }

  #count(verb: GrpcVerb | 'other', isOk: boolean): void {
    this.#role.metrics.count('dq_compat_requests_total', 1, 'grpc', verb, isOk ? 'ok' : 'fail');
  }
}

type Answer = (error: object | null, reply?: object) => void;

interface AdmittedCall extends Pick<GrpcCall, 'rights' | 'admit' | 'client'> {
  readonly stream: ServerHttp2Stream;
}

/** Private members of the library's call: the bytes of a request that is not complete are known to its stream
 *  alone, and the header grpc-encoding to no interceptor. */
interface InnerCall {
  readonly stream: ServerHttp2Stream;
  readonly incomingEncoding: string;
}

type Watcher = ServerWritableStream<ReadMessage, object>;

/** grpc.health.v1: a server serves from its start to its drain. Load balancers call it without a token. */
class HealthService {
  readonly #services: ReadonlySet<string>;
  readonly #watchers = new Set<Watcher>();
  #isDraining = false;

  /** `services`: their names, with package */
  constructor(services: readonly string[]) {
    this.#services = new Set(['', ...services]);
  }

  readonly implementation: UntypedServiceImplementation = {
    Check: (
      { request }: ServerUnaryCall<ReadMessage, object>,
      answer: (error: object | null, reply?: object) => void,
    ) => {
      const name = nameOf(request);
      if (request instanceof DqError) answer(statusOf(request));
      else if (this.#services.has(name)) answer(null, this.#reply());
      else answer({ code: status.NOT_FOUND, details: clipped(`service: dq has no ${JSON.stringify(name)}`) });
    },
    Watch: (call: Watcher) => {
      if (call.request instanceof DqError) {
        call.emit('error', statusOf(call.request));
        return;
      }
      if (this.#watchers.size >= grpcLimits.watchersMax) {
        const details = `${grpcLimits.watchersMax} health checks wait already; use Check`;
        call.emit('error', { code: status.RESOURCE_EXHAUSTED, details });
        return;
      }
      if (!this.#services.has(nameOf(call.request))) {
        call.write({ status: 'SERVICE_UNKNOWN' });
      } else call.write(this.#reply());
      if (this.#isDraining) {
        call.end();
        return;
      }
      this.#watchers.add(call);
      call.on('cancelled', () => this.#watchers.delete(call));
    },
  };

  drain(): void {
    this.#isDraining = true;
    for (const call of this.#watchers) {
      if (this.#services.has(nameOf(call.request))) call.write(this.#reply());
      call.end();
    }
    this.#watchers.clear();
  }

  #reply(): object {
    return { status: this.#isDraining ? 'NOT_SERVING' : 'SERVING' };
  }
}

function nameOf(request: ReadMessage): string {
  return String((request as Message)['service'] ?? '');
}
