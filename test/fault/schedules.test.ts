// Tests that each instant of many schedules becomes one job, and that the receiver gets it once: with two
// instances on one Redis and one MariaDB, and kills at the instant, which all schedules share. Wrong clocks,
// and what one process does, are in test/role/ticker.
import { join } from 'node:path';
import { createConnection } from 'mysql2/promise';
import { expect, it, onTestFinished } from 'vitest';
import { startRedis } from '../../scripts/services/redis.ts';
import { tickId } from '../../src/core/tick-id.ts';
import { upkeepLimits } from '../../src/upkeep/limits.ts';
import { startDaemon } from '../support/daemon.ts';
import { addTopic, forAll, groupBy, numbers } from '../support/producing.ts';
import { lacks, mariadb, owned } from '../support/services.ts';
import { startSink } from '../support/sink.ts';
import { until } from '../support/until.ts';

const count = 100;
const hourMs = 3_600_000;
/** Claims of killed processes end. */
const instantMsMax = upkeepLimits.tickClaimMs + 120_000;
const isMissing = (await lacks('redis')) || (await lacks('mysql'));

it.skipIf(isMissing)(
  `${count} schedules: each instant arrives once, through kills between claim, push and end`,
  { timeout: 600_000 },
  async () => {
    const redis = await owned('test', startRedis({ config: ['appendonly yes'] }));
    const mysql = await owned('test', mariadb());
    const url = await mysql.createDatabase('dq');
    const db = await createConnection(url);
    onTestFinished(() => db.end());
    const value = async (sql: string, ...values: number[]) => {
      const [rows] = await db.query(sql, values);
      return Number(Object.values((rows as object[])[0] ?? {})[0]);
    };

    // One instance calls jobs. The other one dies at an instant, so that its death cuts off no call.
    const args = ['--redis', redis.url, '--mysql', url, '--standby'];
    const one = await startDaemon({ args, group: true });
    const config = { secretKeyFile: join(one.dataDir, 'secret.key') };
    const two = await startDaemon({ args, group: true, config });
    await until(
      'the first instance leads',
      async () => (await one.api('GET', '/readyz')).body.deliveries === 'it leads',
    );
    const sink = await startSink();
    await addTopic(one, 't', sink.url, { concurrency: 200 });
    const names = numbers(count).map((n) => `s${n}`);
    await forAll(names, async (name) => {
      const schedule = { name, topic: 't', every: '1h', body: { name } };
      expect(await one.api('POST', '/v1/schedules', schedule)).toMatchObject({ status: 201 });
    });
    /** All schedules are due now. */
    const setInstant = async () => {
      const at = Date.now();
      await db.query("UPDATE schedule SET record = JSON_SET(record, '$.createdAt', ?), next_at = ?", [
        at - hourMs,
        at,
      ]);
      return at;
    };
    const arrivedOf = (at: number) =>
      sink.arrivals.filter(({ id }) => id.endsWith(tickId('', at).replace('schedule::', ':')));
    const isMade = async (at: number) => {
      await until(
        'all jobs of the instant have arrived, and no claim is open',
        async () => {
          const open = await value('SELECT COUNT(*) FROM schedule WHERE next_at <= ?', at);
          return open === 0 && arrivedOf(at).length >= count;
        },
        instantMsMax,
      );
      expect(await value('SELECT COUNT(*) FROM schedule WHERE next_at = ?', at + hourMs)).toBe(count);
    };

    // Pushes wait, claims do not.
    await redis.ask('CLIENT', 'PAUSE', '60000', 'WRITE');
    const first = await setInstant();
    await until('a process claims the instant', () =>
      value('SELECT COUNT(*) FROM schedule WHERE claim_until > 0 AND next_at = ?', first),
    );
    for (const daemon of [one, two]) process.kill(daemon.pidOf('dq-upkeep'), 'SIGKILL');
    await redis.ask('CLIENT', 'UNPAUSE');
    expect(arrivedOf(first)).toEqual([]);
    await isMade(first);

    // The ends of claims wait for this lock.
    await db.query("DO GET_LOCK('end', 0)");
    await db.query(`CREATE TRIGGER held BEFORE UPDATE ON schedule FOR EACH ROW
      IF NEW.claim_until < OLD.claim_until THEN DO GET_LOCK('end', 60), RELEASE_LOCK('end'); END IF`);
    const second = await setInstant();
    await until('the first jobs arrived', () => arrivedOf(second).length > 0, instantMsMax);
    process.kill(one.pidOf('dq-upkeep'), 'SIGKILL');
    process.kill(-two.pid, 'SIGKILL');
    await db.query("DO RELEASE_LOCK('end')");
    await isMade(second);

    const expected = names.flatMap((name) => [first, second].map((at) => tickId(name, at)));
    const arrived = groupBy([first, second].flatMap(arrivedOf), ({ id }) => id);
    expect([...arrived.keys()].sort()).toEqual(expected.sort());
    expect([...arrived].filter(([, calls]) => calls.length > 1).map(([id]) => id)).toEqual([]);
  },
);
