// TLS to every server of a Sentinel group and of a Cluster, passwords of sentinels, and what dq doctor prints
// when a server on the way cannot be used. The words of each failure: unit/redis-hops.
import { createServer } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type RedisServer, startRedis } from '../../scripts/services/redis.ts';
import { startRedisCluster } from '../../scripts/services/redis-cluster.ts';
import { startSentinel, startSentinelGroup } from '../../scripts/services/redis-sentinel.ts';
import { type Authority, createAuthority, noCertificates } from '../support/certificates.ts';
import { type Daemon, startDaemon } from '../support/daemon.ts';
import { testDirectory } from '../support/directory.ts';
import { listening } from '../support/listening.ts';
import { addTopic, forAll, numbers, pauseTopic, resumeTopic } from '../support/producing.ts';
import { untilEmptyAndWhole } from '../support/redis-trouble.ts';
import { runDqProcess } from '../support/run-dq.ts';
import { lacks, owned } from '../support/services.ts';
import { ok, startSink } from '../support/sink.ts';
import { until } from '../support/until.ts';

const paused = 40;

const errorsOf = (daemon: Daemon): string =>
  daemon
    .log('error')
    .map((line) => JSON.stringify(line))
    .join('\n');

/** Stores jobs, ends `master` when `replica` has its writes, and delivers these and later ones. */
async function survives(daemon: Daemon, master: RedisServer, replica: RedisServer): Promise<void> {
  const sink = await startSink(ok);
  await addTopic(daemon, 't', sink.url);
  await pauseTopic(daemon, 't');
  const ids = numbers(paused).map(String);
  await forAll(ids, async (id) => expect((await daemon.push('t', '1', { id })).status).toBe(201));
  const offset = async (server: RedisServer, field: string) =>
    Number(new RegExp(`^${field}:(\\d+)`, 'm').exec(await server.ask('INFO', 'replication'))?.[1]);
  const written = await offset(master, 'master_repl_offset');
  await until('the replica has all', async () => (await offset(replica, 'slave_repl_offset')) >= written);
  await master.process.kill();
  await until('the replica is the master', async () => (await replica.ask('ROLE')).startsWith('master'));
  await forAll(ids, (id) =>
    until(
      'a push is stored',
      async () => (await daemon.push('t', '1', { id: `after-${id}` })).status === 201,
    ),
  );
  await resumeTopic(daemon, 't');
  await until('all are delivered', () => new Set(sink.arrivals.map(({ id }) => id)).size === 2 * paused);
  await untilEmptyAndWhole(daemon);
}

const wrongPassword = 'WRONGPASS invalid username-password pair or user is disabled; correct';
const unknownAuthority = 'certificate of an unknown authority; start dq with NODE_EXTRA_CA_CERTS=FILE';

describe.skipIf((await lacks('redis')) || noCertificates !== null)('Redis with TLS', () => {
  let authority: Authority;
  beforeAll(() => {
    authority = createAuthority(afterAll);
  });

  /** What a dq doctor that checks all these addresses finds about Redis: `failed` has the words about each
   *  that it cannot use, in their order, without the address itself. */
  async function doctor(urls: readonly string[], env: Readonly<Record<string, string>> = trusting()) {
    const cwd = testDirectory();
    const args = ['doctor', '--json', '--data-dir', join(cwd, 'data')];
    const redis = { DQ_REDIS: urls.join(','), DQ_SERVER__PORT: '0' };
    const { stdout } = await runDqProcess(args, { cwd, env: { ...redis, ...env } });
    const findings = JSON.parse(stdout) as { check: string; state: string; about: string }[];
    return {
      failed: findings
        .filter(({ check, state }) => check === 'redis' && state === 'failed')
        .map(({ about }) => about.replace(/^rediss?(\+\w+)?:\/\/\S+: /, '')),
      warnings: findings.filter(({ state }) => state === 'warning').map(({ about }) => about),
      stdout,
    };
  }
  const trusting = () => ({ NODE_EXTRA_CA_CERTS: authority.path });

  it('Sentinel with passwords and TLS: a failover loses no job; doctor names what is wrong', async () => {
    const config = ['requirepass master-canary', 'masterauth master-canary'];
    const group = await owned(
      'test',
      startSentinelGroup({
        config,
        sentinelConfig: ['requirepass sentinel-canary', 'sentinel sentinel-pass sentinel-canary'],
        certificate: authority.sign('DNS:redis.test').files,
      }),
    );
    const { name, sentinels, master } = group;
    const places = sentinels.map(({ port }) => `127.0.0.1:${port}`).join(',');
    const [first] = sentinels as [RedisServer];
    const at = (query: string) => `rediss+sentinel://${login}${places}/${name}${query}`;
    const login = ':master-canary@';
    const full = at('?sentinelPassword=sentinel-canary&servername=redis.test');
    const sentinel = `sentinel 127.0.0.1:${first.port}`;
    const ofMaster = (words: string) =>
      expect.stringMatching(
        new RegExp(
          `^master 127\\.0\\.0\\.1:${master.port}, named by sentinel 127\\.0\\.0\\.1:\\d+: ${words}$`,
        ),
      );

    // A sentinel that accepts connections only leaves the next one time to answer.
    const port = await listening(createServer());
    const checked = await doctor([
      full,
      full.replace(places, `127.0.0.1:${port},${places}`),
      `${full}&tls.rejectUnauthorized=false`,
      at('?sentinelPassword=sentinel-canary'),
      at('?servername=redis.test'),
      at('?sentinelPassword=wrong-canary&servername=redis.test'),
      full.replace('master-canary', 'wrong-canary'),
      full.replace(login, ''),
      full.replace(`/${name}?`, '/other?'),
    ]);
    expect(checked.failed).toEqual([
      `${sentinel}: the certificate is for redis.test; if that is this server, add &servername=redis.test`,
      `${sentinel}: needs a password; add &sentinelPassword=`,
      `${sentinel}: ${wrongPassword} sentinelPassword`,
      ofMaster(`${wrongPassword} the user and password of the address`),
      ofMaster('needs a password; write :password@ before the first host of the address'),
      `${sentinel}: knows no master other; end the address with the name that the sentinels use`,
    ]);
    expect(checked.warnings.join('\n')).toMatch(
      /redis: dq does not check the certificates of rediss\+sentinel:\S+ \(tls\.rejectUnauthorized=false\)/,
    );
    expect(checked.stdout).not.toContain('canary');
    expect((await doctor([full], {})).failed).toEqual([`${sentinel}: ${unknownAuthority}`]);

    const daemon = await startDaemon({ args: ['--redis', full], env: trusting() });
    await survives(daemon, master, group.replicas[0] as RedisServer);
    expect(daemon.output() + errorsOf(daemon)).not.toContain('canary');
  });

  it('Sentinel without TLS, and a master with it: doctor names the parameter', async () => {
    const server = await owned('test', startRedis({ certificate: authority.sign('IP:127.0.0.1').files }));
    const config = [`sentinel monitor dq 127.0.0.1 ${server.port} 1`];
    const sentinel = await owned('test', startSentinel(config));
    const url = `rediss+sentinel://127.0.0.1:${sentinel.port}/dq`;
    const right = `${url}?sentinelTls=false`;
    expect((await doctor([url, right, url.replace('rediss', 'redis')])).failed).toEqual([
      expect.stringMatching(
        new RegExp(
          `^sentinel 127.0.0.1:${sentinel.port}: .* TLS handshake.*; if it serves no TLS, add \\?sentinelTls=false$`,
        ),
      ),
      expect.stringMatching(
        /^master \S+, named by sentinel \S+: read ECONNRESET; if it serves TLS, begin the address with rediss$/,
      ),
    ]);
    await server.process.kill();
    expect((await doctor([right])).failed).toEqual([
      `master 127.0.0.1:${server.port}, named by sentinel 127.0.0.1:${sentinel.port}: connect ECONNREFUSED 127.0.0.1:${server.port}; start it, or let the sentinels name an address that this machine reaches (replica-announce-ip)`,
    ]);
    await sentinel.process.kill();
    expect((await doctor([right])).failed).toEqual([
      `sentinel 127.0.0.1:${sentinel.port}: connect ECONNREFUSED 127.0.0.1:${sentinel.port}; start it, or correct the address`,
    ]);
  });

  it('Cluster with announced names and TLS: a failover loses no job; doctor names what is wrong', async () => {
    const names = ['cluster-announce-hostname localhost', 'cluster-preferred-endpoint-type hostname'];
    const config = [...names, 'requirepass canary', 'masterauth canary'];
    const certificate = authority.sign('DNS:localhost').files;
    const cluster = await owned('test', startRedisCluster({ replicas: 1, config, certificate }));
    const [master] = cluster.masters as [RedisServer];
    const [replica] = cluster.replicas as [RedisServer];
    const places = cluster.masters.map(({ port }) => `localhost:${port}`).join(',');
    const url = `rediss+cluster://:canary@${places}`;
    const node = (words: string) => expect.stringMatching(new RegExp(`^node localhost:\\d+: ${words}$`));
    // Each node that dq asked.
    expect((await doctor([url], {})).failed[0]).toEqual(node(unknownAuthority));
    expect((await doctor([url.replace('rediss', 'redis')])).failed).toEqual([
      node('(read|write) ECONNRESET; if it serves TLS, begin the address with rediss'),
    ]);
    const [wrong, ...others] = (await doctor([url.replace('canary', 'wrong-canary'), url])).failed;
    expect([wrong, others.filter((about) => !about.includes('WRONGPASS'))]).toEqual([
      node(`${wrongPassword} the user and password of the address`),
      [],
    ]);
    const daemon = await startDaemon({ args: ['--redis', url], env: trusting() });
    await survives(daemon, master, replica);
    expect(daemon.output() + errorsOf(daemon)).not.toContain('canary');
  });

  it('Cluster that names its nodes by IP: doctor names the parameter; the error log, too', async () => {
    const certificate = authority.sign('DNS:localhost').files;
    const cluster = await owned('test', startRedisCluster({ masters: 1, certificate }));
    const [{ port }] = cluster.masters as [RedisServer];
    const url = `rediss+cluster://localhost:${port}`;
    const fault = `node 127.0.0.1:${port}: the certificate is for localhost; if that is this server, add ?servername=localhost`;
    expect((await doctor([url, `${url}?servername=localhost`])).failed).toEqual([fault]);
    const daemon = await startDaemon({ args: ['--redis', url], env: trusting() });
    await until('the error log names it', () => errorsOf(daemon).includes(fault));
  });

  it('one server: doctor names the port without TLS, the port with it, and a wanted certificate', async () => {
    const plain = await owned('test', startRedis());
    const { files } = authority.sign('DNS:redis.test,DNS:other.test');
    const secured = await owned('test', startRedis({ certificate: files }));
    const { failed } = await doctor([
      plain.url.replace('redis', 'rediss'),
      secured.url.replace('rediss', 'redis'),
      secured.url,
      `${secured.url}?servername=third.test`,
      `${secured.url}?servername=other.test`,
    ]);
    expect(failed).toEqual([
      expect.stringMatching(/TLS handshake.*; if it serves no TLS at this port, correct the port, or begin /),
      'read ECONNRESET; if it serves TLS, begin the address with rediss',
      'the certificate is for redis.test, other.test; if that is this server, add ?servername=redis.test',
      'the certificate is for redis.test, other.test, not for third.test; correct servername, or the certificate of that server',
    ]);
    await secured.ask('CONFIG', 'SET', 'tls-auth-clients', 'yes');
    expect((await doctor([`${secured.url}?servername=redis.test`])).failed).toEqual([
      'wants a certificate of its client, which dq does not have; set tls-auth-clients optional on that server',
    ]);
  });
});
