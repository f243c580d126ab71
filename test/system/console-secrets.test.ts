// No secret through the console's port or a command: no answer but the one that makes it, no log, no file.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { startRedis } from '../../scripts/services/redis.ts';
import { consolePort, halvesIn, sendTo, sessionAt } from '../support/console.ts';
import { type Daemon, startDaemon } from '../support/daemon.ts';
import { filesUnder } from '../support/directory.ts';
import { runDq } from '../support/run-dq.ts';
import { lacks, owned, workerMariadb } from '../support/services.ts';
import { startSink, status } from '../support/sink.ts';
import { until } from '../support/until.ts';

const password = {
  redis: 'pw-redis-1f0e',
  mysql: 'pw-mysql-2d9c',
  smtp: 'pw-smtp-3b8a',
  shard: 'pw-shard-4c7d',
};
const header = 'Bearer pw-header-5e6f';

interface Seen {
  readonly where: string;
  readonly text: string;
}

const filesOf = ({ dataDir, logDir }: Daemon): readonly Seen[] =>
  filesUnder(dataDir, logDir)
    .filter(({ path }) => !path.endsWith('/secret.key'))
    .map(({ path, text }) => ({ where: path, text }));

describe.skipIf((await lacks('mysql')) || (await lacks('redis')))('the console', () => {
  it('shows no password, token, link, cookie, key or secret of a topic', async () => {
    const mysql = await workerMariadb();
    await mysql.run(`CREATE USER dq IDENTIFIED BY '${password.mysql}'; GRANT ALL ON *.* TO dq`);
    await mysql.createDatabase('secrets');
    const protectedBy = [`requirepass ${password.redis}`, 'appendonly yes'];
    const redis = await owned('test', startRedis({ config: protectedBy }));
    const daemon = await startDaemon({
      console: true,
      config: {
        redis: [redis.url],
        'smtp.url': `smtps://mailer:${password.smtp}@127.0.0.1:9`,
        'smtp.from': 'dq@example.org',
        'alerts.emails': ['ops@example.org'],
        'retry.unit': '10ms',
      },
      env: { DQ_MYSQL__URL: mysql.url('secrets', 'dq', password.mysql) },
    });
    const dq = (...args: readonly string[]) => runDq(args, { env: { DQ_DATA_DIR: daemon.dataDir } });
    const failing = await startSink(status(500, {}, 'no'));
    const port = await consolePort(daemon);
    const settings = ['--callback', failing.url, '--max-attempts', '1', '--header', `x-a: ${header}`];
    const topicSecret = (await dq('topic', 'add', 'a', ...settings)).stdout.trim();
    const token = (await dq('token', 'add', 'me', '--scope', 'admin')).stdout.trim();
    const link = /dql_[\w-]+/.exec((await dq('console')).stdout)?.[0] ?? '';
    const json = { 'content-type': 'application/json' };
    const present = (text: string) => sendTo(port, 'POST', '/v1/session', json, text);
    const admin = await sessionAt(port, { link });
    const sessions = [admin, await sessionAt(port, { token })];
    const seen: Seen[] = [];
    const call = async (method: string, path: string, body?: object, keep = true) => {
      const headers = { ...halvesIn(admin), ...(body === undefined ? {} : json) };
      const reply = await sendTo(port, method, path, headers, body && JSON.stringify(body));
      const text = `${JSON.stringify(reply.headers)} ${reply.body.toString()}`;
      if (keep) seen.push({ where: `${method} ${path}: ${reply.status}`, text });
      return reply;
    };

    const turned = await until('the console knows the topic', async () => {
      const reply = await call('POST', '/v1/topics/a/secret', {}, false);
      return reply.status === 200 ? reply : null;
    });
    await call('POST', '/v1/topics/a/jobs?id=dies', { n: 1 });
    await until('the job is dead', async () => (await call('GET', '/v1/dead')).json.items.length === 1);
    expect((await call('POST', '/v1/topics/a/jobs/dies/request')).status).toBe(200);
    expect((await call('PATCH', '/v1/topics/a', { title: 'A', owner: 'me' })).status).toBe(200);
    const began = await call('POST', '/v1/operations', { kind: 'requeue', filter: { topic: 'a' } });
    expect(began.status).toBe(202);
    const url = `redis://:${password.shard}@127.0.0.1:9`;
    expect((await call('POST', '/v1/shards', { url })).status).toBeGreaterThanOrEqual(400);
    await call('POST', '/v1/alerts/test', { to: 'ops@example.org' });
    // Rejected sign-ins, and secrets where they do not belong.
    for (const body of [{ link }, { token: `${token}x` }, { link, token }, { token: [token] }])
      seen.push({ where: 'sign-in', text: (await present(JSON.stringify(body))).body.toString() });
    const bearer = await sendTo(port, 'GET', '/v1/me', { authorization: `Bearer ${token}` });
    seen.push({ where: 'bearer', text: bearer.body.toString() });
    expect((await call('POST', '/v1/doctor')).status).toBe(202);
    await until('the checks have ended', async () => (await call('GET', '/v1/doctor')).json.endedAt !== null);
    await until('the changes are recorded', async () =>
      (await call('GET', '/v1/audit')).body.includes('createOperation'),
    );
    const { paths } = (await call('GET', '/openapi.json')).json as { paths: Record<string, object> };
    for (const [path, methods] of Object.entries(paths)) {
      const id = path.startsWith('/v1/operations') ? began.json.id : 'dies';
      if ('get' in methods) await call('GET', path.replace('{topic}', 'a').replace('{id}', id));
    }
    // 503 while a process that has the answer is busy.
    for (const path of ['config', 'store', 'audit', 'operations', 'doctor', 'attempts', 'tokens', 'sessions'])
      await until(`${path} is shown`, async () => (await call('GET', `/v1/${path}`)).status === 200);

    for (const args of [
      ...[
        ['topic', 'get', 'a'],
        ['topic', 'get', 'a', '--json'],
        ['topic', 'ls'],
        ['get', 'a', 'dies'],
      ],
      ...[['dead', 'ls'], ['token', 'ls'], ['status'], ['config', 'show']],
    ]) {
      const { stdout, stderr } = await dq(...args);
      seen.push({ where: `dq ${args.join(' ')}`, text: stdout + stderr });
    }

    const hidden = [
      ...Object.values(password),
      ...[topicSecret, turned.json.secret, token, link].map((text: string) =>
        text.replace(/^(whsec|dqk_[0-9a-f]{12}|dql)_/, ''),
      ),
      ...sessions.flatMap(({ cookie, key }) => [cookie.split('=')[1] ?? '', key]),
      readFileSync(join(daemon.dataDir, 'secret.key'), 'utf8').trim().split(':').at(-1) ?? '',
    ];
    for (const text of hidden) expect(text.length).toBeGreaterThan(8);
    const running = filesOf(daemon);
    expect(await daemon.stop()).toBe(0);
    seen.push(...running, ...filesOf(daemon), { where: 'output', text: daemon.output() });
    for (const { where, text } of seen)
      for (const [n, one] of hidden.entries())
        expect(text.includes(one), `${where} shows secret ${n}`).toBe(false);
    // Values of headers: for admin only, and never in a log.
    for (const { where, text } of seen.filter(({ where: one }) => one.startsWith('/')))
      expect(text.includes(header), where).toBe(false);
  });
});
