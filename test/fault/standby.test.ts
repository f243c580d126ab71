// Tests instances with `standby` on one Redis and one MariaDB: one of them calls jobs; another takes over
// when it is killed, stands still, is stopped or leaves standby; the rate of a topic is that of one instance.
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { startRedis } from '../../scripts/services/redis.ts';
import { type Daemon, startDaemon } from '../support/daemon.ts';
import { addTopic } from '../support/producing.ts';
import { reload, writeConfig } from '../support/reloading.ts';
import { lacks, mariadb, owned } from '../support/services.ts';
import { type DqWithClock, dqWithClock } from '../support/shifted-clock.ts';
import { startSink } from '../support/sink.ts';
import { until } from '../support/until.ts';

/** per second */
const rate = 10;
/** Of the time after which another instance leads, with the start of its first calls on a busy machine. */
const takeoverMsMax = 20_000;
/** MySQL away costs 40 s of waiting. */
const withoutMysql = process.env['DQ_STANDBY_AWAY'] === '1';
const isMissing = (await lacks('redis')) || (await lacks('mysql'));

interface Machine {
  readonly daemon: Daemon;
  readonly clock: DqWithClock;
}

it.skipIf(isMissing)(
  'one calls jobs; another takes over when it ends, is killed or stands still',
  {
    timeout: 240_000,
  },
  async () => {
    const redis = await owned('test', startRedis({ config: ['appendonly yes'] }));
    const database = await owned('test', mariadb());
    await database.createDatabase('dq');
    const args = ['--redis', redis.url, '--mysql', database.url('dq')];
    let config: Record<string, unknown> = { standby: true };
    const start = async (clock = dqWithClock(), directory?: string): Promise<Machine> => ({
      clock,
      daemon: await startDaemon({
        ...{ args, group: true, config, launcher: clock.launcher },
        ...(directory === undefined ? {} : { directory }),
      }),
    });
    const one = await start();
    config = { standby: true, secretKeyFile: join(one.daemon.dataDir, 'secret.key') };
    let machines = [one, await start(), await start()];

    const sink = await startSink();
    /** When this process, and the receiver in it, stood still, epoch ms: it sees the calls of that time at
     *  its end. */
    const pauses: { readonly from: number; readonly to: number }[] = [];
    let beatAt = Date.now();
    const beat = setInterval(() => {
      const now = Date.now();
      // A shorter pause moves at most one call into a window.
      if (now - beatAt > 80) pauses.push({ from: beatAt, to: now + 100 });
      beatAt = now;
    }, 20);
    onTestFinished(() => clearInterval(beat));
    await addTopic(one.daemon, 't', sink.url, { rate });
    for (const from of [0, 1_000]) {
      const items = Array.from({ length: 1_000 }, (_, n) => ({ topic: 't', id: `${from + n}`, body: n }));
      expect((await one.daemon.api('POST', '/v1/jobs', items)).body.accepted).toBe(items.length);
    }

    const deliveriesOf = async ({ daemon }: Machine) =>
      (await daemon.api('GET', '/readyz')).body.deliveries as string;
    const leading = async (among: readonly Machine[]) => {
      const texts = await Promise.all(among.map(deliveriesOf));
      return among.filter((_, n) => texts[n] === 'it leads');
    };
    const theLeader = () =>
      until('one leads', async () => {
        const found = await leading(machines);
        return found.length === 1 ? found[0] : null;
      });
    const reloads = async ({ daemon }: Machine) => {
      const { code, stderr } = await reload(daemon);
      expect(code, stderr).toBe(0);
    };
    const log: string[] = [];
    /** Waits for calls after an event; notes the longest time without one. */
    const callsGoOn = async (event: string) => {
      const before = Math.max(0, sink.arrivals.length - 1);
      const goOn = () => sink.arrivals.length > before + 2 * rate;
      await until(`calls after ${event}`, goOn, takeoverMsMax);
      const times = sink.arrivals.slice(before).map(({ arrivedAt }) => arrivedAt);
      const gaps = times.slice(1).map((at, n) => at - (times[n] ?? 0));
      log.push(`${event} ${Math.max(...gaps)} ms`);
    };
    const others = (gone: Machine) => machines.filter((machine) => machine !== gone);
    /** MySQL's row, while its time runs. */
    const holder = async () => {
      const now = 'CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED)';
      return (await database.run(`SELECT instance FROM leader WHERE until > ${now}`, 'dq')).trim();
    };

    await until('calls', () => sink.arrivals.length > rate);
    const first = await theLeader();
    for (const [name, ms] of [
      ['a step of its clock by 1 h', 3_600_000],
      ['a step by -2 h', -3_600_000],
      ['a step back', 0],
    ] as const) {
      first.clock.shift(ms);
      await callsGoOn(name);
    }

    const firstHolder = await holder();
    await reloads(first);
    await callsGoOn('a reload');
    expect([await theLeader(), await holder()]).toEqual([first, firstHolder]);

    expect(await first.daemon.stop()).toBe(0);
    // Not the time of the row, which had up to 6 s: it was given up, or another instance has it.
    expect(await holder()).not.toBe(firstHolder);
    machines = others(first);
    await callsGoOn('a stop');
    machines.push(await start(first.clock, first.daemon.directory));

    const killed = await theLeader();
    process.kill(-killed.daemon.pid, 'SIGKILL');
    machines = others(killed);
    await callsGoOn('a kill');

    const frozen = await theLeader();
    process.kill(-frozen.daemon.pid, 'SIGSTOP');
    machines = others(frozen);
    await callsGoOn('a freeze');
    const thawedAt = Date.now();
    process.kill(-frozen.daemon.pid, 'SIGCONT');
    await callsGoOn('the thaw');
    expect(await deliveriesOf(frozen)).toMatch(/^standby: instance \d+ leads$/);
    // Lines from before, with the stepped clock, lie in the future.
    const startedLater = frozen.daemon.log('notify').filter(({ time, durationMs }) => {
      const startedAt = Date.parse(String(time)) - Number(durationMs);
      return startedAt > thawedAt && startedAt < Date.now();
    });
    expect(startedLater).toEqual([]);
    machines.push(frozen);

    if (withoutMysql) {
      await theLeader();
      await database.process.freeze();
      const before = sink.arrivals.length;
      await until('MySQL is unavailable', async () => /unknown/.test(await deliveriesOf(frozen)));
      await until(
        'every instance delivers',
        () => {
          const { daemon } = frozen;
          return daemon.log('notice').some(({ message }) => /every instance does/.test(String(message)));
        },
        60_000,
      );
      log.push(`${sink.arrivals.length - before} calls in the first 30 s without MySQL`);
      database.process.thaw();
      await theLeader();
    }

    // Windows of a second by the receiver's clock, at all times but without MySQL. Two instances would fill
    // one with 2 × rate; a notifier may start one call above its rate. Of the calls that are seen at the end
    // of a pause, a part came before the window: that of the whole pause is deducted.
    const times = sink.arrivals.map(({ arrivedAt }) => arrivedAt).sort((a, b) => a - b);
    let most = 0;
    for (let from = 0, to = 0; to < times.length; to += 1) {
      while ((times[to] ?? 0) - (times[from] ?? 0) >= 1_000) from += 1;
      const [first = 0, last = 0] = [times[from], times[to]];
      const pausedMs = pauses
        .filter((pause) => first <= pause.to && last >= pause.from)
        .reduce((sum, pause) => sum + pause.to - pause.from, 0);
      most = Math.max(most, to - from + 1 - (rate * pausedMs) / 1_000);
    }
    expect(most).toBeGreaterThan(rate / 2);
    if (!withoutMysql) expect(most).toBeLessThan(1.5 * rate);
    // A call that the end of its instance cut off comes again, with the same attempt.
    const calls = new Map<string, number>();
    for (const { id } of sink.arrivals) calls.set(id, (calls.get(id) ?? 0) + 1);
    const again = [...calls.values()].filter((count) => count > 1).length;
    expect(again).toBeLessThan(2 * rate);

    const last = await theLeader();
    const lastHolder = await holder();
    writeConfig(last.daemon, { ...config, standby: false });
    await reloads(last);
    machines = others(last);
    await theLeader();
    expect(await holder()).not.toBe(lastHolder);

    console.log(`standby: without a call: ${log.join('; ')}`);
    console.log(
      `standby: at most ${most.toFixed(1)} calls in a second at a limit of ${rate}; ${again} called twice`,
    );
  },
);
