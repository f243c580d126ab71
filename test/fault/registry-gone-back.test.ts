// MySQL restored from a backup with an older shard list than the shards store: an instance that knows the
// newer list writes it back; without one, `dq shard` names the remedy. Every job is found, and delivered
// once.

import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { type RedisServer, startRedis } from '../../scripts/services/redis.ts';
import { type Daemon, startDaemon } from '../support/daemon.ts';
import { addTopic, forAll, jobsLeft, numbers } from '../support/producing.ts';
import { copyState } from '../support/registry-copy.ts';
import { runDq } from '../support/run-dq.ts';
import { lacks, mariadb, owned } from '../support/services.ts';
import { ok, startSink } from '../support/sink.ts';
import { until } from '../support/until.ts';

const mysqlPage = readFileSync(join(import.meta.dirname, '../../src/manual/mysql.md'), 'utf8');
const isMissing = (await lacks('redis')) || (await lacks('mysql'));

describe.skipIf(isMissing)('a registry with an older shard list', async () => {
  const database = await owned('file', mariadb());
  const servers = await Promise.all([0, 1, 2].map(() => owned('file', startRedis())));
  const [a, b, c] = servers as [RedisServer, RedisServer, RedisServer];
  const tables = ['registry', 'shard_list', 'topic', 'registry_id'];
  let name = '';
  let made = 0;

  /** Two servers and a backup of MySQL, then a third server. `ids`: jobs, some on each server. */
  const startWithBackup = async () => {
    for (const server of servers) await server.ask('FLUSHALL');
    name = `dq${++made}`;
    const args = ['--redis', a.url, '--redis', b.url, '--mysql', await database.createDatabase(name)];
    const daemon = await startDaemon({ args });
    const sink = await startSink(ok);
    await addTopic(daemon, 't', sink.url);
    // Each server gets about a third, at random: its id is new in each run.
    const ids = numbers(100).map((n) => `job-${n}`);
    await push(daemon, ids.slice(0, 20));
    await database.run(`CREATE DATABASE ${name}_backup`);
    for (const table of tables)
      await database.run(`CREATE TABLE ${name}_backup.${table} AS SELECT * FROM ${name}.${table}`);
    expect((await shard(daemon, 'add', c.url)).code).toBe(0);
    await push(daemon, ids.slice(20));
    expect(await jobsOn(c)).toBeGreaterThan(5);
    return { daemon, sink, ids, args };
  };
  const restore = async () => {
    const steps = tables.map(
      (table) =>
        `DELETE FROM ${name}.${table}; INSERT INTO ${name}.${table} SELECT * FROM ${name}_backup.${table};`,
    );
    // A running daemon must not see a part of it.
    await database.run(`START TRANSACTION; ${steps.join(' ')} COMMIT`);
  };
  const push = (daemon: Daemon, ids: readonly string[], expected: readonly number[] = [201]) =>
    forAll(ids, async (id) => {
      const { status, body } = await daemon.push('t', '1', { id, delay: 600_000 });
      expect([id, expected.includes(status) ? 'taken' : body]).toEqual([id, 'taken']);
    });
  const shard = (daemon: Daemon, ...args: string[]) =>
    runDq(['shard', ...args, '--data-dir', daemon.dataDir]);
  const jobsOn = async (server: RedisServer) => Number(await server.ask('HLEN', '{dq:0}:j'));
  const numberOf = async (daemon: Daemon) => (await daemon.api('GET', '/v1/shards')).body.number as number;
  const idOf = async (daemon: Daemon, { port }: RedisServer): Promise<string> =>
    (await daemon.api('GET', '/v1/shards')).body.items.find(({ url }: { url: string }) =>
      url.endsWith(`:${port}`),
    ).id;
  const copyOf = (daemon: Daemon) => copyState(join(daemon.dataDir, 'registry-copy.json'));
  /** Each id lives once, on the shard where reads find it, and is delivered once. */
  const everyJobOnce = async (daemon: Daemon, ids: readonly string[], arrived: () => readonly string[]) => {
    await push(daemon, ids, [200]);
    expect((await Promise.all(servers.map(jobsOn))).reduce((sum, n) => sum + n)).toBe(ids.length);
    await forAll(ids, async (id) => {
      expect((await daemon.api('POST', `/v1/topics/t/jobs/${id}/run`)).status).toBe(200);
    });
    await until('all to be delivered', async () => (await jobsLeft(daemon)) === 0, { everyMs: 50 });
    expect([...arrived()].sort()).toEqual([...ids].sort());
  };

  it('a running instance writes the newer list back, a starting one does so from its copy, also after a time without writes', async () => {
    const { daemon, sink, ids } = await startWithBackup();
    const arrived = () => sink.arrivals.map(({ id }) => id);
    await restore();
    await until('it is logged', () =>
      daemon
        .log('error')
        .some(({ message }) => String(message).includes('went back to an earlier shard list')),
    );
    expect(await numberOf(daemon)).toBe(2);
    await until('the copy is current', () => copyOf(daemon).shards.revision === 3);
    expect(await daemon.stop()).toBe(0);

    await restore();
    // read_only does not stop administrators, so the daemon needs a plain user.
    await database.run(
      'CREATE USER IF NOT EXISTS plain; GRANT ALL ON `dq%`.* TO plain; SET GLOBAL read_only = 1',
    );
    const plain = ['--redis', a.url, '--mysql', database.url(name, 'plain')];
    try {
      const again = await startDaemon({ args: plain, directory: daemon.directory });
      await until('it stores jobs', async () => (await again.push('t', '1', { id: 'now' })).status === 201);
      await until('it was delivered', () => arrived().includes('now'));
      expect(await again.stop()).toBe(0);
    } finally {
      await database.run('SET GLOBAL read_only = 0');
    }
    const again = await startDaemon({ args: plain, directory: daemon.directory });
    expect(await numberOf(again)).toBe(2);
    expect((await shard(again, 'drain', await idOf(again, a), '-y')).code).toBe(0);
    expect(await numberOf(again)).toBe(3);
    await everyJobOnce(again, ids, () => arrived().filter((id) => id !== 'now'));
  });

  it('no instance knows the newer list: adding the servers repairs it, also under another registry', async () => {
    const { daemon, sink, ids, args } = await startWithBackup();
    expect(await daemon.stop()).toBe(0);
    await restore();
    rmSync(join(daemon.dataDir, 'registry-copy.json'));
    const again = await startDaemon({ args, directory: daemon.directory });
    expect((await again.push('t', '1', { id: 'new' })).body).toMatchObject({
      code: 'not_stored',
      detail: expect.stringContaining('stale_list'),
    });
    const remedy = /dq shard add/;
    const unready = await again.api('GET', '/readyz');
    expect([unready.status, unready.body.detail]).toEqual([503, expect.stringMatching(remedy)]);
    expect((await shard(again, 'ls')).stderr).toMatch(remedy);
    // A busy machine takes so long that the health check reports it as well.
    const remedyLines = () =>
      again
        .log('error')
        .filter(({ message, incident }) => remedy.test(String(message)) && incident === undefined);
    await until('it is logged', () => remedyLines().length > 0);
    // Once by each process that meets it.
    const pids = remedyLines().map(({ pid }) => pid);
    expect(pids).toEqual([...new Set(pids)]);
    for (const { url } of servers) expect((await shard(again, 'add', url)).code).toBe(0);
    expect((await again.api('GET', '/readyz')).status).toBe(200);
    expect((await shard(again, 'ls')).stderr).not.toMatch(remedy);
    expect(await again.stop()).toBe(0);

    const id = await database.run(`SELECT id FROM ${name}.registry_id`);
    const url = await database.createDatabase(`${name}_new`);
    // The command of the manual, on the empty tables of `dq migrate`.
    expect((await runDq(['migrate', '--mysql', url])).code).toBe(0);
    const [, statement = ''] = /`(REPLACE INTO registry_id [^`]*)`/.exec(mysqlPage) ?? [];
    const adopted = statement
      .replace('registry_id', `${name}_new.registry_id`)
      .replace(/'\w+'/, `'${id.trim()}'`);
    await database.run(adopted);
    expect(await database.run(`SELECT id FROM ${name}_new.registry_id`)).toBe(id);
    // It also replaces the id that a rejected start drew.
    await database.run(`UPDATE ${name}_new.registry_id SET id = '0123456789abcdef'`);
    await database.run(adopted);
    expect(await database.run(`SELECT id FROM ${name}_new.registry_id`)).toBe(id);
    const all = servers.flatMap((server) => ['--redis', server.url]);
    const other = await startDaemon({ args: [...all, '--mysql', url] });
    await addTopic(other, 't', sink.url);
    await everyJobOnce(other, ids, () => sink.arrivals.map(({ id }) => id));
  });
});
