// Tests a Redis that belongs to another registry. Instances that share both: mysql.test.ts.
import { describe, expect, it } from 'vitest';
import { startRedis } from '../../scripts/services/redis.ts';
import { startDaemon } from '../support/daemon.ts';
import { addTopic } from '../support/producing.ts';
import { runDq } from '../support/run-dq.ts';
import { lacks, mariadb, owned } from '../support/services.ts';
import { ok, startSink } from '../support/sink.ts';
import { temporaryDirectory } from '../support/sqlite-store.ts';
import { until } from '../support/until.ts';

const isMissing = (await lacks('redis')) || (await lacks('mysql'));

describe.skipIf(isMissing)('several instances', async () => {
  const database = await owned('file', mariadb());
  let made = 0;
  const newDatabase = async () => {
    await database.createDatabase(`dq${++made}`);
    return database.url(`dq${made}`);
  };
  const redis = await owned('file', startRedis({ config: ['appendonly yes', 'appendfsync everysec'] }));

  it('Redis of another registry: rejected with the remedy, which keeps its jobs', async () => {
    await redis.ask('FLUSHALL');
    const sink = await startSink(ok);
    const first = await startDaemon({ args: ['--redis', redis.url] });
    await addTopic(first, 't', sink.url);
    expect((await first.push('t', '1', { id: 'kept', delay: 1_000 })).status).toBe(201);
    const elsewhere = temporaryDirectory();
    const start = (more: readonly string[], place: string) =>
      runDq(['start', '--port', '0', '--data-dir', place, '--log-dir', place, '--redis', redis.url, ...more]);
    const second = await start([], elsewhere.path);
    elsewhere.remove();
    expect([second.code, second.stderr]).toEqual([
      78,
      expect.stringMatching(
        /redis:\/\/127\.0\.0\.1:\d+: this Redis is not ours: it belongs to the registry [0-9a-f]{16}, and this one is [0-9a-f]{16}: instances on one Redis share one MySQL \(mysql\.url\); otherwise give/,
      ),
    ]);
    expect(await first.stop()).toBe(0);

    const url = await newDatabase();
    // A start waits for 1 s only, and goes on without a MySQL that creates its tables for longer.
    expect((await runDq(['migrate', '--mysql', url])).code).toBe(0);
    const later = await start(['--mysql', url], first.dataDir);
    expect(later.code).toBe(78);
    const named = /belongs to the registry ([0-9a-f]{16})/.exec(later.stderr)?.[1];
    await database.run(`REPLACE INTO dq${made}.registry_id (only, id) VALUES (1, '${named}')`);
    const { directory } = first;
    const moved = await startDaemon({ args: ['--redis', redis.url, '--mysql', url], directory });
    await addTopic(moved, 't', sink.url);
    await until('it arrives', () => sink.arrivals.some(({ id }) => id === 'kept'));
    expect(moved.log('error').filter(({ message }) => /not ours|rejected/.test(String(message)))).toEqual([]);
  });
});
