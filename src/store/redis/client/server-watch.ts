// Watches the clock and the memory of Redis servers. Redis decides what is due by its own clock, so a
// difference from this machine's delays no job; a large one means that one of the two clocks is wrong.
// Waiting jobs matter more than the history: while a server is nearly full, ended jobs leave no entry, and
// older entries may go early.

import { formatDuration } from '../../../core/duration.ts';
import { limits } from '../../../core/limits.ts';
import { monotonicNow, wallNow } from '../../../runtime/time.ts';
import { within } from '../../../runtime/timeout.ts';
import { redisLimits } from '../limits.ts';
import { type Client, isCluster } from './connection.ts';

interface ServerClock {
  /** host:port of a node of a Cluster; '' = the only server */
  readonly node: string;
  /** ahead of this machine by at least this much (ms), without the round trip; negative: behind */
  readonly aheadMs: number;
}

/** Of every master that answers within redisLimits.clockMs. Does not count as a call of the shard: a
 *  frozen server is missing here. */
export async function clocksOf(client: Client): Promise<readonly ServerClock[]> {
  const servers = isCluster(client) ? client.nodes('master') : [client];
  const clocks = await Promise.allSettled(
    servers.map(async (server) => {
      const [wallFrom, from] = [wallNow(), monotonicNow()];
      const [seconds, micros] = await within(redisLimits.clockMs, server.time(), noAnswer);
      const halfMs = (monotonicNow() - from) / 2;
      const aheadMs = Number(seconds) * 1_000 + Number(micros) / 1_000 - (wallFrom + halfMs);
      const { host, port } = server.options;
      return {
        node: isCluster(client) ? `${host}:${port}` : '',
        aheadMs: Math.sign(aheadMs) * Math.max(0, Math.abs(aheadMs) - halfMs),
      };
    }),
  );
  return clocks.flatMap((clock) => (clock.status === 'fulfilled' ? [clock.value] : []));
}

const noAnswer = () => new Error('no answer');

/** `server`: its address without secrets */
function clockSentence(server: string, aheadMs: number): string {
  const by = formatDuration(Math.max(1, Math.round(Math.abs(aheadMs) / 1_000)) * 1_000);
  const where = aheadMs > 0 ? 'ahead of' : 'behind';
  return `the clock of Redis at ${server} is ${by} ${where} the clock of this machine: synchronise both (chrony, systemd-timesyncd)`;
}

/** Decides which differences become a warning. Remembers the last one of each server, so that a difference
 *  near the limit, or one that changes by less than 1 s, stays one warning. */
export class ClockWarnings {
  readonly #warned = new Map<string, number>();

  of(name: string, clocks: readonly ServerClock[]): readonly string[] {
    return clocks.flatMap(({ node, aheadMs }) => {
      const server = node === '' ? name : node;
      const last = this.#warned.get(server);
      const max = last === undefined ? limits.clockAheadMs : limits.clockAheadMs / 2;
      if (Math.abs(aheadMs) <= max) {
        this.#warned.delete(server);
        return [];
      }
      const shown = last !== undefined && Math.abs(last - aheadMs) < 1_000 ? last : aheadMs;
      this.#warned.set(server, shown);
      return [clockSentence(server, shown)];
    });
  }
}

/** Whether a server, or one node of a Cluster, is nearly full. Reads INFO in the background and never delays
 *  a call. */
export class MemoryWatch {
  readonly #infos: () => Promise<readonly string[]>;
  #readAt = Number.NEGATIVE_INFINITY;
  #isNearlyFull = false;

  /** `infos`: the replies to INFO memory */
  constructor(infos: () => Promise<readonly string[]>) {
    this.#infos = infos;
  }

  /** As of the last reading, which may start another one. */
  get isNearlyFull(): boolean {
    const now = monotonicNow();
    if (now - this.#readAt >= redisLimits.memoryMs) {
      this.#readAt = now;
      void this.#read();
    }
    return this.#isNearlyFull;
  }

  async #read(): Promise<void> {
    const infos = await this.#infos();
    // Without an answer, or without the right to INFO, the last state stays.
    if (infos.length > 0) this.#isNearlyFull = infos.some(isNearlyFull);
  }
}

export function isNearlyFull(info: string): boolean {
  const value = (name: string) => Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(info)?.[1] ?? 0);
  const max = value('maxmemory');
  return max > 0 && value('used_memory') > max * redisLimits.nearlyFullShare;
}
