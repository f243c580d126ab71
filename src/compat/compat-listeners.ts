// CompatListeners opens and drains the ports for gRPC and for clients of other queues. Each protocol has a
// listener of its own; its port is shared by the server processes of this instance.

import { type CompatProtocol, compatPortOptions, compatPortsOf, options } from '../config/options.ts';
import type { TokenBook } from '../registry/token-book.ts';
import { listen, whyNotListening } from '../runtime/listen.ts';
import type { Service } from '../runtime/service.ts';
import { CompatAccess } from './compat-access.ts';
import type { CompatListener, CompatParts } from './compat-listener.ts';
import { HttpListener } from './http/http-listener.ts';
import { OuqiangDialect } from './ouqiang/ouqiang-dialect.ts';
import { PhpListener } from './php/php-listener.ts';
import { SdmqDialect } from './sdmq/sdmq-dialect.ts';

type Maker = (parts: CompatParts) => CompatListener | Promise<CompatListener>;
const listeners: Readonly<Record<CompatProtocol, Maker>> = {
  php: (parts) => new PhpListener(parts),
  ouqiang: (parts) =>
    new HttpListener(parts, 'ouqiang', (jobs, popped) => new OuqiangDialect(parts, jobs, popped)),
  sdmq: (parts) => new HttpListener(parts, 'sdmq', (jobs, popped) => new SdmqDialect(parts, jobs, popped)),
  // Its libraries are loaded only where the port is open.
  grpc: async (parts) => new (await import('./grpc/grpc-listener.ts')).GrpcListener(parts),
};

export interface CompatOptions extends Omit<CompatParts, 'access'> {
  readonly tokens: Pick<TokenBook, 'count' | 'rightsOf'>;
}

export class CompatListeners implements Service {
  readonly #parts: CompatParts;
  readonly #listeners: CompatListener[] = [];

  constructor({ tokens, ...parts }: CompatOptions) {
    this.#parts = { ...parts, access: new CompatAccess(parts.role.config, tokens) };
  }

  inFlight(): number {
    return this.#listeners.reduce((sum, listener) => sum + listener.inFlight(), 0);
  }

  async start(): Promise<void> {
    const { config } = this.#parts.role;
    const host = config['compat.host'];
    for (const { protocol, port } of compatPortsOf(config)) {
      const listener = await listeners[protocol](this.#parts);
      this.#listeners.push(listener);
      const name = compatPortOptions[protocol];
      await listen(listener.server, host, port).catch((error: unknown) => {
        const flags = {
          hostFlag: '--compat-host (compat.host)',
          portFlag: `${options[name].flag} (${name})`,
        };
        throw whyNotListening(error, { host, port, ...flags });
      });
    }
  }

  /** The API serves requests. */
  begin(): void {
    for (const listener of this.#listeners) listener.begin?.();
  }

  async drain(deadlineMs: number): Promise<void> {
    await Promise.all(this.#listeners.map((listener) => listener.drain(deadlineMs)));
  }
}
