// Tests a first start with a wrong Redis or MySQL configuration: start, /readyz, dq status and dq doctor name
// the server, repeat its error, and show no password.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { startRedis } from '../../scripts/services/redis.ts';
import { type Daemon, startDaemon } from '../support/daemon.ts';
import { runDq } from '../support/run-dq.ts';
import { lacks, mariadb, owned } from '../support/services.ts';
import { until } from '../support/until.ts';

const patience = { timeout: 180_000 };
const password = 'pw-canary-77';

/** Every report about the daemon contains the words. */
async function expectNamed(daemon: Daemon, words: RegExp, env: Record<string, string> = {}): Promise<void> {
  const reports: Record<string, string> = {};
  await until('start has printed it', () => words.test(daemon.output()));
  reports['start'] = daemon.output();
  const { adminToken } = JSON.parse(readFileSync(join(daemon.dataDir, 'run/dq.json'), 'utf8'));
  // A daemon that stands still meanwhile names no reason: it is asked again.
  const named = (where: string, ask: () => Promise<string>) =>
    until(
      `${where} names it`,
      async () => {
        reports[where] = await ask();
        return words.test(reports[where]);
      },
      60_000,
    );
  await named('readyz', async () => {
    const reply = await fetch(`${daemon.url}/readyz`, { headers: { authorization: `Bearer ${adminToken}` } });
    expect(reply.status).toBe(503);
    return await reply.text();
  });
  await named('status', async () => {
    const { stderr } = await runDq(['status', '--data-dir', daemon.dataDir]);
    expect(stderr).toMatch(/^dq \S+: not ready, up /);
    return stderr;
  });
  await named('status --json', async () => {
    const { stdout } = await runDq(['status', '--json', '--data-dir', daemon.dataDir]);
    return JSON.parse(stdout).notReady;
  });
  const doctor = await runDq(['doctor', '--data-dir', daemon.dataDir], {
    env: { ...env, DQ_LOGDIR: daemon.logDir },
  });
  expect(doctor.code).not.toBe(0);
  reports['doctor'] = doctor.stdout + doctor.stderr;
  for (const [where, text] of Object.entries(reports)) {
    expect(text, where).toMatch(words);
    expect(text, where).not.toContain(password);
    expect(text, where).not.toContain('dq shard add');
  }
}

/** Each command that needs the jobs fails with the words, and `dq explain TOPIC` names them as the reason. */
async function expectNoJobs(daemon: Daemon, words: RegExp): Promise<void> {
  const dq = (...args: string[]) => runDq([...args, '--data-dir', daemon.dataDir]);
  expect(await dq('topic', 'add', 't', '--callback', 'http://127.0.0.1:9/')).toMatchObject({ code: 0 });
  expect(await dq('topic', 'add', 'pulled', '--pull')).toMatchObject({ code: 0 });
  const explained = await dq('explain', 't');
  expect(explained.stdout + explained.stderr).toMatch(words);
  expect(explained.stdout).not.toContain('no job of the topic is ready');
  const { adminToken } = JSON.parse(readFileSync(join(daemon.dataDir, 'run/dq.json'), 'utf8'));
  const store = await fetch(`${daemon.url}/v1/store`, { headers: { authorization: `Bearer ${adminToken}` } });
  expect(await store.json()).toMatchObject({
    ...{ kind: 'redis', ok: false, shards: [], warnings: [expect.stringMatching(words)] },
  });
  for (const args of [
    ['ls'],
    ['ls', '--state', 'done'],
    ['get', 't', 'a'],
    ['explain', 't', 'a'],
    ['dead', 'ls'],
    ['dead', 'requeue', 't'],
    ['alerts'],
    ['pull', 'pulled'],
    ['push', 't', '{}'],
    ['cancel', 't', 'a'],
    ['run', 't', 'a'],
    ['fsck'],
    ['topic', 'rm', 't', '-y'],
    ['topic', 'rm', 't', '--purge', '-y'],
  ]) {
    const { code, stdout, stderr } = await dq(...args);
    expect({ args, isDone: code === 0, stdout, stderr }).toEqual({
      ...{ args, isDone: false, stdout: '', stderr: expect.stringMatching(words) },
    });
  }
}

function errorLines(daemon: Daemon): { process: string; message: string; stack?: string }[] {
  return readdirSync(daemon.logDir)
    .filter((name) => name.startsWith('error-'))
    .flatMap((name) => readFileSync(join(daemon.logDir, name), 'utf8').trimEnd().split('\n'))
    .map((line) => JSON.parse(line));
}

it(
  'Redis on a wrong port: named with its address, one error line a kind of process, no stack',
  patience,
  async () => {
    const url = `redis://:${password}@127.0.0.1:1`;
    const env = { DQ_REDIS: url };
    const daemon = await startDaemon({ env });
    await expectNamed(daemon, /redis:\/\/127\.0\.0\.1:1: connect ECONNREFUSED 127\.0\.0\.1:1/, env);
    const lines = errorLines(daemon);
    expect(lines.filter(({ stack }) => stack !== undefined)).toEqual([]);
    const ofOutage = lines.filter(({ message }) =>
      message.startsWith('shards: cannot write the first shard list'),
    );
    const kinds = ofOutage.map((line) => line.process.replace(/-\d+$/, ''));
    expect(kinds.length).toBeGreaterThan(0);
    expect(kinds.sort()).toEqual([...new Set(kinds)]);
    await expectNoJobs(daemon, /redis:\/\/127\.0\.0\.1:1: connect ECONNREFUSED 127\.0\.0\.1:1/);
  },
);

describe.skipIf(await lacks('redis'))('a Redis with a password', patience, () => {
  it.each([
    ['a wrong one', `:${password}@`, /redis:\/\/127\.0\.0\.1:\d+: WRONGPASS /],
    ['none', '', /redis:\/\/127\.0\.0\.1:\d+: NOAUTH /],
    ['a database that it does not have', ':right@', /redis:\/\/127\.0\.0\.1:\d+\/99: SELECT 99: ERR /, '/99'],
  ])('and %s in the configuration: its words are repeated', async (_, login, words, path = '') => {
    const redis = await owned('test', startRedis({ config: ['requirepass right'] }));
    const { port } = new URL(redis.url);
    const env = { DQ_REDIS: `redis://${login}127.0.0.1:${port}${path}` };
    const daemon = await startDaemon({ env });
    await expectNamed(daemon, words, env);
    await expectNoJobs(daemon, words);
  });
});

describe.skipIf(await lacks('mysql'))('MySQL', patience, () => {
  it('unknown user or database: dq repeats the error of MySQL', async () => {
    const server = await owned('test', mariadb());
    await server.run(`CREATE USER dq IDENTIFIED BY 'right'; GRANT ALL ON known.* TO dq`);
    for (const [login, words] of [
      [`dq:${password}`, /Access denied for user 'dq'@/],
      ['dq:right', /Access denied for user 'dq'@.* to database 'unknown'|Unknown database 'unknown'/],
    ] as const) {
      const env = { DQ_MYSQL__URL: `mysql://${login}@127.0.0.1:${server.port}/unknown` };
      const daemon = await startDaemon({ env });
      await expectNamed(daemon, words, env);
      await daemon.stop();
    }
  });

  it('MySQL is frozen at first, then rejects the password: both reasons are printed', async () => {
    const server = await owned('test', mariadb());
    await server.run(`CREATE USER dq IDENTIFIED BY 'right'`);
    await server.process.freeze();
    const env = { DQ_MYSQL__URL: `mysql://dq:${password}@127.0.0.1:${server.port}/unknown` };
    const daemon = await startDaemon({ env });
    await until('the first reason is printed', () => /not ready: .*no answer/.test(daemon.output()));
    server.process.thaw();
    await expectNamed(daemon, /Access denied for user 'dq'@/, env);
    await server.run(`CREATE DATABASE unknown; ALTER USER dq IDENTIFIED BY '${password}'`);
    await server.run('GRANT ALL ON unknown.* TO dq');
    await until('it reports that it is ready', () => /^dq: ready$/m.test(daemon.output()));
  });
});
