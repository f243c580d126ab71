// Tests the job store on Redis while no shard was ever reached: the first start with an address where nothing
// listens, or with a database that the server does not have. Nothing is known of any job, so each call fails
// with the cause, and no call answers that there are no jobs.
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { freePorts } from '../../scripts/services/free-port.ts';
import { startRedis } from '../../scripts/services/redis.ts';
import { openRedisJobs, type RedisJobs } from '../../src/compose/shards.ts';
import type { OperationRecord } from '../../src/core/operation.ts';
import type { Store } from '../../src/ports/job-store.ts';
import { StoreError, type StoreFailure } from '../../src/ports/store-error.ts';
import { openRegistryDb } from '../../src/registry/sql/registry-db.ts';
import { Operations } from '../../src/upkeep/operations/operations.ts';
import { removeTopic } from '../../src/use-cases/remove-topic.ts';
import { failedAttempt } from '../support/handmade.ts';
import { startIntake, tokenFor } from '../support/intake.ts';
import { answerAsMaster } from '../support/master-answers.ts';
import { plainHttp } from '../support/plain-http.ts';
import { testOptions } from '../support/redis-store.ts';
import { lacks, owned } from '../support/services.ts';
import { listOf, openShards } from '../support/shards.ts';
import { openSqliteStore, temporaryDirectory } from '../support/sqlite-store.ts';
import { until } from '../support/until.ts';
import { startRig } from './rig.ts';

interface Unreached {
  readonly urls: readonly string[];
  /** as the failure names it */
  readonly code: string;
  readonly why: RegExp;
}

/** The stores of a process of a first start. */
async function openJobs(urls: readonly string[]): Promise<RedisJobs> {
  const directory = temporaryDirectory();
  onTestFinished(directory.remove);
  const registryDb = await openRegistryDb(join(directory.path, 'registry.db'));
  const sqlite = await openSqliteStore({ registry: registryDb });
  const jobs = openRedisJobs({
    ...{ ...testOptions, hints: false, registry: sqlite.client.registry, urls, takesLogins: false },
  });
  onTestFinished(async () => {
    await jobs.close();
    await sqlite.close();
    await registryDb.close();
  });
  await jobs.start();
  return jobs;
}

const key = { topic: 't', id: 'a' };
const job = {
  ...({ ...key, when: { delayMs: 0 }, mode: 'replace', priority: 'normal' } as const),
  ...{ contentType: null, body: Buffer.from('{}') },
};
const lease = { ...key, version: 1, token: 1 };
const ended = { ...lease, attempt: failedAttempt };

/** Each call that needs no partition; a read of a job, a list and a step over all jobs alike. */
const wholeCalls: readonly [name: string, call: (store: Store) => Promise<unknown>][] = [
  ['jobs.get', ({ jobs }) => jobs.get(key)],
  ['jobs.search', ({ jobs }) => jobs.search({}, 10, null)],
  ['jobs.search by id', ({ jobs }) => jobs.search({ id: 'a' }, 10, null)],
  ['jobs.search of ended jobs', ({ jobs }) => jobs.search({ state: 'done' }, 10, null)],
  ['dead.list', ({ dead }) => dead.list({}, 10, null)],
  ['dead.requeue', ({ dead }) => dead.requeue({}, 10)],
  ['dead.requeue of ids', ({ dead }) => dead.requeue({ topic: 't', ids: ['a'] }, 10)],
  ['dead.purge', ({ dead }) => dead.purge({}, 10)],
  ['dead.expire', ({ dead }) => dead.expire(0, 10)],
  ['history.get', ({ history }) => history.get(key)],
  ['history.forget', ({ history }) => history.forget(0, 10)],
  ['alerts.due', ({ alerts }) => alerts.due(0)],
  ['alerts.claim', ({ alerts }) => alerts.claim('t', 1_000, 10)],
  ['alerts.settle', ({ alerts }) => alerts.settle([1], 'sent')],
  ['alerts.stateOf', ({ alerts }) => alerts.stateOf({ ...key, version: 1 })],
  ['alerts.list', ({ alerts }) => alerts.list(10, null)],
  ['admin.counts', ({ admin }) => admin.counts()],
  ['admin.purgeTopic', ({ admin }) => admin.purgeTopic('t', 10)],
  ['admin.moment', ({ admin }) => admin.moment()],
  ['admin.clock', ({ admin }) => admin.clock()],
  ['admin.startFsck', ({ admin }) => admin.startFsck()],
  ['admin.fsck', ({ admin }) => admin.fsck()],
  ['surveys.position', ({ surveys }) => surveys.position(key)],
  ['surveys.scan', ({ surveys }) => surveys.scan({}, 10, null, 100)],
  ['surveys.horizon', ({ surveys }) => surveys.horizon(null)],
  ['surveys.deadGroups', ({ surveys }) => surveys.deadGroups(null)],
];

/** Each call with items, with one item. */
const itemCalls: readonly [name: string, call: (store: Store) => Promise<readonly unknown[]>][] = [
  ['push', ({ jobs }) => jobs.push([job])],
  ['cancel', ({ jobs }) => jobs.cancel([key])],
  ['run', ({ jobs }) => jobs.run([key])],
  ['reschedule', ({ jobs }) => jobs.reschedule([{ ...key, when: { delayMs: 1 } }])],
  ['requeue', ({ jobs }) => jobs.requeue([key])],
  ['ack', ({ jobs }) => jobs.ack([ended])],
  ['retry', ({ jobs }) => jobs.retry([{ ...ended, delayMs: 1 }])],
  ['bury', ({ jobs }) => jobs.bury([{ ...ended, reason: 'attempts_exhausted' }])],
  ['release', ({ jobs }) => jobs.release([lease])],
  ['extend', ({ jobs }) => jobs.extend([{ ...lease, leaseMs: 1_000 }])],
];

/** Requests that need the store. */
const requests: readonly (readonly [method: string, path: string, body?: object])[] = [
  ['GET', '/v1/jobs'],
  ['GET', '/v1/jobs?id=a'],
  ['GET', '/v1/jobs?state=done'],
  ['GET', '/v1/jobs?idPrefix=a'],
  ['GET', '/v1/topics/t/jobs/a'],
  ['GET', '/v1/topics/t/jobs/a/flow'],
  ['GET', '/v1/dead'],
  ['GET', '/v1/dead/groups'],
  ['GET', '/v1/horizon'],
  ['GET', '/v1/alerts'],
  ['GET', '/v1/stats'],
  ['GET', '/v1/topics/t/stats'],
  ['GET', '/v1/summary'],
  ['GET', '/v1/fsck'],
  ['POST', '/v1/pull', { topics: ['pulled'] }],
  ['POST', '/v1/topics/t/jobs?id=a', {}],
  ['POST', '/v1/topics/t/jobs/a/run'],
  ['DELETE', '/v1/topics/t/jobs/a'],
  ['POST', '/v1/dead/requeue', { topic: 't', ids: ['a'] }],
  ['DELETE', '/v1/dead?topic=t'],
  ['POST', '/v1/operations', { kind: 'clear', filter: { topic: 't' } }],
  ['POST', '/v1/fsck'],
  ['DELETE', '/v1/topics/t'],
  ['DELETE', '/v1/topics/t?jobs=purge'],
];

const cases: [string, boolean, () => Promise<Unreached>][] = [
  [
    'a port where nothing listens',
    false,
    async () => ({
      urls: ['redis://:pw-canary@127.0.0.1:1'],
      ...{ code: 'redis_away', why: /^redis:\/\/127\.0\.0\.1:1: connect ECONNREFUSED 127\.0\.0\.1:1; / },
    }),
  ],
  [
    'a database that the server does not have',
    await lacks('redis'),
    async () => {
      const { url } = await owned('test', startRedis({}));
      return {
        urls: [`${url}/99`],
        ...{ code: 'redis_no_database', why: /^redis:\/\/127\.0\.0\.1:\d+\/99: SELECT 99: ERR .*; / },
      };
    },
  ],
];

for (const [name, isSkipped, open] of cases)
  describe.skipIf(isSkipped)(`no shard was ever reached: ${name}`, () => {
    it('each call of the store fails with the cause', async () => {
      const { urls, code, why } = await open();
      const { store } = await openJobs(urls);
      const failure: StoreFailure = { kind: 'not_stored', code, why: expect.stringMatching(why) };
      const wrong: unknown[] = [];
      for (const [call, run] of wholeCalls) {
        const answer = await run(store).then(
          (value) => ({ value }),
          (error: unknown) => (error instanceof StoreError ? error.failure : { error }),
        );
        if (!('code' in answer)) wrong.push([call, answer]);
        else expect(answer, call).toEqual(failure);
      }
      expect(wrong).toEqual([]);
      for (const [call, run] of itemCalls) expect(await run(store), call).toEqual([failure]);
      expect(store.jobs.partitions()).toEqual([]);
      const health = await store.admin.health();
      expect(health).toMatchObject({ ok: false, warnings: [expect.stringMatching(why)] });
      expect(JSON.stringify(health)).not.toContain('pw-canary');
    });

    it('the API answers 503 with the cause, and hides it from callers of some topics', async () => {
      const { urls, code, why } = await open();
      const { store } = await openJobs(urls);
      const dq = await startIntake({ store: () => store, onSend: answerAsMaster });
      await dq.api('POST', '/v1/topics', { topic: 't', callbackUrl: 'http://127.0.0.1:9/' });
      await dq.api('POST', '/v1/topics', { topic: 'pulled', delivery: 'pull' });
      const cause = new RegExp(` \\(${code}\\): ${why.source.slice(1)}`);
      const wrong: unknown[] = [];
      for (const [method, path, body] of requests) {
        const { status, body: problem } = await dq.api(method, path, body);
        const wanted = method === 'GET' || path === '/v1/pull' ? 'unavailable' : 'not_stored';
        if (status !== 503 || problem.code !== wanted || !cause.test(problem.detail))
          wrong.push([method, path, status, problem]);
      }
      expect(wrong).toEqual([]);
      const { status, body: batch } = await dq.api('POST', '/v1/jobs', [{ topic: 't', body: {} }]);
      expect([status, batch]).toMatchObject([
        200,
        { accepted: 0, results: [{ code: 'not_stored', detail: expect.stringMatching(cause) }] },
      ]);
      const { reasons } = (await dq.api('GET', '/v1/topics/t/capacity')).body;
      expect(reasons).toContainEqual({
        ...{ code: 'store_unavailable', message: expect.stringMatching(new RegExp(why.source.slice(1))) },
        ...{ remedy: expect.any(String), values: { code, why: expect.stringMatching(why) } },
      });
      const some = await tokenFor(dq, ['t', 'pulled'], ['read', 'push', 'pull']);
      for (const [method, path, body] of [
        ['GET', '/v1/topics/t/jobs/a'],
        ['GET', '/v1/topics/t/capacity'],
        ['POST', '/v1/topics/t/jobs?id=a', {}],
        ['POST', '/v1/pull', { topics: ['pulled'] }],
      ] as const) {
        const reply = await dq.call(method, path, {
          headers: { ...some.headers, 'content-type': 'application/json' },
          ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        });
        expect(JSON.stringify(reply.body), path).not.toContain('127.0.0.1');
      }
      const hidden = await dq.call('GET', '/v1/topics/t/capacity', some);
      expect(hidden.body.reasons).toContainEqual({
        ...{ code: 'store_unavailable', message: `the store cannot count the jobs (${code})` },
        ...{ remedy: expect.any(String), values: { code } },
      });
    });

    it('the ports for other clients report a failure', async () => {
      const { urls, code } = await open();
      const { store } = await openJobs(urls);
      const [ouqiang = 0, sdmq = 0] = await freePorts(2);
      const dq = await startIntake({
        store: () => store,
        compatTimes: { frameMs: 10_000, idleMs: 60_000, drainIdleMs: 100, popMs: 100 },
        config: {
          'compat.ouqiang.port': ouqiang,
          'compat.sdmq.port': sdmq,
          'compat.scopes': ['push', 'read', 'pull', 'operate'],
        },
      });
      await dq.api('POST', '/v1/topics', { topic: 'pulled', delivery: 'pull' });
      const answers: [path: string, status: number, text: string][] = [];
      for (const [path, body] of [
        ['/push', { topic: 'pulled', id: 'a', delay: 1, ttr: 5, body: '{}' }],
        ['/get', { id: 'a' }],
        ['/pop', { topic: 'pulled' }],
        ['/delete', { id: 'a' }],
      ] as const) {
        const reply = await plainHttp(ouqiang, 'POST', path, { body: JSON.stringify(body) });
        expect(JSON.parse(reply.text), path).toMatchObject({ code: 1 });
        answers.push([path, reply.status, reply.text]);
      }
      for (const path of ['/get/pulled?wait=0', '/delete?jobId=a', '/finish?jobId=a', '/clearAll']) {
        const reply = await plainHttp(sdmq, 'GET', path);
        expect(JSON.parse(reply.text), path).toMatchObject({ success: false });
        expect(reply.status, path).toBe(503);
        answers.push([path, reply.status, reply.text]);
      }
      for (const [path, , text] of answers)
        expect(text, path).toContain(/get\/pulled|pop/.test(path) ? 'the store does not answer' : code);
    });

    it('a topic is not removed, and an operation waits', async () => {
      const { urls, code } = await open();
      const { store } = await openJobs(urls);
      const rig = await startRig();
      await rig.topic('t', 'http://127.0.0.1:9/');
      for (const purge of [false, true])
        await expect(removeTopic(rig.registry, store.admin, 't', purge)).rejects.toThrow(code);
      expect(await rig.registry.get('t')).toMatchObject({ state: 'active' });
      const context = rig.context({ store });
      const now = Date.now();
      // Of a daemon that had a shard list before: it has begun.
      const record: OperationRecord = {
        ...{ id: 'a'.repeat(12), kind: 'clear', filter: { topic: 't' }, topics: ['*'], spreadMs: null },
        ...{ rate: null, at: null, dryRun: false, actor: 'test', state: 'running' },
        ...{ createdAt: now, updatedAt: now, startedAt: now, movingAt: now, endedAt: null, matched: 1 },
        ...{
          moment: { [`${'a'.repeat(16)}:0`]: 1_000 * now },
          ...{ problem: null, done: 0, skipped: 0, failed: 0, failures: [] },
        },
      };
      const work = { ids: null, cursor: null, isListed: false, isCounting: false, step: [] };
      expect(await rig.registry.createOperation(record, work)).toBe('created');
      const operations = new Operations(context);
      await operations.start();
      await owned('test', Promise.resolve({ stop: () => operations.drain(5_000) }));
      const seen = await until('the operation waits or has ended', async () => {
        const found = await rig.registry.operation(record.id);
        return found?.problem != null || found?.endedAt != null ? found : null;
      });
      expect(seen).toMatchObject({ endedAt: null, problem: expect.stringContaining(code) });
    });
  });

describe.skipIf(await lacks('redis'))('every shard drains', () => {
  it('reads answer, and a push names the cause and the remedy', async () => {
    const server = await owned('test', startRedis({}));
    const all = listOf([server]);
    const list = { ...all, shards: all.shards.map((shard) => ({ ...shard, active: false })) };
    const redis = await openShards({ list }, { isListed: false });
    await owned('test', Promise.resolve({ stop: () => redis.close() }));
    expect((await redis.store.admin.counts()).topics).toEqual({});
    // Reasons of capacity name partitions to callers of some topics.
    const { jobs } = redis.store;
    const names = jobs.partitions().map((partition) => jobs.nameOf?.(partition));
    expect(names).toContainEqual(expect.stringMatching(/^[^:]+:0$/));
    expect(names.join(' ')).not.toContain('127.0.0.1');
    const dq = await startIntake({ store: () => redis.store });
    await dq.api('POST', '/v1/topics', { topic: 't', callbackUrl: 'http://127.0.0.1:9/' });
    expect(await dq.push('t', '{}')).toMatchObject({
      status: 503,
      body: { code: 'not_stored', detail: expect.stringMatching(/every shard drains.*`dq shard add`/) },
    });
  });
});
