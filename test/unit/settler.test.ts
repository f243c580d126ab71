// Tests which jobs a notifier holds: those whose leases ended before the store answered, and those of several
// shards.
import { expect, it, onTestFinished } from 'vitest';
import type { AttemptRecord, ReservedJob } from '../../src/core/job.ts';
import { type Held, Settler } from '../../src/notifier/settler.ts';
import type { AckItem, FinishOutcome, JobStore } from '../../src/ports/job-store.ts';
import { silentLog } from '../../src/telemetry/log.ts';
import { MetricBuffer } from '../../src/telemetry/metrics.ts';

const held = (id: string, more: Partial<Held> & { readonly token: number }): Held => {
  const { token, ...rest } = more;
  const job = { topic: 't', id, version: token, token } as ReservedJob;
  return { job, partition: 0, leaseFrom: 0, surelyEndsAt: 0, clockOffset: 0, ...rest };
};

it('holds a job whose token equals that of an acknowledged one of another shard', async () => {
  const [first, second] = [held('a', { token: 7 }), held('b', { token: 7, partition: 1 })];
  let onSettled = () => {};
  const settler = new Settler({
    jobs: { ack: async () => [{ kind: 'acked' }] } as unknown as JobStore,
    ...{ log: silentLog, counters: { add: () => {} }, metrics: new MetricBuffer() },
    ...{ lateMax: 2, keepsHistory: false, onSettled: () => onSettled() },
  });
  for (const each of [first, second]) settler.hold(each);
  await new Promise<void>((resolve) => {
    onSettled = resolve;
    settler.ack(first, {} as AttemptRecord);
  });
  expect(settler.tokens()).toEqual([7]);
});

it('late outcomes: as many as slots are kept and sent again, the others are given up', async () => {
  const lines: string[] = [];
  const log = { ...silentLog, error: (message: string) => void lines.push(message) };
  /** By call. */
  const sent: string[][] = [];
  const counted: string[] = [];
  let onSettled = () => {};
  const settled = () =>
    new Promise<void>((resolve) => {
      onSettled = resolve;
    });
  const jobs = {
    ack: async (items: readonly AckItem[]): Promise<readonly FinishOutcome<'acked'>[]> => {
      sent.push(items.map(({ id }) => id));
      return items.map(() => (sent.length > 1 ? { kind: 'acked' } : { kind: 'unknown', code: 'no_answer' }));
    },
  };
  const settler = new Settler({
    jobs: jobs as unknown as JobStore,
    ...{ log, counters: { add: (_topic, name) => void counted.push(name) }, metrics: new MetricBuffer() },
    ...{ lateMax: 2, keepsHistory: false, onSettled: () => onSettled() },
  });
  onTestFinished(() => void settler.abandon());
  // Their leases have ended.
  const late = ['a', 'b', 'c'].map((id, token) => held(id, { token }));
  for (const each of late) settler.hold(each);
  for (const each of late) settler.ack(each, {} as AttemptRecord);
  await settled();
  expect([settler.size, settler.late, settler.leased]).toEqual([2, 2, 0]);
  expect(lines.filter((line) => line.includes('never answered'))).toHaveLength(1);
  await settled();
  expect(sent).toEqual([
    ['a', 'b', 'c'],
    ['a', 'b'],
  ]);
  expect([settler.size, counted]).toEqual([0, ['delivered', 'delivered']]);
});
