// Intake is the role that serves the HTTP API, and clients of other queues, on ports that the servers of this
// instance share. It starts and drains the servers; ApiServer owns requests, api.ts owns routes.

import { ApiServer } from '../api/api-server.ts';
import { Access } from '../api/http/access.ts';
import type { Admit, FrontTimes } from '../api/http/http-front.ts';
import type { CompatListeners, CompatOptions } from '../compat/compat-listeners.ts';
import type { CompatTimes } from '../compat/limits.ts';
import { compatPortsOf } from '../config/options.ts';
import { servesStrangers, servesThisMachine } from '../process/exposure.ts';
import type { Role, RoleContext } from '../process/role.ts';
import { TokenBook } from '../registry/token-book.ts';
import { listenAgain, urlOf, whyNotListening } from '../runtime/listen.ts';
import { pullRoutes } from './pull/pull-routes.ts';
import { PulledLeases } from './pull/pulled-leases.ts';
import { Puller } from './pull/puller.ts';

/** `times`: for tests, instead of the limits. */
export function createIntake(role: RoleContext, times?: FrontTimes, compatTimes?: CompatTimes): Role {
  return new Intake(role, times, compatTimes);
}

class Intake implements Role {
  readonly name = 'server';
  readonly #server: ApiServer;
  readonly #puller: Puller;
  readonly #compatOptions: CompatOptions;
  /** null: no port for clients of other queues is open */
  #compat: CompatListeners | null = null;
  #url: string | null = null;

  constructor(role: RoleContext, times?: FrontTimes, compatTimes?: CompatTimes) {
    const { adminToken, config } = role;
    const { 'server.host': host, 'server.port': port } = config;
    const tokens = new TokenBook(role.registry, role.log);
    const leases = new PulledLeases(role);
    this.#puller = new Puller(role, leases);
    const access = new Access({ adminToken, tokens, servesStrangers: servesStrangers(config) });
    const admit: Admit = (request) => access.admit(request);
    this.#server = new ApiServer({
      role,
      tokens,
      admit,
      listen: (server) =>
        listenAgain(server, host, port, role.port).catch((error: unknown) => {
          const flags = { hostFlag: '--host (server.host)', portFlag: '--port (server.port)' };
          throw whyNotListening(error, { host, port, ...flags });
        }),
      // A server that replaces a dead one. Not in a reload, which may discard its servers again.
      opensFirst: role.restarts > 0,
      addRoutes: (api, context) => pullRoutes(api, context, { puller: this.#puller, leases, admit }),
      services: [leases],
      times,
    });
    this.#compatOptions = {
      role,
      tokens,
      leases,
      puller: this.#puller,
      pushes: this.#server.pushes,
      times: compatTimes,
      frontTimes: times,
    };
  }

  get url(): string | null {
    return this.#url;
  }

  /** How to sign in to the console; null = no sign-in is needed. For the master, which knows no tokens. */
  get note(): string | null {
    const { role, tokens } = this.#compatOptions;
    return servesThisMachine(role.config) && tokens.count === 0 ? null : 'sign in: dq console';
  }

  inFlight(): number {
    return this.#server.inFlight() + (this.#compat?.inFlight() ?? 0);
  }

  async start(): Promise<void> {
    // First: the port of a protocol that was switched on may be taken, and then nothing was accepted.
    if (compatPortsOf(this.#compatOptions.role.config).length > 0) {
      const { CompatListeners } = await import('../compat/compat-listeners.ts');
      this.#compat = new CompatListeners(this.#compatOptions);
      await this.#compat.start();
    }
    this.#url = urlOf(await this.#server.start());
    this.#compat?.begin();
  }

  /** The puller answers the requests that wait for jobs: the servers wait for their ends. */
  async drain(deadlineMs: number): Promise<void> {
    await Promise.all([
      this.#puller.drain(deadlineMs),
      this.#server.drain(deadlineMs),
      this.#compat?.drain(deadlineMs),
    ]);
  }
}
