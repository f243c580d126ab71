// Tests instances with `--standby` on one Redis and one MariaDB: one of them calls jobs, another takes over
// when it is killed or stands still, and the rate of a topic is that of one instance.
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { startRedis } from '../../scripts/services/redis.ts';
import { type Daemon, startDaemon } from '../support/daemon.ts';
import { addTopic } from '../support/producing.ts';
import { lacks, mariadb, owned } from '../support/services.ts';
import { startSink } from '../support/sink.ts';
import { until } from '../support/until.ts';

/** per second */
const rate = 10;
/** More than one instance could call in it, by the time that the receiver measures. */
const windowMs = 5_000;
const isMissing = (await lacks('redis')) || (await lacks('mysql'));

it.skipIf(isMissing)(
  'one calls jobs; another takes over when it is killed or stands still',
  {
    timeout: 180_000,
  },
  async () => {
    const redis = await owned('test', startRedis({ config: ['appendonly yes'] }));
    const database = await owned('test', mariadb());
    await database.createDatabase('dq');
    const args = ['--redis', redis.url, '--mysql', database.url('dq'), '--standby'];
    const start = (config = {}) => startDaemon({ args, group: true, config });
    const one = await start();
    const secretKeyFile = join(one.dataDir, 'secret.key');
    const [two, three] = [await start({ secretKeyFile }), await start({ secretKeyFile })];
    const daemons = [one, two, three];

    const sink = await startSink();
    await addTopic(one, 't', sink.url, { rate });
    const items = Array.from({ length: 1_000 }, (_, n) => ({ topic: 't', id: `${n}`, body: n }));
    expect((await one.api('POST', '/v1/jobs', items)).body.accepted).toBe(items.length);

    const deliveries = async (daemon: Daemon) =>
      (await daemon.api('GET', '/readyz')).body.deliveries as string;
    const leading = async (among: readonly Daemon[]) => {
      const texts = await Promise.all(among.map(deliveries));
      return among.filter((_, n) => texts[n] === 'it leads');
    };
    /** Of one instance; two would call twice as much. */
    const callsAtTheRate = async () => {
      const before = sink.arrivals.length;
      const from = performance.now();
      await until('a window to pass', () => performance.now() - from > windowMs);
      const seconds = (performance.now() - from) / 1_000;
      const perSecond = (sink.arrivals.length - before) / seconds;
      expect(perSecond).toBeLessThan(1.4 * rate);
      return perSecond.toFixed(1);
    };
    /** ms without a call; `others`: one of them is the next leader */
    const takeover = async (others: readonly Daemon[]) => {
      const before = sink.arrivals.length;
      const from = performance.now();
      const was = await until('another leads', async () => (await leading(others))[0], 60_000, 50);
      await until('it calls', () => sink.arrivals.length > before + rate, 60_000);
      return { leader: was, ms: Math.round(performance.now() - from) };
    };

    await until('calls', () => sink.arrivals.length > rate);
    const [first] = await until('one leads', async () => {
      const found = await leading(daemons);
      if (found.length !== 1) throw new Error(`${found.length} lead`);
      return found as [Daemon];
    });
    const rates = [await callsAtTheRate()];

    process.kill(-first.pid, 'SIGKILL');
    const rest = daemons.filter((daemon) => daemon !== first);
    const killed = await takeover(rest);
    rates.push(await callsAtTheRate());

    process.kill(-killed.leader.pid, 'SIGSTOP');
    const [last] = rest.filter((daemon) => daemon !== killed.leader) as [Daemon];
    const frozen = await takeover([last]);
    process.kill(-killed.leader.pid, 'SIGCONT');
    rates.push(await callsAtTheRate());
    expect(await deliveries(killed.leader)).toMatch(/^standby: instance \d+ leads$/);

    // A call that the end of its instance cut off comes again, with the same attempt.
    const calls = new Map<string, number>();
    for (const { id } of sink.arrivals) calls.set(id, (calls.get(id) ?? 0) + 1);
    const again = [...calls.values()].filter((count) => count > 1).length;
    expect(again).toBeLessThan(2 * rate);
    const gaps = `${killed.ms} ms after a kill, ${frozen.ms} ms after a freeze, until ${rate} further calls`;
    console.log(`standby: ${gaps}; ${rates.join(', ')} calls/s at a limit of ${rate}; ${again} called twice`);
  },
);
