// While MySQL is unavailable the spool fills: dq rejects pushes, delivers and cancels on, and accepts pushes
// again after MySQL has the records. Real Redis, MariaDB and daemon.

import { expect, it } from 'vitest';
import { startRedis } from '../../scripts/services/redis.ts';
import { startDaemon } from '../support/daemon.ts';
import { addTopic, numbers } from '../support/producing.ts';
import { lacks, mariadb, owned } from '../support/services.ts';
import { ok, startSink } from '../support/sink.ts';
import { until } from '../support/until.ts';

/** The least that the option allows. */
const spoolBytes = '64MiB';
const body = JSON.stringify('x'.repeat(1_000_000));

it.skipIf((await lacks('redis')) || (await lacks('mysql')))(
  'spool full while MariaDB is unavailable: pushes rejected, deliveries and cancels go on, pushes accepted after it returns',
  async () => {
    const [redis, mysql] = await Promise.all([owned('test', startRedis()), owned('test', mariadb())]);
    const sink = await startSink(() => {});
    const daemon = await startDaemon({
      args: ['--redis', redis.url, '--mysql', await mysql.createDatabase('full'), '--servers', '1'],
      config: { journal: { mode: 'sync', spoolBytes }, limits: { bodyBytes: '1MiB' } },
    });
    await addTopic(daemon, 't', sink.url, { timeout: '60s' });
    const stateOf = async (id: string) => (await daemon.api('GET', `/v1/topics/t/jobs/${id}`)).body.state;
    const push = (id: string) => daemon.push('t', body, { id, delay: '1h' });
    expect(await push('cancelled')).toMatchObject({ status: 201 });
    const called = numbers(10).map((n) => `called-${n}`);
    for (const id of called) expect(await daemon.push('t', '1', { id })).toMatchObject({ status: 201 });
    await until('callbacks are running', () => sink.open().length === called.length);
    await mysql.process.kill();

    const accepted: string[] = [];
    const rejected = await until('the spool is full', async () => {
      const id = `filler-${accepted.length}`;
      const reply = await push(id);
      if (JSON.stringify(reply.body).includes('spool_full')) return reply;
      // Unknown, when the disk takes longer than a call may: the next round repeats it.
      if (reply.status < 300) accepted.push(id);
      return null;
    });
    expect(rejected).toMatchObject({ status: 503, body: { code: 'not_stored' } });
    expect(await daemon.api('GET', '/readyz')).toMatchObject({
      status: 503,
      body: { detail: expect.stringContaining('journal: the spool is full') },
    });
    expect(accepted.length).toBeGreaterThan(10);
    expect(await stateOf(`filler-${accepted.length}`)).toBeUndefined();

    sink.answer(ok);
    for (const arrival of sink.open()) sink.finish(arrival);
    for (const id of called) await until(`${id} is done`, async () => (await stateOf(id)) === 'done');
    expect(await daemon.api('DELETE', '/v1/topics/t/jobs/cancelled')).toMatchObject({ status: 200 });
    expect(await push('still-full')).toMatchObject({ status: 503, body: { code: 'not_stored' } });

    await mysql.process.start();
    await until('pushes are accepted', async () => (await push('again')).status === 201, 60_000);
    const wanted = [
      ...[...accepted, 'again'].map((id) => `${id}\t0`),
      ...called.map((id) => `${id}\t4`),
      'cancelled\t5',
    ];
    const dropped = () => daemon.log('error').filter(({ message }) => /not recorded/.test(String(message)));
    // Each process has its own stream, so the rows arrive in any order.
    await until('MariaDB has everything', async () => {
      const rows = (await mysql.run('SELECT id, state FROM dq_job', 'full')).trim().split('\n');
      const missing = wanted.filter((row) => !rows.includes(row));
      if (missing.length > 0 || rows.length !== wanted.length)
        throw new Error(`${missing.length} missing, ${missing.slice(0, 3)}; dropped: ${dropped().length}`);
      return true;
    });
    expect(dropped()).toEqual([]);
  },
);
