// What people see of the journal: the flow of a job, on a real daemon with Redis and MariaDB.

import { beforeAll, describe, expect, it } from 'vitest';
import { startRedis } from '../../scripts/services/redis.ts';
import { type Daemon, startDaemon } from '../support/daemon.ts';
import { addTopic } from '../support/producing.ts';
import { runDq } from '../support/run-dq.ts';
import { lacks, mariadb, owned } from '../support/services.ts';
import { startSink } from '../support/sink.ts';
import { until } from '../support/until.ts';

describe.skipIf((await lacks('redis')) || (await lacks('mysql')))('journal for people', async () => {
  const mysql = await owned('file', mariadb());
  const redis = await owned('file', startRedis());
  let daemon: Daemon;
  beforeAll(async () => {
    const args = ['--redis', redis.url, '--mysql', await mysql.createDatabase('views')];
    daemon = await startDaemon({ args, config: { journal: { mode: 'sync' } }, scope: 'file' });
  });
  const dq = (...args: readonly string[]) => runDq([...args, '--data-dir', daemon.dataDir]);

  it('get --flow names every change of a job', async () => {
    const sink = await startSink();
    await addTopic(daemon, 't', sink.url);
    await daemon.push('t', '{}', { id: 'a', delay: '1h' });
    await daemon.api('POST', '/v1/topics/t/jobs/a/run');
    const flow = await until('the journal has the end', async () => {
      const { stdout } = await dq('get', 't', 'a', '--flow', '--json');
      const { entries } = JSON.parse(stdout);
      return entries.length === 3 && entries[2].place !== null && entries;
    });
    expect(flow).toMatchObject([
      { event: 'accepted', process: 'dq-server-0' },
      { event: 'run', process: 'dq-server-0' },
      { event: 'done', process: 'dq-notifier-0', attempt: { status: 200 } },
    ]);
  });
});
