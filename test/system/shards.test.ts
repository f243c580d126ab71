// Tests a daemon on several Redis: commands that add and remove shards, and the effect of a frozen or dead
// one on the others.

import { describe, expect, it } from 'vitest';
import { startRedis, startRedisServers } from '../../scripts/services/redis.ts';
import { type Daemon, startDaemon } from '../support/daemon.ts';
import { addTopic, forAll, jobsLeft, numbers } from '../support/producing.ts';
import { reload, writeConfig } from '../support/reloading.ts';
import { runDq } from '../support/run-dq.ts';
import { lacks, owned } from '../support/services.ts';
import { ok, startSink } from '../support/sink.ts';
import { until } from '../support/until.ts';

const shard = async (daemon: Daemon, ...args: string[]) => {
  const run = await runDq(['shard', ...args, '--json', '--data-dir', daemon.dataDir]);
  return { ...run, json: run.stdout === '' ? null : JSON.parse(run.stdout) };
};

describe.skipIf(await lacks('redis'))('dq on several Redis', () => {
  it('shards added, drained and removed by command: no job is lost, doubled or missing', async () => {
    const a = await owned('test', startRedis());
    const b = await owned('test', startRedis());
    const c = await owned('test', startRedis({ config: ['requirepass geheim'] }));
    const sink = await startSink(ok);
    const urls = [a.url, b.url];
    const daemon = await startDaemon({ config: { redis: urls } });
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

    const added = await shard(daemon, 'add', c.url);
    expect([added.code, added.json?.url]).toEqual([0, `redis://127.0.0.1:${c.port}`]);
    expect(added.stdout + added.stderr + daemon.output()).not.toContain('geheim');
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
    await until('all to be delivered', async () => (await jobsLeft(daemon)) === 0, 90_000, 50);
    expect(sink.arrivals.map(({ id }) => id).sort()).toEqual([...acknowledged].sort());
    expect((await shard(daemon, 'rm', first, '-y')).json).toEqual({ deleted: true, restores: false });
    expect((await shard(daemon, 'rm', first, '-y')).code).toBe(4);
    expect((await shard(daemon, 'ls')).json.items).toHaveLength(2);
    const { directory } = daemon;
    expect(await daemon.stop()).toBe(0);

    const again = await startDaemon({ directory, config: { redis: urls } });
    await until('the warning is printed', () =>
      /warning: `redis` names .* `dq shard add`/.test(again.output()),
    );
    expect((await again.push('t', '1', { id: 'after' })).status).toBe(201);
    await until('it arrives', () => sink.arrivals.some(({ id }) => id === 'after'));
  });

  it.each(['stands still', 'is killed'])('a shard that %s affects only its own jobs', async (how) => {
    const servers = await startRedisServers(3, { config: ['appendonly yes', 'appendfsync always'] });
    for (const server of servers) await owned('test', Promise.resolve(server));
    const sink = await startSink(ok);
    const daemon = await startDaemon({ config: { redis: servers.map(({ url }) => url) } });
    await addTopic(daemon, 't', sink.url);
    // No job is being called when its shard fails: it would be called again.
    await daemon.api('POST', '/v1/topics/t/pause');
    const ids = numbers(150).map((n) => `before-${n}`);
    await forAll(ids, async (id) => {
      expect((await daemon.push('t', '1', { id, delay: 3_000 })).status).toBe(201);
    });
    const [victim] = servers as [(typeof servers)[0]];
    if (how === 'is killed') await victim.process.kill();
    else await victim.process.freeze();
    await daemon.api('POST', '/v1/topics/t/resume');
    const statuses = async (some: readonly string[]) => {
      const codes = new Map<string, number>();
      await forAll(some, async (id) => {
        const reply = await daemon.push('t', '1', { id });
        codes.set(id, reply.status === 503 ? 503 : 201);
        expect([200, 201, 503]).toContain(reply.status);
      });
      return codes;
    };
    await until('the failure to be known', async () => {
      const ready = await daemon.api('GET', '/readyz');
      return ready.status === 200 && ready.body.warnings.length > 0;
    });
    const during = await statuses(numbers(90).map((n) => `during-${n}`));
    const rejected = [...during].filter(([, code]) => code === 503);
    // About a third.
    expect(rejected.length).toBeGreaterThan(10);
    expect(rejected.length).toBeLessThan(60);
    // A push without an id goes to a shard that answers.
    await forAll(numbers(30), async () => {
      expect((await daemon.push('t', '1')).status).toBe(201);
    });
    const stored = [...during].filter(([, code]) => code === 201).map(([id]) => id);
    await until(
      'the jobs of the other shards are delivered',
      () => stored.every((id) => arrived(id)),
      90_000,
      50,
    );
    const counted = await daemon.api('GET', '/v1/stats');
    expect([counted.status, counted.body.missing]).toEqual([200, [`redis://127.0.0.1:${victim.port}`]]);
    const searched = await daemon.api('GET', '/v1/jobs?limit=5');
    expect([searched.status, searched.body.missing?.length]).toEqual([200, 1]);

    if (how === 'is killed') await victim.process.start();
    else victim.process.thaw();
    await until('every acknowledged job is delivered', () => ids.every((id) => arrived(id)), 90_000, 50);
    await until('nothing is left', async () => (await jobsLeft(daemon)) === 0, 90_000, 50);
    const unknown = new Set(rejected.map(([id]) => id));
    const counts = new Map<string, number>();
    for (const { id } of sink.arrivals) counts.set(id, (counts.get(id) ?? 0) + 1);
    expect([...counts].filter(([id, count]) => count > 1 && !unknown.has(id))).toEqual([]);

    function arrived(id: string): boolean {
      return sink.arrivals.some((arrival) => arrival.id === id);
    }
  });

  it('a lost shard is removed with its jobs, and can be added again with them', async () => {
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
    await until('it is known to be unavailable', async () => (await pushNew('first')).has(503));
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

  it('a login of `redis` that Redis accepts is taken over by a reload and by a start', async () => {
    const server = await owned('test', startRedis());
    const setUser = (name: string, password: string) =>
      server.ask('ACL', 'SETUSER', name, 'on', 'resetpass', `>${password}`, '~{dq:*', '&{dq:*', '+@all');
    const url = (login: string) => `redis://${login}@127.0.0.1:${server.port}`;
    await setUser('one', 'geheim1');
    await setUser('two', 'geheim2');
    const daemon = await startDaemon({ config: { redis: [url('one:geheim1')] } });
    await addTopic(daemon, 't', 'http://127.0.0.1:9/', { state: 'paused' });
    const reloaded = async (...redis: string[]) => {
      writeConfig(daemon, { redis });
      const { code, stderr } = await reload(daemon);
      expect(code, stderr).toBe(0);
      expect((await daemon.push('t', '1')).status).toBe(201);
      return stderr;
    };
    const users = async () =>
      new Set(
        [...(await server.ask('CLIENT', 'LIST')).matchAll(/ name=dq-.* user=(\S+)/g)].map(([, user]) => user),
      );
    expect(await reloaded(url('two:geheim2'))).not.toContain('warning');
    await until('every process uses it', async () => [...(await users())].join() === 'two');
    const taken = () =>
      daemon.log('notice').filter(({ message }) => String(message).includes('took over user, password'));
    await until('it is logged', () => taken().length > 0);
    expect(taken()).toMatchObject([{ redis: `redis://127.0.0.1:${server.port}` }]);

    // Rejected by Redis: the stored login stays.
    expect(await reloaded(url('two:falsch'))).toMatch(
      /warning: `redis` has another login for redis:\/\/127\.0\.0\.1:\d+ than the shard list, .*WRONGPASS/,
    );
    const other = await owned('test', startRedis());
    expect(await reloaded(url('two:geheim2'), other.url)).toMatch(
      /warning: `redis` names .*, the shard list names .*`dq shard add`/,
    );
    expect([...(await users())]).toEqual(['two']);

    const { directory } = daemon;
    expect(await daemon.stop()).toBe(0);
    await setUser('two', 'geheim3');
    const again = await startDaemon({ directory, config: { redis: [url('two:geheim3')] } });
    expect((await again.push('t', '1')).status).toBe(201);
    expect(again.output()).not.toMatch(/warning: `redis`/);
    expect(daemon.output() + again.output() + JSON.stringify(again.log('error'))).not.toMatch(
      /geheim|falsch/,
    );
  });

  it('a login is taken over later when its shard did not answer the reload', async () => {
    const servers = [await owned('test', startRedis()), await owned('test', startRedis())] as const;
    for (const server of servers)
      for (const name of ['one', 'two'])
        await server.ask('ACL', 'SETUSER', name, 'on', '>geheim', '~{dq:*', '&{dq:*', '+@all');
    const urls = (user: string) => servers.map(({ port }) => `redis://${user}:geheim@127.0.0.1:${port}`);
    const daemon = await startDaemon({ config: { redis: urls('one') } });
    const taken = () =>
      daemon
        .log('notice')
        .filter(({ message }) => String(message).includes('took over user, password'))
        .map(({ redis }) => redis);
    await servers[1].process.freeze();
    writeConfig(daemon, { redis: urls('two') });
    const { code, stderr } = await reload(daemon);
    servers[1].process.thaw();
    expect(code, stderr).toBe(0);
    await until('both are taken over', () => taken().length === 2);
    expect(taken()).toEqual(servers.map(({ port }) => `redis://127.0.0.1:${port}`));
  });

  describe('one daemon that begins with one Redis', async () => {
    const server = await owned('file', startRedis());
    await server.ask('ACL', 'SETUSER', 'dq', 'on', '>pw', '~{dq:*', '&{dq:*', '+@all');
    const config = { redis: [`redis://dq:pw@127.0.0.1:${server.port}`] };
    const daemon = await startDaemon({ scope: 'file', config });

    it('a server that does not answer is rejected, with its own exit code', async () => {
      for (const url of ['redis://127.0.0.1:1', 'redis+sentinel://127.0.0.1:1/dq']) {
        const run = await shard(daemon, 'add', url);
        expect([run.code, run.stdout]).toEqual([75, '']);
      }
    });

    it('shard ls names a missing right in the words of /readyz', async () => {
      await addTopic(daemon, 'right', 'http://127.0.0.1:9/');
      await server.ask('ACL', 'SETUSER', 'dq', '-zadd');
      await daemon.push('right', '1');
      const trouble = await until('both say the same', async () => {
        const [listed] = (await shard(daemon, 'ls')).json.items;
        const { body } = await daemon.api('GET', '/readyz');
        const isSame = body.detail === `store: Redis at redis://127.0.0.1:${server.port} ${listed.trouble}`;
        return isSame ? String(listed.trouble) : null;
      });
      expect(trouble).toContain('denies its user dq ZADD, which dq needs: ACL SETUSER dq +zadd');
      await server.ask('ACL', 'SETUSER', 'dq', '+zadd');
      await until('it works again', async () => (await daemon.api('GET', '/readyz')).status === 200);
    });

    it('callbacks to a shard that was added later are blocked', async () => {
      const second = await owned('test', startRedis());
      const callbackUrl = `http://127.0.0.1:${second.port}/`;
      await addTopic(daemon, 't', callbackUrl, { maxAttempts: 1 });
      expect((await shard(daemon, 'add', second.url)).code).toBe(0);
      const refused = await daemon.api('POST', '/v1/topics', { topic: 'u', callbackUrl });
      expect(JSON.stringify([refused.status, refused.body])).toMatch(/^\[4\d\d,.*own endpoints/);
      await until('no callback goes there', async () => {
        await daemon.push('t', '1');
        return daemon.log('notify').some(({ reason }) => reason === 'blocked_address');
      });
    });
  });
});
