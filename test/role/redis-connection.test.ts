// Connections to Redis: a failed step of the set-up, error replies of managed servers and proxies, and a
// server that becomes a replica.
import { Redis } from 'ioredis';
import { describe, expect, it, onTestFinished } from 'vitest';
import { type RedisServer, startRedis } from '../../scripts/services/redis.ts';
import { SourceRedis } from '../../src/cli/import/source-servers.ts';
import { whyNotWorking } from '../../src/store/redis/calls/health.ts';
import { jobOf } from '../conformance/trial.ts';
import { openedOn } from '../support/redis-store.ts';
import { startScriptedRedis } from '../support/scripted-redis.ts';
import { lacks, owned } from '../support/services.ts';
import { until } from '../support/until.ts';

async function openAt(server: RedisServer, url: string) {
  const { under } = await openedOn(server, { url });
  const push = async (id: string) => (await under.store.jobs.push([jobOf(id)]))[0];
  /** the store accepts a push again */
  const untilStored = (id: string) =>
    until('a push is stored', async () => (await push(id))?.kind === 'stored', { everyMs: 50 });
  return { ...under, push, untilStored };
}

/** the database → keys */
async function keysOf(server: RedisServer, database: number): Promise<readonly string[]> {
  const raw = new Redis({ port: server.port, protocol: 2, db: database });
  try {
    return await raw.keys('*');
  } finally {
    raw.disconnect();
  }
}

describe.skipIf(await lacks('redis'))('the set-up of a connection', () => {
  it('a database that does not exist: no command reaches database 0', async () => {
    const server = await owned('test', startRedis({ config: ['databases 4'] }));
    const { push, shard } = await openAt(server, `${server.url}/7`);
    expect(await push('a')).toEqual({ kind: 'not_stored', code: 'redis_no_database' });
    expect(await keysOf(server, 0)).toEqual([]);
    expect(await whyNotWorking(shard)).toBe(
      'has no database with the number of its address: SELECT 7: ERR DB index is out of range',
    );
  });

  it('a user without SELECT: no command reaches database 0, and the right is named', async () => {
    const server = await owned('test', startRedis());
    await server.ask('ACL', 'SETUSER', 'dq', 'on', '>pw', '~*', '&*', '+@all', '-select');
    const { push, shard } = await openAt(server, `redis://dq:pw@127.0.0.1:${server.port}/2`);
    expect(await push('a')).toEqual({ kind: 'not_stored', code: 'redis_denied' });
    expect(await keysOf(server, 0)).toEqual([]);
    expect(await whyNotWorking(shard)).toMatch(/: NOPERM .*'select'/);
  });

  it('a step that fails only at a reconnect: no further command until it succeeds', async () => {
    const server = await owned('test', startRedis());
    const scripted = await startScriptedRedis(server.port);
    const { push, untilStored, raw } = await openAt(server, `${scripted.url}/3`);
    await untilStored('before');
    const early = scripted.connections();
    const later: string[] = [];
    scripted.answer(([name = ''], connection) => {
      if (connection <= early) return null;
      later.push(name);
      return name === 'SELECT' ? '-ERR the backend has no such database\r\n' : null;
    });
    await raw.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    await until('two attempts to connect', () => later.filter((name) => name === 'SELECT').length > 1);
    expect(await push('meanwhile')).toEqual({ kind: 'not_stored', code: 'redis_set_up' });
    // The library sends the steps together.
    expect(later.filter((name) => name !== 'SELECT' && name !== 'CLIENT')).toEqual([]);
    scripted.answer(() => null);
    await untilStored('after');
    expect(await keysOf(server, 0)).toEqual([]);
  });

  it.each([
    ['has no password', 'ERR Client sent AUTH, but no password is set', 'redis_denied'],
    ['is too old for users', "ERR wrong number of arguments for 'auth' command", 'redis_unsupported'],
  ])('a login for a server that %s fails', async (_, words, code) => {
    const server = await owned('test', startRedis());
    const scripted = await startScriptedRedis(server.port);
    scripted.answer(([name]) => (name === 'AUTH' ? `-${words}\r\n` : null));
    const { push } = await openAt(server, `redis://dq:pw@127.0.0.1:${scripted.port}`);
    expect(await push('a')).toEqual({ kind: 'not_stored', code });
  });

  it('a rejected AUTH: its words do not repeat the password', async () => {
    const server = await owned('test', startRedis());
    const scripted = await startScriptedRedis(server.port);
    scripted.answer(([name]) =>
      name === 'AUTH' ? '-ERR unknown command `AUTH`, with args beginning with: `pw-canary`\r\n' : null,
    );
    const { push, shard } = await openAt(server, `redis://:pw-canary@127.0.0.1:${scripted.port}`);
    await push('a');
    expect(await whyNotWorking(shard)).toMatch(/: AUTH: ERR unknown command `AUTH`$/);
  });

  it.each(['NOPERM this user has no permissions', "ERR unknown command 'client'"])(
    'a connection without a name works: %s',
    async (words) => {
      const server = await owned('test', startRedis());
      const scripted = await startScriptedRedis(server.port);
      scripted.answer(([name]) => (name === 'CLIENT' ? `-${words}\r\n` : null));
      const { untilStored } = await openAt(server, scripted.url);
      await untilStored('a');
    },
  );

  it('each connection has a name', async () => {
    const server = await owned('test', startRedis());
    const { untilStored, store } = await openAt(server, server.url);
    await untilStored('a');
    onTestFinished(store.jobs.onHint(() => {}));
    const names = async (): Promise<readonly string[]> =>
      (await server.ask('CLIENT', 'LIST')).match(/(?<= name=)\S+/g) ?? [];
    await until('both are named', async () => {
      const found = await names();
      return found.includes('test') && found.includes('test-hints');
    });
  });

  it('import: a database that does not exist is named, and database 0 is not read', async () => {
    const server = await owned('test', startRedis({ config: ['databases 4'] }));
    const source = new SourceRedis(`${server.url}/7`);
    await owned('test', Promise.resolve({ stop: async () => source.close() }));
    await expect(source.ask('DBSIZE')).rejects.toThrow(
      `Redis at ${server.url}/7: SELECT 7: ERR DB index is out of range`,
    );
  });
});

/** a push, as the client of the store sends it */
const isPush = ([name, ...args]: readonly string[]) =>
  (name === 'EVALSHA' || name === 'EVAL') && args.some((arg) => arg.includes('body of '));

describe.skipIf(await lacks('redis'))('an error reply of a managed server or a proxy', () => {
  it.each([
    ["READONLY You can't write against a read only replica.", 'not_stored', 'redis_read_only'],
    ["ERR READONLY You can't write against a read only instance", 'not_stored', 'redis_read_only'],
    ['ERR proxy: backend says READONLY Can not run script', 'not_stored', 'redis_read_only'],
    ["ERR OOM command not allowed when used memory > 'maxmemory'.", 'not_stored', 'redis_full'],
    ['ERR LOADING Redis is loading the dataset in memory', 'not_stored', 'redis_loading'],
    ['ERR max number of clients reached', 'not_stored', 'redis_too_many_clients'],
    ['ERR invalid password', 'not_stored', 'redis_denied'],
    ["ERR unknown command 'evalsha'", 'not_stored', 'redis_unsupported'],
    ["ERR wrong number of arguments for 'hset' command", 'not_stored', 'redis_unsupported'],
    ['no upstream host', 'not_stored', 'redis_away'],
    ['ERR backend timed out', 'unknown', 'redis_unknown_reply'],
    ['upstream failure', 'unknown', 'redis_unknown_reply'],
  ])('%s: %s, %s; pushes work again when it ends', async (words, kind, code) => {
    const server = await owned('test', startRedis());
    const scripted = await startScriptedRedis(server.port);
    const { push, untilStored } = await openAt(server, scripted.url);
    await untilStored('before');
    scripted.answer((command) => (isPush(command) ? `-${words}\r\n` : null));
    expect(await push('a')).toEqual({ kind, code });
    scripted.answer(() => null);
    await untilStored('after');
  });

  it.each([
    ["ERR READONLY You can't write against a read only instance"],
    ["READONLY You can't write against a read only replica. script: 0a, on @user_script:5."],
    ['ERR this node has been demoted'],
  ])('%s: a new connection, which may lead to another server', async (words) => {
    // Redis waits 5 s for further replicas before it copies itself to the first.
    const server = await owned('test', startRedis({ config: ['repl-diskless-sync-delay 0'] }));
    const next = await owned('test', startRedis({ config: [`replicaof 127.0.0.1 ${server.port}`] }));
    const scripted = await startScriptedRedis(server.port);
    const { untilStored } = await openAt(server, scripted.url);
    await untilStored('before');
    await until('the replica has it', async () => (await keysOf(next, 0)).length > 1);
    await next.ask('REPLICAOF', 'NO', 'ONE');
    const old = scripted.connections();
    scripted.answer(([name = ''], connection) =>
      connection <= old && name.startsWith('EVAL') ? `-${words}\r\n` : null,
    );
    scripted.leadTo(next.port);
    await untilStored('after');
    expect(scripted.connections()).toBeGreaterThan(old);
    expect(await next.ask('HLEN', '{dq:0}:j')).toBe('2');
    expect(await server.ask('HLEN', '{dq:0}:j')).toBe('1');
  });

  it('a replica behind a proxy with words of its own is read-only', async () => {
    const server = await owned('test', startRedis());
    const scripted = await startScriptedRedis(server.port);
    const { push, shard, untilStored } = await openAt(server, scripted.url);
    await untilStored('before');
    await server.ask('REPLICAOF', '127.0.0.1', '1');
    scripted.answer(([name = '']) => (name.startsWith('EVAL') ? '-ERR wrong node\r\n' : null));
    expect(await push('a')).toEqual({ kind: 'unknown', code: 'redis_unknown_reply' });
    await until('the role is known', async () => {
      const answer = await push('b');
      return answer?.kind === 'not_stored' && answer.code === 'redis_read_only';
    });
    expect(await whyNotWorking(shard)).toBe('is read-only: it follows another server: ERR wrong node');
    await server.ask('REPLICAOF', 'NO', 'ONE');
    scripted.answer(() => null);
    await untilStored('after');
  });
});
