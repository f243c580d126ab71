// Tests a daemon on several Redis: commands that add and remove shards, and a dead one beside others. A
// frozen one: role/notifier-shards and conformance/redis-shards.

import { describe, expect, it } from 'vitest';
import { startRedis, startRedisServers } from '../../scripts/services/redis.ts';
import { type Daemon, startDaemon } from '../support/daemon.ts';
import { addTopic, forAll, numbers } from '../support/producing.ts';
import { reload, writeConfig } from '../support/reloading.ts';
import { runDq } from '../support/run-dq.ts';
import { lacks, owned } from '../support/services.ts';
import { ok, startSink } from '../support/sink.ts';
import { until } from '../support/until.ts';

const shard = async (daemon: Daemon, ...args: string[]) => {
  const run = await runDq(['shard', ...args, '--json', '--data-dir', daemon.dataDir]);
  return { ...run, json: run.stdout === '' ? null : JSON.parse(run.stdout) };
};

const jobsOf = async (daemon: Daemon, topic: string) => {
  const { delayed, ready, reserved } = (await daemon.api('GET', `/v1/topics/${topic}/stats`)).body.states;
  return delayed + ready + reserved;
};

describe.skipIf(await lacks('redis'))('dq on several Redis', () => {
  it('shards added, drained and removed by command: no job is lost, doubled or missing', async () => {
    const a = await owned('test', startRedis());
    const b = await owned('test', startRedis());
    const c = await owned('test', startRedis({ config: ['requirepass geheim'] }));
    const sink = await startSink(ok);
    const urls = [a.url, b.url];
    // Alerts about a topic that follow the first one wait for its end.
    const daemon = await startDaemon({ config: { redis: urls, 'alerts.window': '1s' } });
    await addTopic(daemon, 't', sink.url);
    const acknowledged = new Set<string>();
    const push = async (ids: readonly string[], delay: number) =>
      forAll(ids, async (id) => {
        const reply = await daemon.push('t', `"${id}"`, { id, delay });
        expect([reply.status, id]).toEqual([reply.status === 200 ? 200 : 201, id]);
        acknowledged.add(id);
      });
    const ids = numbers(200).map(String);
    await push(ids, 600_000);
    expect((await shard(daemon, 'ls')).json).toMatchObject({
      number: 1,
      items: [
        { url: urls[0], state: 'active', jobs: expect.any(Number), trouble: null },
        { url: urls[1], state: 'active' },
      ],
    });

    for (const url of ['redis://127.0.0.1:1', 'redis+sentinel://127.0.0.1:1/dq'])
      expect(await shard(daemon, 'add', url)).toMatchObject({ code: 75, stdout: '' });
    const callbackUrl = `http://127.0.0.1:${c.port}/`;
    await addTopic(daemon, 'own', callbackUrl, { maxAttempts: 1 });
    const added = await shard(daemon, 'add', c.url);
    expect([added.code, added.json?.url]).toEqual([0, `redis://127.0.0.1:${c.port}`]);
    expect(added.stdout + added.stderr + daemon.output()).not.toContain('geheim');
    // Its port is an own one now, also for a topic that called it before.
    const refused = await daemon.api('POST', '/v1/topics', { topic: 'u', callbackUrl });
    expect(JSON.stringify([refused.status, refused.body])).toMatch(/^\[4\d\d,.*own endpoints/);
    await until('no callback goes there', async () => {
      await daemon.push('own', '1');
      return daemon.log('notify').some(({ reason }) => reason === 'blocked_address');
    });
    await until('it is removed', async () => {
      return (await daemon.api('DELETE', '/v1/topics/own?jobs=purge')).status === 200;
    });
    // Replaced jobs stay on their shard; new ids go to the new shard too.
    await push(ids.slice(0, 100), 600_000);
    await push(
      numbers(200).map((n) => `new-${n}`),
      600_000,
    );
    const listed = (await shard(daemon, 'ls')).json.items;
    expect(listed.map(({ jobs }: { jobs: number }) => jobs > 20)).toEqual([true, true, true]);
    expect(listed.reduce((sum: number, { jobs }: { jobs: number }) => sum + jobs, 0)).toBe(400);

    const first = listed[0].id;
    const rejected = await shard(daemon, 'rm', first, '-y');
    expect([rejected.code, rejected.stderr]).toEqual([1, expect.stringContaining('drain')]);
    expect((await shard(daemon, 'drain', first, '-y')).json).toMatchObject({ state: 'draining' });
    expect((await shard(daemon, 'rm', first, '-y')).code).toBe(1);
    for (const id of ids.slice(0, 40))
      expect((await daemon.api('GET', `/v1/topics/t/jobs/${id}`)).status).toBe(200);
    await push(ids.slice(100), 300);
    await forAll([...acknowledged], async (id) => {
      const reply = await daemon.api('POST', `/v1/topics/t/jobs/${id}/run`);
      // Delivered meanwhile, or run.
      expect([200, 404, 409]).toContain(reply.status);
    });
    await until('all are delivered', async () => (await jobsOf(daemon, 't')) === 0);
    expect(sink.arrivals.map(({ id }) => id).sort()).toEqual([...acknowledged].sort());
    await until('it is removed', async () => {
      const removed = await shard(daemon, 'rm', first, '-y');
      // The alert about the dead job of `own` may still be there.
      if (removed.code !== 0) expect(removed.stderr).toMatch(/it holds 0 jobs and [1-9]\d* unsent alerts/);
      else expect(removed.json).toEqual({ deleted: true, restores: false });
      return removed.code === 0;
    });
    expect((await shard(daemon, 'rm', first, '-y')).code).toBe(4);
    expect((await shard(daemon, 'ls')).json.items).toHaveLength(2);
  });

  it('a dead shard affects only its own jobs; lost, it is removed, and added again with them', async () => {
    const servers = await startRedisServers(3, { config: ['appendonly yes', 'appendfsync always'] });
    for (const server of servers) await owned('test', Promise.resolve(server));
    const sink = await startSink(ok);
    const daemon = await startDaemon({ config: { redis: servers.map(({ url }) => url) } });
    await addTopic(daemon, 't', sink.url);
    const [victim] = servers as [(typeof servers)[0]];
    const { id: lost } = (await shard(daemon, 'ls')).json.items[0];
    const ids = numbers(60).map((n) => `early-${n}`);
    await forAll(ids, (id) => daemon.push('t', '1', { id, delay: 600_000 }));
    expect((await shard(daemon, 'drain', lost, '-y')).code).toBe(0);
    const alive = await shard(daemon, 'rm', lost, '--lost', '-y');
    expect([alive.code, alive.stderr]).toEqual([1, expect.stringContaining('it holds')]);
    await victim.process.kill();
    const pushNew = async (part: string) => {
      const codes = new Set<number>();
      await forAll(ids, async (id) => {
        codes.add((await daemon.push('t', '1', { id: `${part}-${id}`, delay: 600_000 })).status);
      });
      return codes;
    };
    await until('it is known to be unavailable', async () => {
      const { status, body } = await daemon.api('GET', '/readyz');
      return status === 200 && body.warnings.length > 0;
    });
    // Of pushes with an id a third goes there; one without goes to a shard that answers.
    expect(await pushNew('first')).toEqual(new Set([201, 503]));
    await forAll(numbers(30), async () => {
      expect((await daemon.push('t', '1', { delay: 600_000 })).status).toBe(201);
    });
    const missing = [`redis://127.0.0.1:${victim.port}`];
    expect(await daemon.api('GET', '/v1/stats')).toMatchObject({ status: 200, body: { missing } });
    const searched = await daemon.api('GET', '/v1/jobs?limit=5');
    expect([searched.status, searched.body.missing?.length]).toEqual([200, 1]);
    const rejected = await shard(daemon, 'rm', lost, '-y');
    expect([rejected.code, rejected.stderr]).toEqual([1, expect.stringContaining('--lost')]);
    expect((await shard(daemon, 'rm', lost, '--lost', '-y')).json).toEqual({
      deleted: true,
      restores: false,
    });
    expect(await pushNew('then')).toEqual(new Set([201]));
    const noted = await until('it is logged', () =>
      daemon.log('error').find(({ message }) => String(message).includes('removed as lost')),
    );
    expect(noted).toMatchObject({ shard: lost, redis: `redis://127.0.0.1:${victim.port}` });

    // Without `dq shard add` the restarted server is not used: its jobs are not found or called.
    await victim.process.start();
    expect((await shard(daemon, 'ls')).json.items).toHaveLength(2);
    const onIt = Number(await victim.ask('HLEN', '{dq:0}:j'));
    expect(onIt).toBeGreaterThan(5);
    const found = await daemon.api('GET', '/v1/jobs?topic=t&limit=500');
    expect(found.body.items.filter(({ id }: { id: string }) => ids.includes(id))).toHaveLength(60 - onIt);
    expect(await victim.ask('CLIENT', 'LIST', 'TYPE', 'normal')).not.toContain('name=dq-');
    expect((await shard(daemon, 'add', victim.url)).stdout).toContain(lost);
    await forAll(ids, async (id) => {
      const { status } = await daemon.api('POST', `/v1/topics/t/jobs/${id}/run`);
      expect(status).toBe(200);
    });
    await until('all were delivered', () => sink.arrivals.length === ids.length);
  });

  it('a login of `redis` that Redis accepts is taken over by a reload, later, and by a start', async () => {
    const user = (name: string, login: string) => `user ${name} on >${login} ~{dq:* &{dq:* +@all`;
    const config = [user('one', 'geheim1'), user('two', 'geheim2')];
    const servers = [
      await owned('test', startRedis({ config })),
      await owned('test', startRedis({ config })),
    ] as const;
    const [server, late] = servers;
    const urls = (login: string) => servers.map(({ port }) => `redis://${login}@127.0.0.1:${port}`);
    const daemon = await startDaemon({ config: { redis: urls('one:geheim1') } });
    await addTopic(daemon, 't', 'http://127.0.0.1:9/', { state: 'paused' });
    const isStored = async () => (await daemon.push('t', '1')).status === 201;
    const reloaded = async (...redis: string[]) => {
      writeConfig(daemon, { redis });
      const { code, stderr } = await reload(daemon);
      expect(code, stderr).toBe(0);
      return stderr;
    };
    const users = async () =>
      new Set(
        [...(await server.ask('CLIENT', 'LIST')).matchAll(/ name=dq-.* user=(\S+)/g)].map(([, user]) => user),
      );
    const taken = () =>
      daemon
        .log('notice')
        .filter(({ message }) => String(message).includes('took over user, password'))
        .map(({ redis }) => redis);
    // One of them does not answer the reload, and takes the login over later.
    await late.process.kill();
    const warning = await reloaded(...urls('two:geheim2'));
    await late.process.start();
    expect(warning).not.toContain('names');
    await until('every process uses it', async () => [...(await users())].join() === 'two');
    await until('both are taken over', () => taken().length === 2);
    expect(taken()).toEqual(servers.map(({ port }) => `redis://127.0.0.1:${port}`));
    await until('jobs are stored', isStored);

    // Rejected by Redis: the stored login stays.
    expect(await reloaded(...urls('two:falsch'))).toMatch(
      /warning: `redis` has another login for redis:\/\/127\.0\.0\.1:\d+ than the shard list, .*WRONGPASS/,
    );
    expect(await reloaded(...urls('two:geheim2'), 'redis://127.0.0.1:1')).toMatch(
      /warning: `redis` names .*, the shard list names .*`dq shard add`/,
    );
    expect([...(await users())]).toEqual(['two']);

    // `shard ls` names a missing right in the words of /readyz.
    await server.ask('ACL', 'SETUSER', 'two', '-zadd');
    const trouble = await until('both say the same', async () => {
      await daemon.push('t', '1');
      const items = (await shard(daemon, 'ls')).json.items as { url: string; trouble: string | null }[];
      const { body } = await daemon.api('GET', '/readyz');
      const said = [body.detail, ...(body.warnings ?? [])].map(String);
      const named = items.find((one) => one.trouble?.includes('ZADD'))?.trouble;
      return named !== undefined && said.some((text) => text.includes(String(named))) ? String(named) : null;
    });
    expect(trouble).toContain('denies its user two ZADD, which dq needs: ACL SETUSER two +zadd');
    await server.ask('ACL', 'SETUSER', 'two', '+zadd');

    const { directory } = daemon;
    expect(await daemon.stop()).toBe(0);
    for (const one of servers) await one.ask('ACL', 'SETUSER', 'two', 'resetpass', '>geheim3');
    const again = await startDaemon({ directory, config: { redis: urls('two:geheim3') } });
    expect((await again.push('t', '1')).status).toBe(201);
    expect(again.output()).not.toMatch(/warning: `redis`/);
    expect(daemon.output() + again.output() + JSON.stringify(again.log('error'))).not.toMatch(
      /geheim|falsch/,
    );
  });
});
