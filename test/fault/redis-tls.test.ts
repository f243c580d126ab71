// TLS to every server of a Sentinel group and of a Cluster, passwords of sentinels, and what dq doctor prints
// when a server on the way cannot be used.
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type RedisServer, startRedis } from '../../scripts/services/redis.ts';
import { startRedisCluster } from '../../scripts/services/redis-cluster.ts';
import { startSentinel, startSentinelGroup } from '../../scripts/services/redis-sentinel.ts';
import { type Authority, createAuthority, noCertificates } from '../support/certificates.ts';
import { type Daemon, startDaemon } from '../support/daemon.ts';
import { testDirectory } from '../support/directory.ts';
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

describe.skipIf((await lacks('redis')) || noCertificates !== null)('Redis with TLS', () => {
  let authority: Authority;
  beforeAll(() => {
    authority = createAuthority(afterAll);
  });

  /** the findings of dq doctor about Redis, each without the address itself */
  async function doctor(url: string, env: Readonly<Record<string, string>> = {}) {
    const cwd = testDirectory();
    const args = ['doctor', '--json', '--data-dir', join(cwd, 'data')];
    const run = await runDqProcess(args, { cwd, env: { DQ_REDIS: url, DQ_SERVER__PORT: '0', ...env } });
    const findings = JSON.parse(run.stdout) as { check: string; state: string; about: string }[];
    return {
      code: run.code,
      failed: findings
        .filter(({ check, state }) => check === 'redis' && state === 'failed')
        .map(({ about }) => about.replace(/^rediss?(\+\w+)?:\/\/\S+: /, '')),
      warnings: findings.filter(({ state }) => state === 'warning').map(({ about }) => about),
      text: run.stdout,
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
    const at = (login: string, query: string) => `rediss+sentinel://${login}${places}/${name}${query}`;
    const login = ':master-canary@';
    const full = at(login, '?sentinelPassword=sentinel-canary&servername=redis.test');
    const sentinel = `sentinel 127.0.0.1:${first.port}`;
    const namedMaster = new RegExp(
      `^master 127\\.0\\.0\\.1:${master.port}, named by sentinel 127\\.0\\.0\\.1:\\d+: `,
    );

    expect((await doctor(full, trusting())).failed).toEqual([]);
    // A sentinel that accepts connections only leaves the next one time to answer.
    const silent = createServer();
    await new Promise<void>((listens) => silent.listen(0, '127.0.0.1', listens));
    const { port } = silent.address() as AddressInfo;
    const behindSilent = full.replace(places, `127.0.0.1:${port},${places}`);
    expect((await doctor(behindSilent, trusting())).failed).toEqual([]);
    silent.close();
    expect((await doctor(full)).failed).toEqual([
      `${sentinel}: certificate of an unknown authority; start dq with NODE_EXTRA_CA_CERTS=FILE`,
    ]);
    expect((await doctor(at(login, '?sentinelPassword=sentinel-canary'), trusting())).failed).toEqual([
      `${sentinel}: the certificate is for redis.test; if that is this server, add &servername=redis.test`,
    ]);
    expect((await doctor(at(login, '?servername=redis.test'), trusting())).failed).toEqual([
      `${sentinel}: needs a password; add &sentinelPassword=`,
    ]);
    const wrongOfSentinel = '?sentinelPassword=wrong-canary&servername=redis.test';
    expect((await doctor(at(login, wrongOfSentinel), trusting())).failed).toEqual([
      `${sentinel}: WRONGPASS invalid username-password pair or user is disabled; correct sentinelPassword`,
    ]);
    const [wrong] = (await doctor(full.replace('master-canary', 'wrong-canary'), trusting())).failed;
    expect(wrong).toMatch(namedMaster);
    expect(wrong?.replace(namedMaster, '')).toBe(
      'WRONGPASS invalid username-password pair or user is disabled; correct the user and password of the address',
    );
    const [without] = (await doctor(full.replace(login, ''), trusting())).failed;
    expect(without?.replace(namedMaster, '')).toBe(
      'needs a password; write :password@ before the first host of the address',
    );
    const [unknown] = (await doctor(full.replace(`/${name}?`, '/other?'), trusting())).failed;
    expect(unknown).toBe(
      `${sentinel}: knows no master other; end the address with the name that the sentinels use`,
    );
    const unchecked = await doctor(`${full}&tls.rejectUnauthorized=false`);
    expect(unchecked.failed).toEqual([]);
    expect(unchecked.warnings.join('\n')).toMatch(
      /redis: dq does not check the certificates of rediss\+sentinel:\S+ \(tls\.rejectUnauthorized=false\)/,
    );
    expect(unchecked.text).not.toContain('canary');

    const daemon = await startDaemon({ args: ['--redis', full], env: trusting() });
    await survives(daemon, master, group.replicas[0] as RedisServer);
    expect(daemon.output() + errorsOf(daemon)).not.toContain('canary');
  });

  it('Sentinel without TLS, and a master with it: doctor names the parameter', async () => {
    const server = await owned('test', startRedis({ certificate: authority.sign('IP:127.0.0.1').files }));
    const config = [`sentinel monitor dq 127.0.0.1 ${server.port} 1`];
    const sentinel = await owned('test', startSentinel(config));
    const url = `rediss+sentinel://127.0.0.1:${sentinel.port}/dq`;
    expect((await doctor(url, trusting())).failed).toEqual([
      expect.stringMatching(
        new RegExp(
          `^sentinel 127.0.0.1:${sentinel.port}: .* TLS handshake.*; if it serves no TLS, add \\?sentinelTls=false$`,
        ),
      ),
    ]);
    expect((await doctor(`${url}?sentinelTls=false`, trusting())).failed).toEqual([]);
    expect((await doctor(url.replace('rediss', 'redis'))).failed).toEqual([
      expect.stringMatching(
        /^master \S+, named by sentinel \S+: read ECONNRESET; if it serves TLS, begin the address with rediss$/,
      ),
    ]);
    await server.process.kill();
    expect((await doctor(`${url}?sentinelTls=false`, trusting())).failed).toEqual([
      `master 127.0.0.1:${server.port}, named by sentinel 127.0.0.1:${sentinel.port}: connect ECONNREFUSED 127.0.0.1:${server.port}; start it, or let the sentinels name an address that this machine reaches (replica-announce-ip)`,
    ]);
    await sentinel.process.kill();
    expect((await doctor(`${url}?sentinelTls=false`)).failed).toEqual([
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
    const node = /^node localhost:\d+: /;
    const fault = async (at: string, env?: Readonly<Record<string, string>>) => {
      const [first = ''] = (await doctor(at, env)).failed;
      expect(first).toMatch(node);
      return first.replace(node, '');
    };
    expect((await doctor(url, trusting())).failed).toEqual([]);
    expect(await fault(url)).toBe(
      'certificate of an unknown authority; start dq with NODE_EXTRA_CA_CERTS=FILE',
    );
    expect(await fault(url.replace('canary', 'wrong-canary'), trusting())).toBe(
      'WRONGPASS invalid username-password pair or user is disabled; correct the user and password of the address',
    );
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
    expect((await doctor(url, trusting())).failed).toEqual([fault]);
    expect((await doctor(`${url}?servername=localhost`, trusting())).failed).toEqual([]);
    const daemon = await startDaemon({ args: ['--redis', url], env: trusting() });
    await until('the error log names it', () => errorsOf(daemon).includes(fault));
  });

  it('one server: doctor names the port without TLS, the port with it, and a wanted certificate', async () => {
    const plain = await owned('test', startRedis());
    const { files } = authority.sign('DNS:redis.test,DNS:other.test');
    const secured = await owned('test', startRedis({ certificate: files }));
    expect((await doctor(plain.url.replace('redis', 'rediss'), trusting())).failed).toEqual([
      expect.stringMatching(/TLS handshake.*; if it serves no TLS at this port, correct the port, or begin /),
    ]);
    expect((await doctor(secured.url.replace('rediss', 'redis'))).failed).toEqual([
      'read ECONNRESET; if it serves TLS, begin the address with rediss',
    ]);
    expect((await doctor(secured.url, trusting())).failed).toEqual([
      'the certificate is for redis.test, other.test; if that is this server, add ?servername=redis.test',
    ]);
    expect((await doctor(`${secured.url}?servername=third.test`, trusting())).failed).toEqual([
      'the certificate is for redis.test, other.test, not for third.test; correct servername, or the certificate of that server',
    ]);
    expect((await doctor(`${secured.url}?servername=other.test`, trusting())).failed).toEqual([]);
    await secured.ask('CONFIG', 'SET', 'tls-auth-clients', 'yes');
    expect((await doctor(`${secured.url}?servername=redis.test`, trusting())).failed).toEqual([
      'wants a certificate of its client, which dq does not have; set tls-auth-clients optional on that server',
    ]);
  });
});
