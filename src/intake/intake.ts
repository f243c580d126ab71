// Intake is the role that serves the HTTP API on one port, shared by the server processes of this instance.
// It starts and drains the server; HttpFront owns connections, api.ts owns routes.

import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Api } from '../api/api-context.ts';
import { Access } from '../api/http/access.ts';
import { type FrontObserver, type FrontTimes, HttpFront } from '../api/http/http-front.ts';
import { RejectionLines } from '../api/http/rejection-lines.ts';
import { recordUnrouted } from '../api/http/unrouted.ts';
import { TopicSuggestion } from '../api/routes/topics/topic-suggestion.ts';
import { limits } from '../core/limits.ts';
import { egressPolicyOf } from '../process/egress.ts';
import { servesStrangers } from '../process/exposure.ts';
import type { Role, RoleContext } from '../process/role.ts';
import { TokenBook } from '../registry/token-book.ts';
import { PushQueue } from '../use-cases/push-queue.ts';

/** `times`: for tests, instead of the limits. */
export function createIntake(role: RoleContext, times?: FrontTimes): Role {
  return new Intake(role, times);
}

class Intake implements Role {
  readonly name = 'server';
  readonly #role: RoleContext;
  readonly #tokens: TokenBook;
  readonly #front: HttpFront;
  readonly #rejections: RejectionLines;
  #api: Api | null = null;
  #url: string | null = null;
  #drained: Promise<void> | null = null;

  constructor(role: RoleContext, times?: FrontTimes) {
    this.#role = role;
    const { adminToken, config } = role;
    this.#rejections = new RejectionLines(role.log);
    this.#tokens = new TokenBook(role.registry, role.log);
    const access = new Access({
      adminToken,
      tokens: this.#tokens,
      servesStrangers: servesStrangers(config),
    });
    const observer: FrontObserver = {
      onAnswer: (status) => role.metrics.count('dq_http_requests_total', 1, classOf(status)),
      onRejected: (request, error) => recordUnrouted(role.metrics, this.#rejections, request, error),
    };
    this.#front = new HttpFront(access, observer, times);
  }

  get url(): string | null {
    return this.#url;
  }

  inFlight(): number {
    return this.#front.inFlight();
  }

  async start(): Promise<void> {
    const { config, log, shards, store, topics } = this.#role;
    const pushes = new PushQueue(store.jobs, (error) =>
      log.error('intake: the store broke off a call; its pushes are answered as unknown', error),
    );
    // With port 0 the own endpoint is known only after listen().
    let egress = egressPolicyOf(config, { shards });
    // A server that replaces a dead one opens the port first: until then the kernel refuses connections.
    // Requests wait for the API, which needs two thirds of the start. Not in a reload, which may discard its
    // servers again.
    const early = this.#role.restarts > 0 ? await this.#listen() : null;
    const { createApi } = await import('../api/api.ts');
    const api = await createApi(
      {
        role: this.#role,
        pushes,
        suggestion: new TopicSuggestion(topics),
        egress: { refusesUrl: (url) => egress.refusesUrl(url) },
      },
      this.#front,
      this.#tokens,
    );
    // Before the first answer: a server without the tokens has to reject every request.
    await this.#tokens.start();
    let endpoint: AddressInfo;
    try {
      await api.ready();
      endpoint = early ?? (await this.#listen());
    } catch (error) {
      await api.close();
      await this.#tokens.drain(limits.loopSleepMsMax);
      throw error;
    }
    const { port, address, family } = endpoint;
    egress = egressPolicyOf({ ...config, 'server.port': port }, { shards });
    this.#api = api;
    this.#url = `http://${reachable(address, family)}:${port}`;
    this.#front.begin();
  }

  #listen(): Promise<AddressInfo> {
    const { config } = this.#role;
    return listen(this.#front.server, config['server.host'], config['server.port']);
  }

  drain(deadlineMs: number): Promise<void> {
    this.#drained ??= this.#end(deadlineMs);
    return this.#drained;
  }

  async #end(deadlineMs: number): Promise<void> {
    await this.#front.drain(deadlineMs);
    this.#rejections.close();
    await this.#api?.close();
    await this.#tokens.drain(limits.loopSleepMsMax);
  }
}

/** Not through Fastify, which opens a second server for `localhost`. In a worker the handle comes from the
 *  master and is shared with the other servers. */
function listen(server: Server, host: string, port: number): Promise<AddressInfo> {
  return new Promise((resolve, reject) => {
    const fail = (error: NodeJS.ErrnoException) => reject(explain(error, host, port));
    server.once('error', fail);
    server.listen({ host, port }, () => {
      server.off('error', fail);
      resolve(server.address() as AddressInfo);
    });
  });
}

function explain(error: NodeJS.ErrnoException, host: string, port: number): Error {
  switch (error.code) {
    case 'EADDRINUSE':
      return new Error(
        `port ${port} is taken; choose another one with --port (server.port), 0 picks a free one`,
        { cause: error },
      );
    case 'EACCES':
      return new Error(`this user may not open port ${port}; choose one above 1023`, { cause: error });
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
      return new Error(`${host} is not an address of this machine; set --host (server.host)`, {
        cause: error,
      });
    default:
      return new Error(`cannot listen on ${host}:${port}`, { cause: error });
  }
}

function classOf(status: number): '2xx' | '3xx' | '4xx' | '5xx' {
  if (status >= 500) return '5xx';
  if (status >= 400) return '4xx';
  return status >= 300 ? '3xx' : '2xx';
}

/** An address that programs of this machine can call, also for a wildcard. */
function reachable(address: string, family: string): string {
  if (address === '0.0.0.0') return '127.0.0.1';
  if (address === '::') return '[::1]';
  return family === 'IPv6' ? `[${address}]` : address;
}
