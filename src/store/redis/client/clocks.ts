// How far the clocks of Redis servers are from the clock of this machine. Redis decides what is due by its own clock, so a difference
// delays no job; a large one means that one of the two clocks is wrong.

import { formatDuration } from '../../../core/duration.ts';
import { limits } from '../../../core/limits.ts';
import { redisLimits } from '../limits.ts';
import { type Client, isCluster } from './connection.ts';

export interface ServerClock {
  /** host:port of a node of a Cluster; '' = the only server */
  readonly node: string;
  /** ahead of this machine by at least this much (ms), the time of the question left out; negative: behind */
  readonly aheadMs: number;
}

/** Of every server that takes writes and answers within redisLimits.redisClockMs. Not counted as a call of the shard: of a server that
 *  stands still this says nothing. */
export async function clocksOf(client: Client): Promise<readonly ServerClock[]> {
  const servers = isCluster(client) ? client.nodes('master') : [client];
  const clocks = await Promise.allSettled(
    servers.map(async (server) => {
      const [wallFrom, from] = [Date.now(), performance.now()];
      const [seconds, micros] = await inTime(server.time());
      const halfMs = (performance.now() - from) / 2;
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

async function inTime<T>(answer: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error('no answer')), redisLimits.redisClockMs);
  });
  try {
    return await Promise.race([answer, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** `server`: as an operator knows it */
export function clockSentence(server: string, aheadMs: number): string {
  const by = formatDuration(Math.max(1, Math.round(Math.abs(aheadMs) / 1_000)) * 1_000);
  const where = aheadMs > 0 ? 'ahead of' : 'behind';
  return `the clock of Redis at ${server} is ${by} ${where} the clock of this machine: synchronise both (chrony, systemd-timesyncd)`;
}

/** Which differences are worth a warning. Remembers the last one of each server, so that a difference near a limit, or one that
 *  changes by less than a second, is one warning. */
export class ClockWarnings {
  readonly #said = new Map<string, number>();

  of(name: string, clocks: readonly ServerClock[]): readonly string[] {
    return clocks.flatMap(({ node, aheadMs }) => {
      const server = node === '' ? name : node;
      const said = this.#said.get(server);
      const most = said === undefined ? limits.clockAheadMs : limits.clockAheadMs / 2;
      if (Math.abs(aheadMs) <= most) {
        this.#said.delete(server);
        return [];
      }
      const shown = said !== undefined && Math.abs(said - aheadMs) < 1_000 ? said : aheadMs;
      this.#said.set(server, shown);
      return [clockSentence(server, shown)];
    });
  }
}
