// Console is the role that serves the operators' page and, to sessions, the API's own routes. The daemon
// works without it. The master holds its port, starts this process when a page is opened, and passes it each
// connection unread. While no page uses it, it says so once a second, and the master ends it.

import { createHash } from 'node:crypto';
import { realpathSync } from 'node:fs';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import type { Api } from '../api/api-context.ts';
import { ApiServer } from '../api/api-server.ts';
import { isRead } from '../api/http/request-head.ts';
import { consolePortOf } from '../config/options.ts';
import { parsePublicUrl } from '../core/url/server-url.ts';
import { servesThisMachine } from '../process/exposure.ts';
import type { Role, RoleContext } from '../process/role.ts';
import { SessionBook } from '../registry/session-book.ts';
import { TokenBook } from '../registry/token-book.ts';
import { listen, urlOf } from '../runtime/listen.ts';
import { ticker } from '../runtime/second-ticker.ts';
import { monotonicNow, wallNow } from '../runtime/time.ts';
import { Assets } from './assets.ts';
import { doctorRoutes } from './doctor-routes.ts';
import { consoleLimits } from './limits.ts';
import { SessionAccess } from './session-access.ts';
import { SignInFailures, sessionRoutes } from './session-routes.ts';
import { Trial, trialRoutes } from './trial.ts';

/** For tests. */
export interface ConsoleOptions {
  /** instead of dist/console */
  readonly assets?: string;
  /** the wall clock of sessions */
  readonly now?: () => number;
  /** the monotonic clock of the count of failed sign-ins, and of the last use */
  readonly monotonic?: () => number;
}

export function createConsole(role: RoleContext, options: ConsoleOptions = {}): Role {
  return new Console(role, options);
}

class Console implements Role {
  readonly name = 'console';
  readonly #role: RoleContext;
  readonly #access: SessionAccess;
  readonly #server: ApiServer;
  #url: string | null = null;
  readonly #monotonic: () => number;
  /** last request, on the monotonic clock */
  #usedAt: number;
  #stopTelling = (): void => {};

  constructor(role: RoleContext, options: ConsoleOptions) {
    const { assets: directory, now = wallNow, monotonic = monotonicNow } = options;
    const { config, registry, log } = role;
    const publicUrl = parsePublicUrl(config['console.publicUrl']);
    const assets = new Assets(
      directory ?? join(dirname(realpathSync(process.argv[1] ?? '')), 'console'),
      role.version,
      publicUrl.ok ? publicUrl.value.basePath : '',
    );
    const tokens = new TokenBook(registry, log, now);
    const sessions = new SessionBook({
      registry,
      log,
      tokens,
      idleMs: config['console.sessionIdle'],
      servesThisMachine: servesThisMachine(config),
      now,
    });
    const access = new SessionAccess({ config, tokens, sessions });
    const trial = new Trial(role);
    const failures = new SignInFailures(monotonic);
    this.#role = role;
    this.#access = access;
    this.#monotonic = monotonic;
    this.#usedAt = monotonic();
    this.#server = new ApiServer({
      role,
      tokens,
      admit: (request) => access.admit(request),
      first: (request, response) => {
        this.#usedAt = monotonic();
        return assets.answer(request, response);
      },
      countsReplies: false,
      listen: (server) => this.#open(server),
      opensFirst: false,
      isReadOnly: config['console.readOnly'],
      services: [sessions, trial],
      addRoutes: (api, { questions }) => {
        answerUnchanged(api);
        sessionRoutes(api, { config, registry, tokens, sessions, access, failures, now });
        trialRoutes(api, trial);
        doctorRoutes(api, role, questions);
      },
    });
  }

  get url(): string | null {
    return this.#url;
  }

  inFlight(): number {
    return this.#server.inFlight();
  }

  async start(): Promise<void> {
    this.#url = urlOf(await this.#server.start());
    this.#stopTelling = ticker().each(() => this.#tellUnused());
  }

  drain(deadlineMs: number): Promise<void> {
    this.#stopTelling();
    return this.#server.drain(deadlineMs);
  }

  async #open(server: Server): Promise<AddressInfo> {
    const { config, door, port, link } = this.#role;
    // The master of an older build holds no port.
    const endpoint = door ?? (await listen(server, config['console.host'], port ?? consolePortOf(config)));
    this.#access.port = endpoint.port;
    if (door === undefined) return endpoint;
    link.onMessage((message, connection) => {
      if (message.kind !== 'connection') return;
      link.send({ kind: 'taken' });
      if (connection === undefined) return;
      // As those that a server of node:http accepts.
      connection.allowHalfOpen = true;
      connection.setNoDelay(true);
      server.emit('connection', connection);
    });
    // Begins its checks for slow requests.
    server.emit('listening');
    return endpoint;
  }

  /** Repeated, because the master does not end a console before it has passed its connections. */
  #tellUnused(): void {
    const isUnused = this.inFlight() === 0 && this.#monotonic() - this.#usedAt > consoleLimits.unusedMs;
    if (isUnused) this.#role.link.send({ kind: 'unused' });
  }
}

/** Answers 304 to a poll whose reply is the same as the last one: the browser does not parse it again. The
 *  digest of the reply decides, so a change of data or rights is always seen. Routes with an ETag of their
 *  own, such as a topic's, keep it. */
function answerUnchanged(api: Api): void {
  api.addHook('onSend', (request, answer, payload, done) => {
    const isOwn = answer.hasHeader('etag');
    if (!isRead(request.method) || answer.statusCode !== 200 || typeof payload !== 'string' || isOwn)
      return done(null, payload);
    const etag = `"${createHash('sha256').update(payload).digest('base64url').slice(0, 22)}"`;
    answer.header('etag', etag);
    if (request.headers['if-none-match'] !== etag) return done(null, payload);
    answer.code(304).removeHeader('content-type');
    done(null, null);
  });
}
