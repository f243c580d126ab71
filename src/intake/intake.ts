// Intake is the role that serves the HTTP API on one port, shared by the server processes of this instance.
// It starts and drains the server; ApiServer owns requests, api.ts owns routes.

import { ApiServer } from '../api/api-server.ts';
import { Access } from '../api/http/access.ts';
import type { FrontTimes } from '../api/http/http-front.ts';
import { listen, urlOf, whyNotListening } from '../api/http/listen.ts';
import { servesStrangers } from '../process/exposure.ts';
import type { Role, RoleContext } from '../process/role.ts';
import { TokenBook } from '../registry/token-book.ts';
import { pullRoutes } from './pull/pull-routes.ts';
import { PulledLeases } from './pull/pulled-leases.ts';
import { Puller } from './pull/puller.ts';

/** `times`: for tests, instead of the limits. */
export function createIntake(role: RoleContext, times?: FrontTimes): Role {
  return new Intake(role, times);
}

class Intake implements Role {
  readonly name = 'server';
  readonly #server: ApiServer;
  readonly #puller: Puller;
  #url: string | null = null;

  constructor(role: RoleContext, times?: FrontTimes) {
    const { adminToken, config } = role;
    const { 'server.host': host, 'server.port': port } = config;
    const tokens = new TokenBook(role.registry, role.log);
    this.#puller = new Puller(role);
    const leases = new PulledLeases(role);
    const access = new Access({ adminToken, tokens, servesStrangers: servesStrangers(config) });
    this.#server = new ApiServer({
      role,
      tokens,
      admit: (request) => access.admit(request),
      listen: (server) =>
        listen(server, host, port).catch((error: unknown) => {
          const flags = { hostFlag: '--host (server.host)', portFlag: '--port (server.port)' };
          throw whyNotListening(error, { host, port, ...flags });
        }),
      // A server that replaces a dead one. Not in a reload, which may discard its servers again.
      opensFirst: role.restarts > 0,
      addRoutes: (api, _questions, context) => pullRoutes(api, context, { puller: this.#puller, leases }),
      services: [leases],
      times,
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
  }

  /** Waiting pullers are answered first: the server waits for its requests. */
  async drain(deadlineMs: number): Promise<void> {
    await this.#puller.drain(deadlineMs);
    await this.#server.drain(deadlineMs);
  }
}
