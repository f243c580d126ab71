// Which calls of the store on Redis name no change for a journal. The members of the others are those of the
// records in journaled-store.test.ts.

import { describe, expect, it } from 'vitest';
import { jobOf } from '../conformance/trial.ts';
import { openedEmpty } from '../support/redis-store.ts';
import { lacks, workerRedis } from '../support/services.ts';
import { words } from '../support/words.ts';

const place = `${'5a'.repeat(8)}:0`;

describe.skipIf(await lacks('redis'))('Redis store, changes', async () => {
  const server = await workerRedis();

  const opened = async () => (await openedEmpty(server, { writer: '7.9' })).trial;

  it('outcomes without a change name none', async () => {
    const trial = await opened();
    const job = await trial.reserved('a');
    const { jobs } = trial;
    const outcomes = [
      ...(await jobs.ack([{ ...job, token: job.token + 1, attempt: null }])),
      ...(await jobs.run([job])),
      ...(await jobs.reschedule([{ ...job, when: { delayMs: 0 } }])),
      ...(await jobs.requeue([job])),
      ...(await jobs.release([job])),
      ...(await jobs.cancel([{ topic: 't', id: 'absent' }])),
    ];
    expect(outcomes.map(({ kind }) => kind)).toEqual(words`
      lease_lost unchanged in_flight not_dead released absent
    `);
    for (const outcome of outcomes) expect(outcome).not.toHaveProperty('change');
  });

  it('a shard that leaves the list during a call: its outcomes name their changes', async () => {
    const { under, trial } = await openedEmpty(server, { writer: '7.9' });
    const keys = ['a', 'b', 'c'].map((id) => ({ topic: 't', id }));
    for (const { id } of keys) await trial.buried(id);
    // The reply arrives, and before it is read the shard list changes.
    const { list, run } = under.redis;
    under.redis.run = async (...given) => {
      const reply = await run.apply(under.redis, given);
      under.redis.apply({ ...list, number: list.number + 1, shards: [] });
      return reply;
    };
    expect(await trial.jobs.cancel(keys)).toMatchObject(
      keys.map(() => ({ kind: 'cancelled', inFlight: false, change: { place } })),
    );
  });

  it('without a writer: names no change, and an ack draws no number', async () => {
    const { under, trial: plain } = await openedEmpty(server);
    const job = await plain.reserved('a');
    const before = await under.raw.hget('{dq:0}:n', 'seq');
    expect(await under.store.jobs.ack([{ ...job, attempt: null }])).toEqual([{ kind: 'acked' }]);
    expect(await under.raw.hget('{dq:0}:n', 'seq')).toBe(before);
    expect(await under.store.jobs.push([jobOf('b')])).toEqual([
      expect.not.objectContaining({ place: expect.anything() }),
    ]);
  });
});
