// Tests that each instant of many schedules becomes one job, and that the receiver gets it once: with two
// instances on one Redis and one MariaDB, wrong clocks, and kills at the instant. DQ_SCHEDULES sets the
// number of schedules; all of them are due at the same instants.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createConnection } from 'mysql2/promise';
import { expect, it, onTestFinished } from 'vitest';
import { startRedis } from '../../scripts/services/redis.ts';
import { tickId } from '../../src/core/tick-id.ts';
import { upkeepLimits } from '../../src/upkeep/limits.ts';
import { type Daemon, startDaemon } from '../support/daemon.ts';
import { addTopic, forAll, groupBy, numbers } from '../support/producing.ts';
import { lacks, mariadb, owned } from '../support/services.ts';
import { dqWithClock } from '../support/shifted-clock.ts';
import { startSink } from '../support/sink.ts';
import { until } from '../support/until.ts';

const count = Number(process.env['DQ_SCHEDULES'] ?? 300);
const hourMs = 3_600_000;
/** Claims of killed processes end, and the jobs of 10,000 schedules take some seconds. */
const instantMsMax = upkeepLimits.tickClaimMs + 90_000;
const isMissing = (await lacks('redis')) || (await lacks('mysql'));

/** Processor time of living processes, ms. */
const cpuMs = (pids: readonly number[]) =>
  pids
    .map((pid) =>
      readFileSync(`/proc/${pid}/stat`, 'utf8')
        .replace(/^.*\) /, '')
        .split(' '),
    )
    .reduce((sum, fields) => sum + 10 * (Number(fields[11]) + Number(fields[12])), 0);

it.skipIf(isMissing)(
  `${count} schedules: each instant arrives once, through kills and wrong clocks`,
  { timeout: 180_000 + 3 * instantMsMax },
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
    const clocks = [dqWithClock(), dqWithClock()] as const;
    const args = ['--redis', redis.url, '--mysql', url, '--standby'];
    const one = await startDaemon({ args, launcher: clocks[0].launcher, group: true });
    const secretKeyFile = join(one.dataDir, 'secret.key');
    const start = (more: object = {}) =>
      startDaemon({ args, launcher: clocks[1].launcher, group: true, config: { secretKeyFile }, ...more });
    let two = await start();
    const leads = async (daemon: Daemon) =>
      (await daemon.api('GET', '/readyz')).body.deliveries === 'it leads';
    await until('the first instance leads', () => leads(one));
    const sink = await startSink();
    await addTopic(one, 't', sink.url, { concurrency: 200 });

    const names = numbers(count).map((n) => `s${n}`);
    await forAll(names, async (name) => {
      const schedule = { name, topic: 't', every: '1h', body: { name } };
      expect(await one.api('POST', '/v1/schedules', schedule)).toMatchObject({ status: 201 });
    });
    const instants: number[] = [];
    const instant = (n: number) => instants[n - 1] as number;
    /** All schedules are due once, in 3 s. */
    const setInstant = async () => {
      const at = Date.now() + 3_000;
      await db.query("UPDATE schedule SET record = JSON_SET(record, '$.createdAt', ?), next_at = ?", [
        at - hourMs,
        at,
      ]);
      instants.push(at);
    };
    const arrivedOf = (n: number) => {
      const suffix = tickId('', instant(n)).replace('schedule::', ':');
      return sink.arrivals.filter(({ id }) => id.endsWith(suffix));
    };
    const claimed = (n: number) =>
      until(
        'a process claims the instant',
        () => value('SELECT COUNT(*) FROM schedule WHERE claim_until > 0 AND next_at = ?', instant(n)),
        instantMsMax,
        1,
      );
    /** Until all have arrived; ms from the instant until the last claim has ended. */
    const isMade = async (n: number) => {
      let endedAt = Number.POSITIVE_INFINITY;
      await until(
        `instant ${n} has ended`,
        async () => {
          const open = await value('SELECT COUNT(*) FROM schedule WHERE next_at <= ?', instant(n));
          if (open === 0) endedAt = Math.min(endedAt, Date.now());
          const arrived = arrivedOf(n).length;
          if (open > 0 || arrived < count) throw new Error(`${open} are open, ${arrived} arrived`);
          return true;
        },
        instantMsMax,
        50,
      );
      const next = instant(n) + hourMs;
      expect(await value('SELECT COUNT(*) FROM schedule WHERE next_at = ?', next)).toBe(count);
      return endedAt - instant(n);
    };
    const upkeeps = () => [one, two].map((daemon) => daemon.pidOf('dq-upkeep'));
    const report = (n: number, endedMs: number, what: string) => {
      const late = arrivedOf(n)
        .map(({ arrivedAt }) => arrivedAt - instant(n))
        .sort((a, b) => a - b);
      const at = (share: number) => late[Math.min(late.length - 1, Math.floor(share * late.length))];
      const lateness = `late by ${at(0.5)} p50, ${at(0.99)} p99, ${late.at(-1)} max ms`;
      console.log(`${what}: the last claim ended after ${endedMs} ms; ${late.length} arrived, ${lateness}`);
    };

    // The clocks of the machines are wrong, that of Redis is right.
    clocks[0].shift(hourMs);
    clocks[1].shift(-hourMs);
    await setInstant();
    // Pushes wait, claims do not.
    await until('the first instant is near', () => Date.now() > instant(1) - 1_000);
    await redis.ask('CLIENT', 'PAUSE', '60000', 'WRITE');
    await claimed(1);
    for (const pid of upkeeps()) process.kill(pid, 'SIGKILL');
    await redis.ask('CLIENT', 'UNPAUSE');
    expect(arrivedOf(1)).toEqual([]);
    report(1, await isMade(1), 'both dq-upkeep killed between claim and push');

    clocks[0].shift(-hourMs);
    clocks[1].shift(hourMs);
    // The ends of claims wait for this lock.
    await db.query("DO GET_LOCK('end', 0)");
    await db.query(`CREATE TRIGGER held BEFORE UPDATE ON schedule FOR EACH ROW
      IF NEW.claim_until < OLD.claim_until THEN DO GET_LOCK('end', 60), RELEASE_LOCK('end'); END IF`);
    await setInstant();
    await until('the first jobs arrived', () => arrivedOf(2).length >= Math.min(count, 100), instantMsMax, 1);
    process.kill(one.pidOf('dq-upkeep'), 'SIGKILL');
    process.kill(-two.pid, 'SIGKILL');
    await db.query("DO RELEASE_LOCK('end')");
    expect(await value('SELECT COUNT(*) FROM schedule WHERE next_at = ?', instant(2))).toBe(count);
    two = await start({ directory: two.directory });
    report(2, await isMade(2), 'an instance and the other dq-upkeep killed between push and end');
    await db.query('DROP TRIGGER held');

    clocks[0].shift(0);
    clocks[1].shift(0);
    await until('both work', () => upkeeps().length === 2);
    const processes = () => [upkeeps(), [mysql.process.pid], [redis.process.pid]].map((pids) => cpuMs(pids));
    const from = processes();
    await setInstant();
    const endedMs = await isMade(3);
    const used = processes().map((ms, n) => ms - (from[n] ?? 0));
    report(3, endedMs, `undisturbed, ms of both dq-upkeep ${used[0]}, MariaDB ${used[1]}, Redis ${used[2]}`);

    const expected = names.flatMap((name) => [1, 2, 3].map((n) => tickId(name, instant(n))));
    const arrived = groupBy([1, 2, 3].flatMap(arrivedOf), ({ id }) => id);
    expect(expected.filter((id) => !arrived.has(id))).toEqual([]);
    expect([...arrived].filter(([, calls]) => calls.length > 1).map(([id]) => id)).toEqual([]);
    expect(arrived.size).toBe(expected.length);
  },
);
