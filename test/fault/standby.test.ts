// Tests instances with `standby` on one Redis and one MariaDB: one of them calls jobs; another takes over
// when it is killed, stands still, is stopped or leaves standby. Clocks are in test/unit/leadership.
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { startRedis } from '../../scripts/services/redis.ts';
import { type Daemon, startDaemon } from '../support/daemon.ts';
import { addTopic } from '../support/producing.ts';
import { reload, writeConfig } from '../support/reloading.ts';
import { lacks, mariadb, owned } from '../support/services.ts';
import { startSink } from '../support/sink.ts';
import { until } from '../support/until.ts';

const isMissing = (await lacks('redis')) || (await lacks('mysql'));

it.skipIf(isMissing)(
  'one calls jobs; another takes over when it ends, is killed or stands still',
  { timeout: 600_000 },
  async () => {
    const redis = await owned('test', startRedis({ config: ['appendonly yes'] }));
    const database = await owned('test', mariadb());
    await database.createDatabase('dq');
    const args = ['--redis', redis.url, '--mysql', database.url('dq')];
    let config: Record<string, unknown> = { standby: true };
    const start = (directory?: string) =>
      startDaemon({ args, group: true, config, ...(directory === undefined ? {} : { directory }) });
    const one = await start();
    config = { standby: true, secretKeyFile: join(one.dataDir, 'secret.key') };
    const two = await start();
    const sink = await startSink();
    await addTopic(one, 't', sink.url);

    const deliveriesOf = async (daemon: Daemon) =>
      (await daemon.api('GET', '/readyz')).body.deliveries as string;
    const leads = (daemon: Daemon) =>
      until('it leads', async () => (await deliveriesOf(daemon)) === 'it leads');
    /** The instance in MySQL's row, while its time runs. */
    const holder = async () => {
      const now = 'CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED)';
      return (await database.run(`SELECT instance FROM leader WHERE until > ${now}`, 'dq')).trim();
    };
    let pushed = 0;
    /** A job that any of them accepts is called once, by the one that leads. */
    const delivers = async (daemon: Daemon) => {
      await leads(daemon);
      const id = `${pushed++}`;
      expect(await daemon.push('t', '1', { id })).toMatchObject({ status: 201 });
      await until('the call', () => sink.arrivals.some((arrival) => arrival.id === id));
      expect(sink.arrivals.filter((arrival) => arrival.id === id)).toHaveLength(1);
      await until('its line', () => daemon.log('notify').some((line) => line['id'] === id));
    };

    await delivers(one);
    expect(await deliveriesOf(two)).toMatch(/^standby: instance \d+ leads$/);
    const first = await holder();
    expect(await reload(one)).toMatchObject({ code: 0 });
    await delivers(one);
    expect(await holder()).toBe(first);

    process.kill(-one.pid, 'SIGKILL');
    await delivers(two);
    const again = await start(one.directory);

    process.kill(-two.pid, 'SIGSTOP');
    await delivers(again);
    process.kill(-two.pid, 'SIGCONT');
    await until('it waits', async () => /^standby: instance \d+ leads$/.test(await deliveriesOf(two)));
    await delivers(again);

    // The row is given up: its time may run for 6 s.
    const before = await holder();
    writeConfig(again, { ...config, standby: false });
    expect(await reload(again)).toMatchObject({ code: 0 });
    await leads(two);
    expect(await holder()).not.toBe(before);
    expect(await again.stop()).toBe(0);
    const last = await holder();
    expect(await two.stop()).toBe(0);
    expect(await holder()).not.toBe(last);
  },
);
