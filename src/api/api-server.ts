// ApiServer serves the HTTP API on one port for a role: it opens the port, holds requests until the API is
// loaded, and drains. The role says who is admitted.

import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { hookNamesOf } from '../core/alert-receiver.ts';
import { brokersOf } from '../core/broker.ts';
import { limits } from '../core/limits.ts';
import { egressPolicyOf } from '../process/egress.ts';
import { MasterQuestions } from '../process/master-questions.ts';
import type { RoleContext } from '../process/role.ts';
import type { TokenBook } from '../registry/token-book.ts';
import type { Service } from '../runtime/service.ts';
import { PushQueue } from '../use-cases/push-queue.ts';
import type { Api, ApiContext } from './api-context.ts';
import { AuditTrail } from './audit-trail.ts';
import { type Admit, type FrontTimes, HttpFront } from './http/http-front.ts';
import { observerOf } from './http/rejections.ts';
import { RejectionLines } from './http/request-log.ts';
import { TopicSuggestion } from './routes/topics/topic-suggestion.ts';

export interface ApiServerOptions {
  readonly role: RoleContext;
  readonly tokens: TokenBook;
  readonly admit: Admit;
  /** Opens the port. */
  readonly listen: (server: Server) => Promise<AddressInfo>;
  /** Opens the port before the API is loaded: until then the kernel refuses connections. Requests wait for
   *  the API, which needs two thirds of the start. */
  readonly opensFirst: boolean;
  /** Called before `admit`: may set headers of the answer; true = it has answered. */
  readonly first?: (request: IncomingMessage, response: ServerResponse) => boolean;
  /** false: its replies are those of a page, whose polls would hide the rates of producers */
  readonly countsReplies?: boolean;
  readonly isReadOnly?: boolean;
  /** adds the routes of this port */
  readonly addRoutes?: (api: Api, context: ApiContext) => void;
  /** started before the first answer, and drained after the last one */
  readonly services?: readonly Service[];
  /** for tests, instead of the limits */
  readonly times?: FrontTimes | undefined;
}

export class ApiServer {
  readonly #options: ApiServerOptions;
  readonly #front: HttpFront;
  readonly #rejections: RejectionLines;
  readonly #audit: AuditTrail;
  /** shared with other listeners of the role: their pushes go in the same store calls */
  readonly pushes: PushQueue;
  #api: Api | null = null;
  #drained: Promise<void> | null = null;

  constructor(options: ApiServerOptions) {
    const { role, admit, first, countsReplies = true, times } = options;
    this.#options = options;
    this.pushes = new PushQueue(role.store.jobs, (error) =>
      role.log.error('api: the store broke off a call; its pushes are answered as unknown', error),
    );
    this.#audit = new AuditTrail(role.registry, role.log);
    this.#rejections = new RejectionLines(role.log);
    this.#front = new HttpFront({
      admit,
      observer: observerOf(role, this.#rejections, countsReplies),
      ...(first === undefined ? {} : { first }),
      times,
    });
  }

  inFlight(): number {
    return this.#front.inFlight();
  }

  /** Resolves when requests are answered. */
  async start(): Promise<AddressInfo> {
    const { role, tokens, opensFirst, isReadOnly = false, addRoutes, listen } = this.#options;
    const { config, shards, topics, link } = role;
    // With port 0 the own endpoint is known only after listen().
    let egress = egressPolicyOf(config, { shards });
    const early = opensFirst ? await listen(this.#front.server) : null;
    const { createApi } = await import('./api.ts');
    const api = await createApi(
      {
        role,
        questions: new MasterQuestions(link),
        tokens,
        pushes: this.pushes,
        audit: this.#audit,
        suggestion: new TopicSuggestion(topics),
        egress: {
          refuses: (address, port) => egress.refuses(address, port),
          refusesUrl: (url) => egress.refusesUrl(url),
          brokers: brokersOf(config.brokers),
          hooks: hookNamesOf(config['alerts.hooks']),
          historyMs: config['history.retention'],
        },
        isReadOnly,
      },
      this.#front,
      addRoutes,
    );
    // Before the first answer: a server without the tokens has to reject every request.
    for (const service of this.#services()) await service.start();
    let endpoint: AddressInfo;
    try {
      await api.ready();
      endpoint = early ?? (await listen(this.#front.server));
    } catch (error) {
      await api.close();
      await this.#drainServices();
      throw error;
    }
    egress = egressPolicyOf(config, { link, listening: endpoint, shards });
    this.#api = api;
    this.#front.begin();
    return endpoint;
  }

  drain(deadlineMs: number): Promise<void> {
    this.#drained ??= this.#end(deadlineMs);
    return this.#drained;
  }

  async #end(deadlineMs: number): Promise<void> {
    await this.#front.drain(deadlineMs);
    this.#rejections.close();
    await this.#api?.close();
    await this.#drainServices();
  }

  #services(): readonly Service[] {
    return [this.#options.tokens, this.#audit, ...(this.#options.services ?? [])];
  }

  async #drainServices(): Promise<void> {
    for (const service of this.#services()) await service.drain(limits.loopSleepMsMax);
  }
}
