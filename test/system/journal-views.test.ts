// What people see of the journal: flow, state, the spool of an ended daemon. A real daemon with Redis and
// MariaDB.

import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { createConnection } from 'mysql2/promise';
import { describe, expect, it, onTestFinished } from 'vitest';
import { openPage, startBrowser } from '../support/browser.ts';
import { startDaemon } from '../support/daemon.ts';
import { addTopic } from '../support/producing.ts';
import { runDq } from '../support/run-dq.ts';
import { lacks, workerMariadb, workerRedis } from '../support/services.ts';
import { startSink } from '../support/sink.ts';
import { until } from '../support/until.ts';

describe.skipIf((await lacks('redis')) || (await lacks('mysql')))('journal for people', async () => {
  const mysql = await workerMariadb();
  const redis = await workerRedis();
  await redis.ask('FLUSHALL');
  const config = {
    ...{ redis: [redis.url], mysql: { url: await mysql.createDatabase('views') } },
    journal: { mode: 'sync' },
  };
  const daemon = await startDaemon({ config, scope: 'file', console: true });
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
      { event: 'accepted', process: expect.stringMatching(/^dq-server-/) },
      { event: 'run', process: expect.stringMatching(/^dq-server-/) },
      { event: 'done', process: expect.stringMatching(/^dq-notifier-/), attempt: { status: 200 } },
    ]);
  });

  it('journal shows spool, lag and instances', async () => {
    const { stdout, code } = await dq('journal');
    expect(code).toBe(0);
    expect(stdout).toMatch(/mode\s+sync\nlag\s+\S+\nspool\s+\d+\.\d MiB of 1024\.0 MiB/);
    expect(stdout).toMatch(/\n[0-9a-f]{8}-\d+\s+\d+\s+\d+ /);
    expect(stdout).toMatch(/\n[0-9a-f]{8} \*/);
    const { body } = await daemon.api('GET', '/v1/journal');
    expect(body).toMatchObject({
      mode: 'sync',
      lagMs: expect.any(Number),
      late: 0,
      damaged: 0,
      restores: [],
    });
    expect(body.instances).toMatchObject([{ self: true, host: hostname(), state: 'lives' }]);
  });

  it('start, status, readyz and doctor say one sentence about durability', async () => {
    const sentence = (await daemon.api('GET', '/readyz')).body.durability;
    expect(sentence).toMatch(/^Redis with a journal: survives kill -9 and a power cut/);
    expect(daemon.output()).not.toContain('loses');
    expect(daemon.output()).toContain(`\ndurability: ${sentence}`);
    const status = await dq('status');
    expect(status.stderr + status.stdout).toContain(`\ndurability: ${sentence}`);
    const findings = JSON.parse(
      (await dq('doctor', '--json', '-c', join(daemon.directory, 'dq.yaml'))).stdout,
    ) as readonly { check: string; about: string }[];
    const said = findings.filter(({ check, about }) => check === 'redis' && /power cut|loses/.test(about));
    expect(said, JSON.stringify(findings)).toMatchObject([{ state: 'ok', about: sentence }]);
    const { body } = await daemon.api('GET', '/v1/store');
    expect(body).toMatchObject({
      durability: sentence,
      journal: 'sync',
      shards: [{ info: { durability: sentence } }],
    });
  });

  it('restore --now names the instances without a sign, and gives them up', async () => {
    expect(await dq('restore', '--now', 't')).toMatchObject({ code: 2 });
    const none = 'dq: every instance gives signs, or has ended: no healing waits\n';
    expect(await dq('restore', '--now', '--yes')).toMatchObject({ code: 0, stderr: none });
    const connection = await createConnection({ uri: mysql.url('views') });
    await connection.query(
      `INSERT INTO dq_journal_instance (instance, host, seen_at, barrier, highest, spool_bytes)
       VALUES (31, 'far', 1000 * UNIX_TIMESTAMP() - 61000, 0, 0, 0)`,
    );
    const { stderr } = await dq('restore', '--now', '--yes');
    expect(stderr).toMatch(/^dq: healings go on without instance 0000001f on far, last sign 1m\S* ago\n$/);
    expect((await dq('journal')).stdout).toMatch(/0000001f\s+far\s+ended /);
    await connection.query('DELETE FROM dq_journal_instance WHERE instance = 31');
    await connection.end();
  });

  it('the console shows the journal, and starts a restore and a clear', async () => {
    const browser = await startBrowser();
    onTestFinished(() => browser.close());
    const { page } = await openPage(browser, `${await daemon.consoleUrl()}/store`);
    const shows = (text: string | RegExp) => page.getByText(text).first().waitFor();
    await shows('Safe on kill -9 and a power cut of dq and of Redis, and when Redis loses all data.');
    await shows('Jobs that Redis loses come back, also after a power cut.');
    await shows(/ of 1(\.0)? GiB spool/);
    await shows(`${hostname()} (this instance)`);
    await page.getByRole('button', { name: 'Restore jobs…' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('button', { name: 'Restore' }).click();
    await shows('Give a topic');
    await dialog.getByRole('radio', { name: 'Every topic' }).check();
    await dialog.getByLabel('Overdue jobs').selectOption('skip');
    await dialog.getByRole('button', { name: 'Restore' }).click();
    await page.getByRole('link', { name: 'View', exact: true }).click();
    await shows('Only counts');
    await shows(/^Dry run: Restore /);
    const { body } = await daemon.api('GET', '/v1/operations');
    expect(body.items).toMatchObject([{ kind: 'restore', overdue: 'skip', dryRun: true, filter: {} }]);

    await addTopic(daemon, 'cleared', 'http://127.0.0.1:1/');
    await daemon.push('cleared', '{}', { id: 'c', delay: '1h' });
    await page.goto(`${await daemon.consoleUrl()}/topics/cleared`);
    await page.getByRole('button', { name: 'Clear…' }).click();
    await dialog.getByRole('textbox').fill('cleared');
    await dialog.getByRole('button', { name: 'Clear', exact: true }).click();
    await until('the job is cancelled', async () => {
      const { body: job } = await daemon.api('GET', '/v1/topics/cleared/jobs/c');
      return job.state === 'cancelled';
    });
  });

  it('fsck checks the journal too', async () => {
    expect(await dq('fsck')).toMatchObject({ code: 0, stderr: expect.stringContaining('no problem found') });
    const damaged = join(daemon.dataDir, 'spool', 'damaged');
    mkdirSync(damaged);
    writeFileSync(join(damaged, '0f1e2d3c-17-1.seg'), 'x');
    const found = await dq('fsck');
    expect(found).toMatchObject({
      code: 1,
      stdout: expect.stringMatching(/\nJ4 .* damaged\/0f1e2d3c-17-1\.seg/),
    });
    rmSync(damaged, { recursive: true });
  });

  it('journal ship rejects the directory of a running daemon, and ships that of an ended one', async () => {
    const ship = () => dq('journal', 'ship', '-c', join(daemon.directory, 'dq.yaml'));
    expect(await ship()).toMatchObject({ code: 1, stderr: expect.stringContaining('end it with dq stop') });
    expect((await dq('stop')).code).toBe(0);
    const { code, stderr } = await ship();
    expect([code, stderr]).toEqual([0, expect.stringMatching(/shipped \d+ changes of \d+ segments/)]);
  });
});
