// Holds the slots of all workers of one configuration and starts them in order. A reload makes a second
// generation beside the first; the fleet decides which one is in force and how the other one leaves.

import { type AddressInfo, createServer } from 'node:net';
import { type CompatProtocol, type Config, compatPortOptions, compatPortsOf } from '../../config/options.ts';
import type { RoleName } from '../../process/messages.ts';
import type { WorkerProcess } from './worker-process.ts';
import { type SlotHost, WorkerSlot } from './worker-slot.ts';

export class Generation {
  /** 1 for the start, one more for each reload */
  readonly number: number;
  readonly config: Config;
  readonly slots: readonly WorkerSlot[];
  /** The port that its servers ask for: servers that ask for the same port share one listening socket, also
   *  where that port is 0. */
  readonly askedPort: number;
  /** The port that they got; null before the first one listens. A server that asks for port 0 and gets
   *  another one, because all others have died, asks for this one. */
  boundPort: number | null;
  /** The ports for clients of other queues, known before a server listens: the master picks a free one for 0,
   *  and a reload keeps it. */
  readonly compatPorts: readonly { readonly protocol: CompatProtocol; readonly port: number }[];

  /** `before`: the generation in force; null at the start. */
  constructor(config: Config, host: SlotHost, drawIncarnation: () => number, before: Generation | null) {
    this.number = (before?.number ?? 0) + 1;
    this.config = config;
    const counts: readonly (readonly [RoleName, number])[] = [
      ['store', 1],
      ['upkeep', 1],
      ['timer', config['timer.workers']],
      ['notifier', config['notifier.workers']],
      ['server', config['server.workers']],
      ['console', config['console.enabled'] ? 1 : 0],
    ];
    this.slots = counts.flatMap(([role, count]) =>
      Array.from(
        { length: count },
        (_, index) => new WorkerSlot({ role, index, count }, host, drawIncarnation),
      ),
    );
    const port = config['server.port'];
    const sharesPort =
      before !== null &&
      before.host === this.host &&
      (port === before.config['server.port'] || port === before.boundPort);
    this.askedPort = sharesPort ? before.askedPort : port;
    this.boundPort = sharesPort ? before.boundPort : null;
    this.compatPorts = compatPortsOf(config).map(({ protocol, port }) => ({
      protocol,
      port: port || (before?.compatPort(protocol) ?? freePort()),
    }));
  }

  get host(): string {
    return this.config['server.host'];
  }

  /** undefined: the protocol is switched off */
  compatPort(wanted: CompatProtocol): number | undefined {
    return this.compatPorts.find(({ protocol }) => protocol === wanted)?.port;
  }

  /** The configuration of its workers: with the ports that the master chose. */
  get workerConfig(): Config {
    const ports = this.compatPorts.map(({ protocol, port }) => [compatPortOptions[protocol], port]);
    return { ...this.config, ...Object.fromEntries(ports) };
  }

  of(...wanted: readonly RoleName[]): WorkerSlot[] {
    return this.slots.filter((slot) => wanted.includes(slot.role));
  }

  workers(...wanted: readonly RoleName[]): WorkerProcess[] {
    const slots = wanted.length === 0 ? this.slots : this.of(...wanted);
    return slots.flatMap((slot) => slot.worker ?? []);
  }

  /** Whether all workers, or the first of each role, are ready: they work, or wait for `take_over`. Does not
   *  count the console, which starts when a page is opened. */
  isReady(which: 'all' | 'first' = 'all'): boolean {
    return this.slots.every(
      (slot) =>
        slot.worker?.state === 'ready' || (which === 'first' && slot.index > 0) || slot.role === 'console',
    );
  }

  /** Whether no worker waits for an older process any more. */
  isInPlace(): boolean {
    return this.workers().every((worker) => worker.isInPlace);
  }

  /** dq-store alone: the others need its socket. */
  startStore(): void {
    for (const slot of this.of('store')) slot.fill();
  }

  startOthers(): void {
    for (const slot of this.of('upkeep', 'timer', 'notifier', 'server')) slot.fill();
  }

  /** One of each role, beside an older generation. */
  startFirst(): void {
    for (const slot of this.slots) if (slot.index === 0 && slot.role !== 'console') slot.fill();
  }

  /** Starts its console, if it has one that does not run. */
  wantConsole(): void {
    for (const slot of this.of('console')) slot.want();
  }

  startRest(): void {
    for (const slot of this.slots) if (slot.index > 0) slot.fill();
  }

  /** Starts none of these workers again; without arguments, no worker at all. */
  release(...which: readonly RoleName[]): void {
    for (const slot of which.length === 0 ? this.slots : this.of(...which)) slot.release();
  }
}

/** A port that was free on every address a moment ago; 0 if the system has none. Not from node:cluster:
 *  servers that ask it for port 0 get the socket of the first one that asked, whatever its protocol. */
function freePort(): number {
  const server = createServer();
  server.on('error', () => {});
  server.listen(0);
  const address = server.address() as AddressInfo | null;
  server.close();
  return address?.port ?? 0;
}
