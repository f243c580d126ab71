// Makes one attempt on each of many endpoints, all at once in one notifier, and describes each result in a
// word or two. At once: an endpoint that hangs or floods must not change the results of the others.
import { expect } from 'vitest';
import { createNotifier } from '../../src/notifier/notifier.ts';
import type { PoolSeams } from '../../src/notifier/pools.ts';
import type { TopicDraft } from '../../src/ports/registry.ts';
import { until } from '../support/until.ts';
import type { Endpoint } from './receivers.ts';
import { type Line, type Rig, startRig } from './rig.ts';

export type Rows = readonly (readonly [
  name: string,
  expected: string,
  endpoint: Endpoint | (() => Promise<Endpoint>),
  topic?: Partial<TopicDraft>,
  /** of the pushed job */
  body?: Buffer,
])[];

export const at = (url: string): Endpoint => ({ url });

const waitMs = 60_000;
/** for a call with a reply, also on a busy machine */
const enoughMs = 30_000;

/** Compares every row with its expected result; a difference names the row. `retry: timeout` · `ack: 200` ·
 *  `bury gone: status 410` · `retry after 5000: status 429`. Rows that are expected to time out have a short
 *  timeout. Also reports several requests, and a connection that stays open after a failure. `onLook`: before
 *  each look for further results */
export async function check(
  rows: Rows,
  seams: PoolSeams = {},
  onLook: (ended: number) => Promise<void> = async () => {},
): Promise<Rig> {
  const rig = await startRig();
  const endpoints: Endpoint[] = [];
  for (const [n, [, expected, endpoint, topic]] of rows.entries()) {
    const there = typeof endpoint === 'function' ? await endpoint() : endpoint;
    endpoints.push(there);
    await rig.topic(`t${n}`, there.url, {
      timeoutMs: expected.includes('timeout') ? 800 : enoughMs,
      backoff: { type: 'ladder', stepsMs: [waitMs] },
      emptyReply: 'retry',
      ...topic,
    });
  }
  const role = await rig.run(createNotifier(rig.context(), seams));
  await Promise.all(
    rows.map(([, , , , body], n) => rig.push(`t${n}`, 'a', body === undefined ? {} : { body })),
  );
  const lines = new Map<string, Line>();
  await until('every attempt has ended', async () => {
    await onLook(lines.size);
    for (const line of rig.notified()) lines.set(String(line['topic']), line);
    return lines.size === rows.length;
  }).catch((error: unknown) => {
    const hanging = rows.filter((_, n) => !lines.has(`t${n}`)).map(([name]) => name);
    throw new Error(`no end of: ${hanging.join(', ')}`, { cause: error });
  });
  await until('no slot is held', () => role.inFlight() === 0);
  expect(rig.notified()).toHaveLength(rows.length);
  const seen: Record<string, string> = {};
  for (const [n, [name]] of rows.entries()) {
    const line = lines.get(`t${n}`) as Line;
    seen[name] = outcomeOf(line) + (await leftoversOf(endpoints[n] as Endpoint, line));
  }
  expect(seen).toEqual(Object.fromEntries(rows.map(([name, expected]) => [name, expected])));
  return rig;
}

function outcomeOf(line: Line): string {
  const verdict = line['verdict'] === 'bury' ? `bury ${line['deadReason']}` : line['verdict'];
  const { delayMs = waitMs, reason, status } = line as { delayMs?: number; reason?: string; status?: number };
  const wait = delayMs === waitMs ? '' : ` after ${delayMs}`;
  return `${verdict}${wait}: ${[reason, status].filter((part) => part !== null).join(' ')}`;
}

async function leftoversOf({ server }: Endpoint, line: Line): Promise<string> {
  if (server === undefined) return '';
  const requests = server.received.filter((data) => /^(POST|PUT|GET) /.test(data)).length;
  const noReply = line['status'] === null;
  const open = () => noReply && server.open.size > 0;
  // A close takes a moment in the kernel.
  await until('the failed connection is closed', () => !open()).catch(() => undefined);
  return `${requests === 1 ? '' : ` (${requests} requests)`}${open() ? ' (still open)' : ''}`;
}
