// Tests dq on a real MariaDB: several instances on one registry, also while MySQL is unavailable.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Webhook } from 'standardwebhooks';
import { describe, expect, it } from 'vitest';
import { startRedis } from '../../scripts/services/redis.ts';
import { sqlLimits } from '../../src/registry/sql/limits.ts';
import type { Daemon } from '../support/daemon.ts';
import { startDaemon } from '../support/daemon.ts';
import { filesUnder } from '../support/directory.ts';
import { createTopic, forAll, jobsLeft, numbers } from '../support/producing.ts';
import { reload } from '../support/reloading.ts';
import { runDq } from '../support/run-dq.ts';
import { lacks, mariadb, owned } from '../support/services.ts';
import { startSink } from '../support/sink.ts';
import { temporaryDirectory } from '../support/sqlite-store.ts';
import { until } from '../support/until.ts';

/** A secret that may be only in the file that contains it. */
const password = 'pw-canary-0f8e';

describe.skipIf(await lacks('mysql'))('dq on MySQL', async () => {
  const server = await owned('file', mariadb());
  await server.run(`CREATE USER dq IDENTIFIED BY '${password}'; GRANT ALL ON *.* TO dq`);
  let made = 0;
  const newDatabase = async () => {
    if (!server.process.isRunning) await server.process.start();
    await server.createDatabase(`dq${++made}`);
    return server.url(`dq${made}`, 'dq', password);
  };
  const start = (url: string, more: Parameters<typeof startDaemon>[0] = {}) =>
    startDaemon({ ...more, env: { DQ_MYSQL__URL: url, ...more.env } });
  // Tests of an unavailable MySQL keep jobs in Redis: there every process reads the registry id.
  const redis = (await lacks('redis'))
    ? null
    : await owned('file', startRedis({ config: ['appendonly yes'] }));
  const startOnRedis = (url: string, more: Parameters<typeof startDaemon>[0] = {}) =>
    start(url, { ...more, args: redis === null ? [] : ['--redis', `${redis.url}/${made}`] });
  const countsOf = async (daemon: Daemon, name: string) =>
    (await daemon.api('GET', `/v1/topics/${name}/stats`)).body;

  it.skipIf(redis === null)('two instances share topics, jobs and tokens', async () => {
    const sink = await startSink();
    const url = await newDatabase();
    const config = { retry: { unit: '500ms' } };
    const one = await startOnRedis(url, { config });
    const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
    await createTopic(one, {
      topic: 't',
      callbackUrl: sink.url,
      secret,
      concurrency: 10_000,
      timeout: '4s',
    });

    // Without the key of the first there is no second instance.
    const elsewhere = temporaryDirectory();
    const rejected = await runDq(
      ['start', '--port', '0', '--data-dir', elsewhere.path, '--log-dir', elsewhere.path],
      { env: { DQ_MYSQL__URL: url } },
    );
    elsewhere.remove();
    expect([rejected.code, rejected.stderr]).toEqual([
      1,
      expect.stringMatching(/the key file .*secret\.key is missing.*copy it from another dq/),
    ]);
    expect(rejected.stderr).not.toContain(password);

    const secretKeyFile = join(one.dataDir, 'secret.key');
    const two = await startOnRedis(url, { config: { ...config, secretKeyFile } });
    await until('it logs the place of the registry', () =>
      two.output().includes(`registry: MySQL 127.0.0.1:${server.port}/dq${made}`),
    );
    // Changed on one, in force on the other.
    await two.api('PATCH', '/v1/topics/t', { state: 'offline' });
    await until('the change is in force in the first', async () => (await one.push('t', '1')).status === 409);
    await one.api('PATCH', '/v1/topics/t', { state: 'active' });
    const isBack = async () => (await two.push('t', '1', { id: 'back' })).status === 201;
    await until('the change back is in force', isBack);
    const arrival = await until('it arrives', () => sink.arrivals[0]);
    new Webhook(secret).verify(arrival.body, arrival.headers as Record<string, string>);

    const pushToBoth = (part: string) =>
      forAll(numbers(300), async (n) => {
        const { status } = await (n % 2 === 0 ? one : two).push('t', '1', { id: `${part}${n}` });
        expect(status).toBe(201);
      });
    await pushToBoth('alive');
    await until('all have ended', async () => (await jobsLeft(one)) === 0);
    const ids = sink.arrivals.map(({ id, attempt }) => `${id} ${attempt}`);
    const stored = new Set(sink.arrivals.map(({ id }) => id));
    expect([...stored].filter((id) => id.startsWith('alive'))).toHaveLength(300);
    const recovered = () =>
      [one, two]
        .flatMap((daemon) => daemon.log('notice'))
        .filter(({ message }) => message === 'recoverer: recovered jobs')
        .reduce((sum, { returned }) => sum + Number(returned), 0);
    // The log is written some time after the recovery.
    const repeated = ids.length - new Set(ids).size;
    await until(`the recoveries of ${repeated} repeated calls`, () => repeated <= recovered());
    for (const daemon of [one, two])
      await until('both count every job', async () => {
        const { total } = await countsOf(daemon, 't');
        return total.pushed === stored.size && total.delivered === stored.size;
      });
    const acks = ({ log }: Daemon) => log('notify').filter(({ verdict }) => verdict === 'ack').length;
    await until('both have delivered', () => acks(one) > 0 && acks(two) > 0);

    const connections = await server.run(
      `SELECT COUNT(*) FROM information_schema.processlist WHERE db = 'dq${made}'`,
    );
    const processes = one.workers().length + two.workers().length;
    // As mysql.md says: two a process, and four more of an instance for its journal.
    expect(Number(connections)).toBeLessThanOrEqual(sqlLimits.mysqlConnections * processes + 2 * 4);

    const { body: token } = await one.api('POST', '/v1/tokens', {
      ...{ name: 'ops', scopes: ['admin'], topics: ['*'] },
    });
    await until('a token is required', async () => (await one.api('GET', '/v1/topics')).status === 401);
    for (const daemon of [one, two]) expect(await daemon.stop()).toBe(0);
    for (const { path, text } of [one, two].flatMap((each) => filesUnder(each.logDir, each.dataDir)))
      for (const hidden of [password, secret, String(token.token)])
        expect([path, text.includes(hidden)]).toEqual([path, false]);
  });

  it('MySQL frozen, then killed: only changes fail, also after a restart; counters are added later', async () => {
    const sink = await startSink();
    const url = await newDatabase();
    const first = await startOnRedis(url);
    await createTopic(first, { topic: 't', callbackUrl: sink.url });
    expect((await first.push('t', '0')).status).toBe(201);
    await until('it is counted', async () => (await countsOf(first, 't'))?.total?.delivered === 1);
    await until('the copy is written', () =>
      readFileSync(join(first.dataDir, 'registry-copy.json'), 'utf8').includes('"name":"t"'),
    );
    await server.process.freeze();
    try {
      const calls = Array.from({ length: 2 * sqlLimits.mysqlQueueMax }, (_, i) =>
        first.api('PATCH', '/v1/topics/t', { title: String(i) }),
      );
      expect((await first.push('t', '1')).status).toBe(201);
      await until('it is delivered', () => sink.arrivals.length === 2);
      expect(new Set((await Promise.all(calls)).map(({ status }) => status))).toEqual(new Set([503]));
      const { code, stderr } = await reload(first);
      expect(code, stderr).toBe(0);
      expect((await first.push('t', '2')).status).toBe(201);
      await until('the new notifiers deliver it', () => sink.arrivals.length === 3);
    } finally {
      server.process.thaw();
    }
    await server.process.kill();

    expect((await first.push('t', '3')).status).toBe(201);
    await until('it is delivered', () => sink.arrivals.length === 4);
    for (const change of [
      first.api('POST', '/v1/topics', { topic: 'u', callbackUrl: sink.url }),
      first.api('PATCH', '/v1/topics/t', { title: 'x' }),
      first.push('unknown', '1'),
    ])
      expect((await change).status).toBe(503);
    const response = await fetch(`${first.url}/v1/topics/t`, { method: 'DELETE' });
    expect([response.status, response.headers.get('retry-after')]).toEqual([503, '1']);
    expect((await first.api('GET', '/readyz')).body).toMatchObject({
      ready: true,
      warnings: [expect.stringMatching(/registry: .*last known topics stay in force/)],
    });
    await until('the failure is logged', () =>
      first.log('error').some(({ message }) => String(message).includes('cannot refresh topics')),
    );
    expect(await first.stop()).toBe(0);

    const { directory } = first;
    const second = await startOnRedis(url, { directory });
    expect((await second.push('t', '4')).status).toBe(201);
    await until('it is delivered', () => sink.arrivals.length === 5);
    expect((await second.api('PATCH', '/v1/topics/t', { title: 'x' })).status).toBe(503);

    await server.process.start();
    await until(
      'changes are accepted',
      async () => (await second.api('PATCH', '/v1/topics/t', { title: 'x' })).status === 200,
    );
    // Also counters that the first daemon could not record before its end.
    await until('the counters are added', async () => (await countsOf(second, 't'))?.total?.delivered >= 5);
    expect((await countsOf(second, 't')).total).toMatchObject({ pushed: 5, delivered: 5 });
    await until(
      'there is no warning',
      async () => (await second.api('GET', '/readyz')).body.warnings?.length === 0,
    );
  });

  it('dq migrate: creates the schema, prints it, reports an unreachable server', async () => {
    const url = await newDatabase();
    const env = { DQ_MYSQL__URL: url };
    const script = readFileSync(join(import.meta.dirname, '../../sql/mysql/dq.sql'), 'utf8');
    expect((await runDq(['migrate', '--print-sql'])).stdout.trim()).toBe(script.trim());
    const migrate = () => runDq(['migrate'], { env });
    expect(await migrate()).toMatchObject({
      code: 0,
      stderr: expect.stringContaining('went from schema 0 to'),
    });
    expect(await migrate()).toMatchObject({
      code: 0,
      stderr: expect.stringContaining('has schema'),
    });
    expect((await runDq(['migrate'])).code).toBe(78);
    const cwd = temporaryDirectory();
    const doctor = async () => {
      const { code, stdout } = await runDq(['doctor', '--json', '--data-dir', cwd.path], {
        env,
        cwd: cwd.path,
      });
      const findings = JSON.parse(stdout) as { check: string; state: string; about: string }[];
      return { code, of: (check: string) => findings.filter((one) => one.check === check) };
    };
    const well = (await doctor()).of('mysql');
    expect(well.map(({ state }) => state)).toEqual(['ok', 'warning', 'ok']);
    expect(well.map(({ about }) => about).join()).toMatch(
      /answers in .*flush_log_at_trx_commit is 2.*schema \d/,
    );
    await server.run(`UPDATE dq${made}.registry SET key_check = 'v1:AAAA'`);
    expect((await doctor()).of('mysql').at(-1)).toMatchObject({
      state: 'failed',
      about: expect.stringMatching(/secret\.key is missing.*copy it from another dq/),
    });
    const wrong = await runDq(['migrate', '--mysql', server.url(`dq${made}`, 'dq', `${password}x`)]);
    expect([wrong.code, wrong.stderr]).toEqual([75, expect.stringContaining('Access denied')]);
    await server.process.kill();
    const away = await migrate();
    expect([away.code, away.stderr]).toEqual([75, expect.stringContaining('ECONNREFUSED')]);
    expect((await doctor()).code).toBe(75);
    cwd.remove();
    expect(away.stderr + wrong.stderr).not.toContain(password);
    await server.process.start();
  });
});
