// Tests the servers of other tests: they have the requested settings, and no process or file outlives their
// starter.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { startRedis, startRedisServers } from '../../scripts/services/redis.ts';
import { startRedisCluster } from '../../scripts/services/redis-cluster.ts';
import { startSentinelGroup } from '../../scripts/services/redis-sentinel.ts';
import { isAlive } from '../support/daemon.ts';
import { lacks, mariadb, owned } from '../support/services.ts';
import { until } from '../support/until.ts';

describe.skipIf(await lacks('redis'))('redis', () => {
  it('serves with its configuration; stop removes process and directory', async () => {
    const server = await owned('test', startRedis({ config: ['maxmemory 7mb', 'requirepass s3cret'] }));
    expect(await server.ask('CONFIG', 'GET', 'maxmemory')).toBe('maxmemory\n7340032');
    expect(server.url).toBe(`redis://:s3cret@127.0.0.1:${server.port}`);
    const { pid, directory } = server.process;
    await server.stop();
    expect([isAlive(pid), existsSync(directory)]).toEqual([false, false]);
  });

  it('restarts after kill -9 with its port and files; a pause loses no reply', async () => {
    const server = await owned('test', startRedis({ config: ['appendonly yes', 'appendfsync always'] }));
    await server.ask('SET', 'a', '1');
    await server.process.kill();
    await expect(server.ask('PING')).rejects.toThrow();
    await server.process.start();
    expect(await server.ask('GET', 'a')).toBe('1');
    await server.process.freeze();
    const answer = server.ask('GET', 'a');
    server.process.thaw();
    expect(await answer).toBe('1');
  });

  it('several are independent', async () => {
    const servers = await startRedisServers(2);
    for (const server of servers) await owned('test', Promise.resolve(server));
    await servers[0]?.ask('SET', 'a', '1');
    expect(await servers[1]?.ask('GET', 'a')).toBe('');
  });

  it('Sentinel group: a replica becomes the master when the master is killed', async () => {
    const group = await owned('test', startSentinelGroup());
    expect(await group.masterPort()).toBe(group.master.port);
    await group.master.process.kill();
    await until(
      'the sentinels name the replica',
      async () => (await group.masterPort()) === group.replicas[0]?.port,
      30_000,
    );
  });

  it('Cluster: every node serves its slots, and a replica takes them over', async () => {
    const cluster = await owned('test', startRedisCluster({ replicas: 1 }));
    const [first, second] = cluster.masters;
    expect(await first?.ask('CLUSTER', 'INFO')).toMatch(/cluster_slots_ok:16384/);
    await first?.process.kill();
    await until(
      'the replica serves them',
      async () => (await cluster.replicas[0]?.ask('ROLE'))?.startsWith('master'),
      30_000,
    );
    await until('the cluster is whole', async () =>
      (await second?.ask('CLUSTER', 'INFO'))?.includes('cluster_state:ok'),
    );
  });
});

describe.skipIf(await lacks('mysql'))('mariadb', () => {
  it('serves, keeps its data through kill -9; stop removes process and directory', async () => {
    const server = await owned('test', mariadb());
    await server.createDatabase('dq');
    await server.run('CREATE TABLE t (x INT) ENGINE=InnoDB; INSERT INTO t VALUES (1)', 'dq');
    await server.process.kill();
    await server.process.start();
    expect(await server.run('SELECT x FROM t', 'dq')).toBe('1\n');
    const { pid, directory } = server.process;
    await server.stop();
    expect([isAlive(pid), existsSync(directory)]).toEqual([false, false]);
  });
});

describe.skipIf(await lacks('redis'))('a starter that is killed', () => {
  it('leaves no server and no directory', async () => {
    const starter = spawn(
      process.execPath,
      ['--import', 'tsx', join(import.meta.dirname, '../support/services-starter.ts')],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    );
    const exited = once(starter, 'exit');
    const [line] = (await once(starter.stdout, 'data')) as [Buffer];
    const { pid, directory } = JSON.parse(line.toString()) as { pid: number; directory: string };
    expect([isAlive(pid), existsSync(directory)]).toEqual([true, true]);
    starter.kill('SIGKILL');
    await exited;
    await until('the server is gone', () => !isAlive(pid));
    await until('its directory is gone', () => !existsSync(dirname(directory)));
  });
});
