// Shared parts of the tests of a daemon on a failing Redis: the codes of rejected pushes, the reported
// state, and the check that all is well afterwards.
import { expect } from 'vitest';
import type { RedisServer } from '../../scripts/services/redis.ts';
import type { Daemon } from './daemon.ts';
import type { LoadResult } from './load.ts';
import { jobsLeft } from './producing.ts';
import { until } from './until.ts';

/** Ids of rejected pushes, by error code. Fails for pushes that ended otherwise (a reset, another status). */
export function rejectedIds({ failures }: LoadResult): Record<'not_stored' | 'unknown', ReadonlySet<string>> {
  const ids = { not_stored: new Set<string>(), unknown: new Set<string>() };
  for (const { id, what } of failures) {
    const code = /^status 503 .*"code":"(not_stored|unknown)"/.exec(what)?.[1];
    if (code === undefined) expect.fail(`push ${id} ended with ${what}`);
    ids[code as 'not_stored' | 'unknown'].add(id);
  }
  return ids;
}

/** How often each command was called since the servers started, also inside scripts. */
export async function commandCalls(servers: readonly RedisServer[]): Promise<ReadonlyMap<string, number>> {
  const texts = await Promise.all(servers.map((server) => server.ask('INFO', 'commandstats')));
  const calls = new Map<string, number>();
  for (const [, name = '', n] of texts.join('\n').matchAll(/^cmdstat_([^:]+):calls=(\d+)/gm))
    calls.set(name, (calls.get(name) ?? 0) + Number(n));
  return calls;
}

/** Commands per second over `ms`, also those inside scripts. */
export async function commandRate(servers: readonly RedisServer[], ms: number): Promise<number> {
  const before = await commandCalls(servers);
  const from = performance.now();
  await until('some seconds have passed', () => performance.now() - from > ms, { everyMs: 100 });
  const after = await commandCalls(servers);
  const calls = [...after].map(([name, n]) => n - (before.get(name) ?? 0));
  return (1_000 * calls.reduce((sum, n) => sum + n, 0)) / (performance.now() - from);
}

export const untilReady = (daemon: Daemon): Promise<unknown> =>
  until('/readyz is 200', async () => (await daemon.api('GET', '/readyz')).status === 200, { everyMs: 50 });

/** Waits until no job is left, then checks the store's invariants. */
export async function untilEmptyAndWhole(daemon: Daemon): Promise<void> {
  await until('nothing is left', async () => (await jobsLeft(daemon)) === 0, { everyMs: 100 });
  await expectWhole(daemon);
}

/** fsck finds no problem. A push that a killed process did not answer may be in Redis and not in the journal
 *  (J1): nothing was promised. */
export async function expectWhole(daemon: Daemon): Promise<void> {
  expect((await daemon.api('POST', '/v1/fsck')).status).toBe(202);
  const { body } = await until('fsck has ended', async () => {
    const reply = await daemon.api('GET', '/v1/fsck');
    if (reply.body.state === 'running') return null;
    if (reply.body.state === 'done') return reply;
    // A server did not answer in time: the check begins again.
    await daemon.api('POST', '/v1/fsck');
    throw new Error(JSON.stringify(reply));
  });
  const problems = (body.problems as readonly { readonly invariant: string }[]).filter(
    ({ invariant }) => invariant !== 'J1',
  );
  expect([body.state, problems]).toEqual(['done', []]);
}
