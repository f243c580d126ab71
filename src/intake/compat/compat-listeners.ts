// CompatListeners opens and drains the ports for clients of other queues. Each protocol has a listener of its
// own; its port is shared by the server processes of this instance.

import { listen, whyNotListening } from '../../api/http/listen.ts';
import { type CompatProtocol, compatPortOptions, compatPortsOf, options } from '../../config/options.ts';
import type { RoleContext } from '../../process/role.ts';
import type { TokenBook } from '../../registry/token-book.ts';
import type { Service } from '../../runtime/service.ts';
import { CompatAccess } from './compat-access.ts';
import type { CompatListener, CompatParts } from './compat-listener.ts';
import { HttpListener } from './http/http-listener.ts';
import { OuqiangDialect } from './ouqiang/ouqiang-dialect.ts';
import { PhpListener } from './php/php-listener.ts';
import { SdmqDialect } from './sdmq/sdmq-dialect.ts';

const listeners: Readonly<Record<CompatProtocol, (parts: CompatParts) => CompatListener>> = {
  php: (parts) => new PhpListener(parts),
  ouqiang: (parts) =>
    new HttpListener(parts, 'ouqiang', (jobs, popped) => new OuqiangDialect(parts, jobs, popped)),
  sdmq: (parts) => new HttpListener(parts, 'sdmq', (jobs, popped) => new SdmqDialect(parts, jobs, popped)),
};

export interface CompatOptions extends Omit<CompatParts, 'access'> {
  readonly tokens: Pick<TokenBook, 'count' | 'rightsOf'>;
}

export class CompatListeners implements Service {
  readonly #role: RoleContext;
  readonly #ports: readonly {
    readonly protocol: CompatProtocol;
    readonly port: number;
    readonly listener: CompatListener;
  }[];

  constructor({ tokens, ...parts }: CompatOptions) {
    const { role } = parts;
    const access = new CompatAccess(role.config, tokens);
    this.#role = role;
    this.#ports = compatPortsOf(role.config).map(({ protocol, port }) => ({
      protocol,
      port,
      listener: listeners[protocol]({ ...parts, access }),
    }));
  }

  inFlight(): number {
    return this.#ports.reduce((sum, { listener }) => sum + listener.inFlight(), 0);
  }

  async start(): Promise<void> {
    const host = this.#role.config['compat.host'];
    for (const { protocol, port, listener } of this.#ports) {
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

  async drain(deadlineMs: number): Promise<void> {
    await Promise.all(this.#ports.map(({ listener }) => listener.drain(deadlineMs)));
  }
}
