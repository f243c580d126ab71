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
    until(`${where} names it`, async () => {
      reports[where] = await ask();
      return words.test(reports[where]);
    });
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
  expect(explained.stdout).not.toContain('no job waits for a call');
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

describe.skipIf(await lacks('redis'))('a first start with a wrong Redis', patience, () => {
  it('is named with its address, one error line a kind of process, no stack; then Redis returns', async () => {
    const redis = await owned('test', startRedis({ config: ['requirepass right'] }));
    await redis.process.kill();
    const { port } = redis;
    const env = { DQ_REDIS: `redis://:${password}@127.0.0.1:${port}` };
    const daemon = await startDaemon({ env });
    const unreachable = new RegExp(
      `redis://127\\.0\\.0\\.1:${port}: connect ECONNREFUSED 127\\.0\\.0\\.1:${port}`,
    );
    await expectNamed(daemon, unreachable, env);
    expect(daemon.output()).toMatch(/durability: .*unknown/);
    const lines = errorLines(daemon);
    expect(lines.filter(({ stack }) => stack !== undefined)).toEqual([]);
    const ofOutage = lines.filter(({ message }) =>
      message.startsWith('shards: cannot write the first shard list'),
    );
    const kinds = ofOutage.map((line) => line.process.replace(/-\d+$/, ''));
    expect(kinds.length).toBeGreaterThan(0);
    expect(kinds.sort()).toEqual([...new Set(kinds)]);
    await expectNoJobs(daemon, unreachable);

    // The words of Redis are repeated. NOAUTH and SELECT: role/redis-connection.
    await redis.process.start();
    await expectNamed(daemon, /redis:\/\/127\.0\.0\.1:\d+: WRONGPASS /, env);
    await redis.ask('ACL', 'SETUSER', 'default', `>${password}`);
    await until(
      'a push is stored',
      async () => (await daemon.push('t', '1', { delay: '1h' })).status === 201,
    );
    await until('the log names its durability', () =>
      daemon.log('notice').some((line) => String(line['durability']).includes('Redis in memory only')),
    );
    await until('dq status shows it', async () => {
      const { stderr } = await runDq(['status', '--data-dir', daemon.dataDir]);
      return /durability: Redis in memory only.*; warning: /.test(stderr) && !stderr.includes('unknown');
    });
  });
});

describe.skipIf(await lacks('mysql'))('a first start with a wrong MySQL', patience, () => {
  it('frozen, another password, no such database: each reason is named; then dq works', async () => {
    const server = await owned('test', mariadb());
    await server.run(`CREATE USER dq IDENTIFIED BY 'right'`);
    await server.process.freeze();
    const env = { DQ_MYSQL__URL: `mysql://dq:${password}@127.0.0.1:${server.port}/unknown` };
    const daemon = await startDaemon({ env });
    await until('the first reason is printed', () => /not ready: .*no answer/.test(daemon.output()));
    expect(daemon.output()).not.toContain('ready in');
    server.process.thaw();
    await expectNamed(daemon, /Access denied for user 'dq'@/, env);
    const dq = (...args: string[]) => runDq([...args, '--data-dir', daemon.dataDir]);
    const topic = ['topic', 'add', 't', '--callback', 'http://127.0.0.1:9/'];
    for (const [args, says] of [
      [['token', 'ls'], 'MySQL: unavailable (access_denied)'],
      [topic, 'MySQL: nothing was changed (access_denied)'],
    ] as const) {
      const { code, stderr } = await dq(...args);
      expect([code, stderr]).toEqual([
        1,
        expect.stringContaining(`${says}; a repeat does not help: \`dq doctor\` names the cause`),
      ]);
    }
    await server.run(`ALTER USER dq IDENTIFIED BY '${password}'; GRANT ALL ON known.* TO dq`);
    await expectNamed(
      daemon,
      /Access denied for user 'dq'@.* to database 'unknown'|Unknown database 'unknown'/,
      env,
    );
    await server.run('CREATE DATABASE unknown; GRANT ALL ON unknown.* TO dq');
    await until('it reports that it is ready', () => /^ready in \d+ ms$/m.test(daemon.output()));
    await until('a topic can be created', async () => (await dq(...topic)).code === 0);
    await until('it stores jobs', async () => (await daemon.push('t', '1', { delay: '1h' })).status === 201);
  });
});
