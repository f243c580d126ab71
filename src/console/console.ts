// Console is the role that serves the operators' page and, to sessions, the API's own routes, on a port of
// its own. The daemon works without it. It opens its port before it loads the API, as a restarted server.
// Where console.port is not set and taken, it takes a free one; it never asks the system for port 0 through
// the master, which would give it the socket of a server that did the same.

import { createHash } from 'node:crypto';
import { realpathSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import type { Api } from '../api/api-context.ts';
import { ApiServer } from '../api/api-server.ts';
import type { FrontTimes } from '../api/http/http-front.ts';
import { listen, urlOf, whyNotListening } from '../api/http/listen.ts';
import { isRead } from '../api/http/read-methods.ts';
import { type Config, consolePortOf } from '../config/options.ts';
import { parsePublicUrl } from '../core/url/server-url.ts';
import { servesThisMachine } from '../process/exposure.ts';
import type { Role, RoleContext } from '../process/role.ts';
import { SessionBook } from '../registry/session-book.ts';
import { TokenBook } from '../registry/token-book.ts';
import { StartImpossible } from '../runtime/start-errors.ts';
import { wallNow } from '../runtime/time.ts';
import { Assets } from './assets.ts';
import { doctorRoutes } from './doctor-routes.ts';
import { consoleLimits } from './limits.ts';
import { SessionAccess } from './session-access.ts';
import { sessionRoutes } from './session-routes.ts';
import { SignInFailures } from './sign-in-failures.ts';
import { Trial, trialRoutes } from './trial.ts';

/** For tests. */
export interface ConsoleOptions {
  /** instead of dist/console */
  readonly assets?: string;
  /** the wall clock of sessions */
  readonly now?: () => number;
  /** the monotonic clock of the count of failed sign-ins */
  readonly monotonic?: () => number;
  readonly times?: FrontTimes;
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

  constructor(role: RoleContext, options: ConsoleOptions) {
    const { assets: directory, now = wallNow, monotonic, times } = options;
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
    this.#server = new ApiServer({
      role,
      tokens,
      admit: (request) => access.admit(request),
      first: (request, response) => assets.answer(request, response),
      countsReplies: false,
      listen: (server) => this.#listen(server),
      // In a reload the older console still answers on this port.
      opensFirst: role.restarts > 0 || role.port === undefined,
      isReadOnly: config['console.readOnly'],
      services: [sessions, trial],
      addRoutes: (api, questions) => {
        answerUnchanged(api);
        sessionRoutes(api, { config, registry, tokens, sessions, access, failures, now });
        trialRoutes(api, trial);
        doctorRoutes(api, role, questions);
      },
      times,
    });
  }

  get url(): string | null {
    return this.#url;
  }

  /** How to sign in; null = no sign-in is needed. */
  get note(): string | null {
    return this.#access.needsNoSignIn === true ? null : 'sign in: dq console';
  }

  inFlight(): number {
    return this.#server.inFlight();
  }

  async start(): Promise<void> {
    this.#url = urlOf(await this.#server.start());
  }

  drain(deadlineMs: number): Promise<void> {
    return this.#server.drain(deadlineMs);
  }

  async #listen(server: Server): Promise<AddressInfo> {
    const { config, port } = this.#role;
    const endpoint = await openPort(server, config, port);
    this.#access.port = endpoint.port;
    return endpoint;
  }
}

/** `known`: the port of the previous console. Rejects with StartImpossible when the configured port cannot be
 *  opened. */
async function openPort(server: Server, config: Config, known: number | undefined): Promise<AddressInfo> {
  const host = config['console.host'];
  let port = known ?? consolePortOf(config);
  // console.port 0, or not set: any other port will do.
  const mayMove = config['console.port'] === null || config['console.port'] === 0;
  for (let tries = 1; ; tries += 1) {
    try {
      if (port === 0) port = await freePort(host);
      return await listen(server, host, port);
    } catch (error) {
      const isTaken = (error as NodeJS.ErrnoException).code === 'EADDRINUSE';
      if (!isTaken || !mayMove || tries > consoleLimits.freePortTries) {
        const flags = {
          hostFlag: '--console-host (console.host)',
          portFlag: '--console-port (console.port)',
        };
        const { message } = whyNotListening(error, { host, port, ...flags });
        throw new StartImpossible('configuration', `console: ${message}`, { cause: error });
      }
      port = 0;
    }
  }
}

/** A port that was free a moment ago. */
async function freePort(host: string): Promise<number> {
  const server = createServer();
  const { port } = await new Promise<AddressInfo>((resolve, reject) => {
    server.once('error', reject);
    server.listen({ host, port: 0, exclusive: true }, () => resolve(server.address() as AddressInfo));
  });
  await new Promise((resolve) => server.close(resolve));
  return port;
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
