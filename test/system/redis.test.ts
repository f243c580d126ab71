// Tests a daemon on a real Redis: its output, its deliveries, its backup, and what happens when Redis goes
// and returns. A start without Redis: first-start.test.ts.

import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { startRedis } from '../../scripts/services/redis.ts';
import { openDatabase } from '../../src/runtime/database.ts';
import { startDaemon } from '../support/daemon.ts';
import { addTopic, forAll, groupBy, jobsLeft, numbers } from '../support/producing.ts';
import { runDq } from '../support/run-dq.ts';
import { lacks, owned } from '../support/services.ts';
import { ok, startSink, status } from '../support/sink.ts';
import { until } from '../support/until.ts';

describe.skipIf(await lacks('redis'))('dq start --redis', async () => {
  const server = await owned('file', startRedis({ config: ['appendonly yes', 'appendfsync everysec'] }));
  const daemon = await startDaemon({
    ...{ scope: 'file', args: ['--redis', server.url], config: { retry: { unit: '50ms' } } },
  });

  it('prints store and durability; delivers each job once, not early, with retries', async () => {
    const failed = new Set<string>();
    const sink = await startSink((arrival, response) => {
      if (Number(arrival.id) % 10 > 0 || failed.has(arrival.id)) return ok(arrival, response);
      failed.add(arrival.id);
      return status(500)(arrival, response);
    });
    await until('the facts', () => daemon.output().includes('ready in'));
    expect(daemon.output()).toMatch(
      /^dq \S+ \(pid \d+\) on Redis at redis:\/\/127\.0\.0\.1:\d+, with its topics in \S+\ndurability: Redis, appendfsync everysec: .+\nhttp/,
    );
    const topics = ['a', 'b', 'c'];
    for (const topic of topics) await addTopic(daemon, topic, sink.url, { timeout: '30s' });
    const due = new Map<string, number>();
    await forAll(numbers(300), async (n) => {
      const reply = await daemon.push(topics[n % 3] as string, `{"n":${n}}`, {
        id: `${n}`,
        delay: (n * 7) % 1_000,
      });
      expect(reply.status).toBe(201);
      due.set(`${n}`, Date.parse(reply.body.dueAt));
    });
    await until('nothing is left', async () => (await jobsLeft(daemon)) === 0);
    const byId = groupBy(sink.arrivals, (arrival) => arrival.id);
    expect(byId.size).toBe(300);
    for (const [id, arrivals] of byId) {
      expect(
        arrivals.map(({ attempt }) => attempt),
        id,
      ).toEqual(Number(id) % 10 === 0 ? [1, 2] : [1]);
      expect(arrivals[0]?.body.toString()).toBe(`{"n":${id}}`);
      for (const { arrivedAt } of arrivals) expect(arrivedAt).toBeGreaterThanOrEqual(due.get(id) ?? 0);
    }
    const ready = await daemon.api('GET', '/readyz');
    expect(ready.body).toMatchObject({ ready: true, warnings: [] });
    expect(ready.body.durability).toContain('everysec');
    const done = await daemon.api('GET', '/v1/jobs?topic=a&state=done&limit=5');
    expect(done.body.items).toHaveLength(5);
    expect(daemon.log('error')).toEqual([]);
  });

  it('dq backup: copies the registry alone, and names the rest and the manual page', async () => {
    const copy = join(daemon.dataDir, 'copy');
    const made = await runDq(['backup', copy, '--data-dir', daemon.dataDir]);
    expect(made).toMatchObject({ code: 0, stdout: `${copy}\n` });
    expect(readdirSync(copy)).toEqual(['registry.db']);
    for (const step of ['secret.key', 'Redis', 'BGSAVE', 'dump.rdb']) expect(made.stderr).toContain(step);
    const registry = openDatabase(join(copy, 'registry.db'), { readOnly: true });
    expect(registry.prepare('SELECT name FROM topic ORDER BY name').all()).toMatchObject([
      { name: 'a' },
      { name: 'b' },
      { name: 'c' },
    ]);
    registry.close();
    const page = /dq help ([a-z-]+)/.exec(made.stderr)?.[1];
    expect(page).toBe('backup-restore');
    expect(existsSync(join(import.meta.dirname, `../../src/manual/${page}.md`))).toBe(true);
  });

  it('Redis unavailable: rejects pushes; delivers acknowledged jobs when it returns', async () => {
    await server.ask('CONFIG', 'SET', 'appendfsync', 'always');
    const sink = await startSink(ok);
    await addTopic(daemon, 't', sink.url);
    await forAll(numbers(50), async (n) => {
      expect((await daemon.push('t', '1', { id: `${n}`, delay: 2_000 })).status).toBe(201);
    });
    await server.process.kill();
    const rejected = await until('a push is rejected', async () => {
      const reply = await daemon.push('t', '1', { id: 'refused' });
      return reply.status === 503 && reply.body.code === 'not_stored' ? reply : null;
    });
    expect(rejected.body.detail).toBeTruthy();
    expect((await daemon.api('GET', '/readyz')).status).toBe(503);
    await server.process.start();
    await until('Redis is found', async () => (await daemon.api('GET', '/readyz')).status === 200);
    expect((await daemon.push('t', '1', { id: 'after' })).status).toBe(201);
    await until('all arrive', () => new Set(sink.arrivals.map(({ id }) => id)).size === 51);
    expect(sink.arrivals.some(({ id }) => id === 'refused')).toBe(false);
    await until('nothing is left', async () => (await jobsLeft(daemon)) === 0);
  });
});
