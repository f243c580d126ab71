// HttpListener serves an HTTP protocol of another queue: admission, bodies, replies, draining. A dialect
// knows paths and formats.
// Invariant: these protocols change state by GET, so no web page may send such a request.

import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { isDirect, malformedHead } from '../../api/http/access.ts';
import { BodyBudget } from '../../api/http/body-budget.ts';
import { HttpFront } from '../../api/http/http-front.ts';
import { type BodyLimit, readBody } from '../../api/http/read-body.ts';
import { catalogue, DqError } from '../../core/errors.ts';
import { noRights, type Rights } from '../../core/token.ts';
import type { RoleContext } from '../../process/role.ts';
import { type CompatAccess, isThisMachine } from '../compat-access.ts';
import { CompatJobs, type Producer, topicOrMade } from '../compat-jobs.ts';
import type { CompatListener, CompatParts } from '../compat-listener.ts';
import { compatLimits } from '../limits.ts';
import { PoppedJobs, type PoppingCall } from './popped-jobs.ts';

export type HttpVerb = 'push' | 'pop' | 'get' | 'del' | 'finish' | 'restore' | 'clear' | 'other';

export interface HttpCall extends PoppingCall, Required<Producer> {
  readonly verb: HttpVerb;
  readonly method: string;
  /** without its query, as sent */
  readonly path: string;
  readonly query: URLSearchParams;
  readonly contentType: string | undefined;
  readonly body: Buffer;
}

export interface HttpReply {
  readonly isOk: boolean;
  readonly status: number;
  readonly json: string;
}

export interface HttpDialect {
  /** `other`: dq has no such path */
  verbOf(path: string): HttpVerb;
  /** Rejects with DqError or StoreError where it has no reply of its own. */
  execute(call: HttpCall): Promise<HttpReply>;
  /** In the format of the protocol; `status`: default: that of the protocol for this error. */
  failure(error: DqError, status?: number): HttpReply;
}

/** Errors that say neither that the request was executed nor that it was not. */
export const leavesOpen = ({ code }: DqError): boolean => code === 'unknown' || code === 'unavailable';

export class HttpListener implements CompatListener {
  readonly #role: RoleContext;
  readonly #access: CompatAccess;
  readonly #jobs: CompatJobs;
  readonly #dialect: HttpDialect;
  readonly #protocol: 'ouqiang' | 'sdmq';
  readonly #front: HttpFront;
  readonly #bodies = new BodyBudget(compatLimits.bodiesHeldBytesMax);
  readonly #bodyLimit: BodyLimit;

  constructor(
    parts: CompatParts,
    protocol: 'ouqiang' | 'sdmq',
    dialectOf: (jobs: CompatJobs, popped: PoppedJobs) => HttpDialect,
  ) {
    const { role, pushes, access, frontTimes } = parts;
    const findTopic = (name: string) => topicOrMade(role, name);
    this.#role = role;
    this.#access = access;
    this.#protocol = protocol;
    this.#jobs = new CompatJobs({ role, pushes, access, via: protocol, findTopic });
    this.#dialect = dialectOf(this.#jobs, new PoppedJobs(parts, this.#jobs));
    const { escapeBytes, pushBytesMore, bodiesHeldBytesMax } = compatLimits;
    const bytes = role.config['limits.bodyBytes'] * escapeBytes + pushBytesMore;
    this.#bodyLimit = { bytes: Math.min(bytes, bodiesHeldBytesMax), option: 'limits.bodyBytes' };
    // A rejection has the format of the dialect, so this file decides about admission.
    const observer = { onAnswer: () => {}, onRejected: () => {} };
    this.#front = new HttpFront({ admit: () => noRights, observer, times: frontTimes });
    this.#front.serverFor((request, response) => this.#onRequest(request, response));
    this.#front.begin();
  }

  get server(): Server {
    return this.#front.server;
  }

  inFlight(): number {
    return this.#front.inFlight();
  }

  drain(deadlineMs: number): Promise<void> {
    return this.#front.drain(deadlineMs);
  }

  #onRequest(request: IncomingMessage, response: ServerResponse): void {
    let rights: Rights;
    try {
      rights = this.#admit(request);
    } catch (thrown) {
      this.#reject(request, response, this.#jobs.errorOf(thrown));
      return;
    }
    readBody(request, request, this.#bodies, this.#bodyLimit, (error, body = Buffer.alloc(0)) => {
      if (error === null) void this.#answer(request, response, rights, body);
      else this.#reject(request, response, this.#jobs.errorOf(error));
    });
  }

  /** Throws DqError. */
  #admit(request: IncomingMessage): Rights {
    const malformed = malformedHead(request);
    if (malformed !== null) throw malformed;
    const { socket, headers } = request;
    const refusal = this.#access.refuses(socket);
    if (refusal !== null) throw new DqError('forbidden', refusal);
    const { host, authorization } = headers;
    // What no page can leave out. Browsers send Sec-Fetch-* only to this machine and over https, and no
    // Origin with a GET. Libraries send the other headers of this kind: fetch of Node sends Sec-Fetch-Mode.
    const isOfPage = ['origin', 'sec-fetch-site'].some((name) => headers[name] !== undefined);
    if (isOfPage || /^(mozilla|opera)\//i.test(headers['user-agent'] ?? ''))
      throw new DqError('forbidden', 'dq rejects requests of web pages here');
    if (host !== undefined && isThisMachine(socket) && !isDirect(host))
      throw new DqError('forbidden', 'host: must be an IP address or localhost');
    return this.#access.admit(authorization);
  }

  /** Closes the connection: the request was not read to its end. */
  #reject(request: IncomingMessage, response: ServerResponse, error: DqError): void {
    const { status, json } = this.#dialect.failure(error, catalogue[error.code].status);
    this.#count('other', false);
    const headers = { 'content-type': 'application/json' };
    this.#front.reject(request, response, { status, headers, bytes: Buffer.from(json) });
  }

  /** Never rejects. */
  async #answer(
    request: IncomingMessage,
    response: ServerResponse,
    rights: Rights,
    body: Buffer,
  ): Promise<void> {
    const [path = '', query = ''] = (request.url ?? '').split(/\?(.*)/s);
    const verb = this.#dialect.verbOf(path);
    const reply = await this.#dialect
      .execute({
        verb,
        path,
        rights,
        admit: () => this.#admit(request),
        body,
        method: request.method ?? '',
        response,
        socket: request.socket,
        query: new URLSearchParams(query),
        contentType: request.headers['content-type'],
      })
      .catch((thrown: unknown) => this.#dialect.failure(this.#jobs.errorOf(thrown)));
    this.#count(verb, reply.isOk);
    const bytes = Buffer.from(reply.json);
    const headers = { 'content-type': 'application/json', 'cache-control': 'no-store' };
    response.writeHead(reply.status, { ...headers, 'content-length': bytes.length });
    response.end(bytes);
  }

  #count(verb: HttpVerb, isOk: boolean): void {
    const outcome = isOk ? 'ok' : 'fail';
    this.#role.metrics.count('dq_compat_requests_total', 1, this.#protocol, verb, outcome);
  }
}
