// Real daemon whose whole file system (store, registry, run files, logs) is full to the last block: dq
// rejects pushes, running work continues, and pushes work again when blocks are free.

import { rmSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { limits } from '../../src/core/limits.ts';
import { openEngine } from '../../src/store/sqlite/engine/engine.ts';
import { type Daemon, startDaemon } from '../support/daemon.ts';
import { fillUp, freeBytesIn, mountTmpfs, unmountable } from '../support/mounted.ts';
import { addTopic, forAll, groupBy, jobsLeft, numbers, resumeTopic } from '../support/producing.ts';
import { runDq } from '../support/run-dq.ts';
import { type Arrival, ok, type Sink, startSink, status } from '../support/sink.ts';
import { until } from '../support/until.ts';

const mebibyte = 1024 * 1024;
const body = Buffer.alloc(300, 97);
const push = (daemon: Daemon, topic: string, id: string, delay = 0) =>
  daemon.push(topic, body, { id, delay }, 'text/plain');

/** Pushes `ids`; returns the acknowledged ones. Fails for any reply but 201 and not_stored. */
async function pushAll(daemon: Daemon, topic: string, ids: readonly string[], delay = 0): Promise<string[]> {
  const acknowledged: string[] = [];
  const others: unknown[] = [];
  await forAll(ids, async (id) => {
    const reply = await push(daemon, topic, id, delay);
    if (reply.status === 201) acknowledged.push(id);
    else if (reply.body.code !== 'not_stored') others.push(reply);
  });
  expect(others).toEqual([]);
  return acknowledged;
}

/** Resolves when the disk has no free block and the daemon rejects pushes. */
async function fill(daemon: Daemon, topic: string): Promise<string[]> {
  const acknowledged: string[] = [];
  let n = 0;
  await until('a push to be rejected', async () => {
    fillUp(daemon.directory);
    const id = `late${n++}`;
    const reply = await push(daemon, topic, id, 3_600_000);
    if (reply.status === 201) acknowledged.push(id);
    else expect(reply).toMatchObject({ status: 503, body: { code: 'not_stored' } });
    return reply.status === 503;
  });
  fillUp(daemon.directory);
  return acknowledged;
}

const freeBlocks = (daemon: Daemon) => rmSync(join(daemon.directory, 'filler'));
const isReady = async (daemon: Daemon) => (await daemon.api('GET', '/readyz')).status;
function expectWhole(daemon: Daemon): void {
  const engine = openEngine(join(daemon.dataDir, 'jobs.db'));
  expect(engine.db.prepare('PRAGMA integrity_check').all()).toEqual([{ integrity_check: 'ok' }]);
  engine.close();
}

const times = (sink: Sink, topic: string) =>
  new Map(
    [...groupBy(sink.arrivals, (arrival: Arrival) => `${arrival.topic} ${arrival.id}`)]
      .filter(([key]) => key.startsWith(`${topic} `))
      .map(([key, arrivals]) => [key.slice(topic.length + 1), arrivals.length]),
  );

describe.skipIf(unmountable !== null)(`a full disk${unmountable === null ? '' : `: ${unmountable}`}`, () => {
  it('rejects pushes, settles, retries, cancels, also after kills; a start with little space delivers', async () => {
    let holds = true;
    let fails = true;
    const sink = await startSink((arrival, response) => {
      if (arrival.topic === 'failing' && fails) return status(500, {}, 'x'.repeat(1_000))(arrival, response);
      if (arrival.topic !== 'held' || !holds) return ok(arrival, response);
    });
    const directory = mountTmpfs(4 * mebibyte);
    const daemon = await startDaemon({ directory, args: ['--notifiers', '1'] });
    await addTopic(daemon, 'held', sink.url, { timeout: '60s', state: 'paused' });
    await addTopic(daemon, 'failing', sink.url, { backoff: ['200ms'], maxAttempts: 100 });
    await addTopic(daemon, 'later', sink.url);
    const ids = (count: number) => numbers(count).map(String);
    const held = await pushAll(daemon, 'held', ids(300));
    await resumeTopic(daemon, 'held');
    const later = await pushAll(daemon, 'later', ids(100), 3_600_000);
    await until('callbacks to run', () => sink.open().length === 64);
    const failing = await pushAll(daemon, 'failing', ids(20));
    expect([held.length, later.length, failing.length]).toEqual([300, 100, 20]);

    const late = await fill(daemon, 'later');
    await until('no block is left', () => {
      fillUp(daemon.directory);
      return freeBytesIn(directory) === 0;
    });
    expect(await isReady(daemon)).toBe(503);
    // The log of the registry's file has room for some writes.
    let created = 0;
    const rejected = await until('a topic to be rejected', async () => {
      const topic = { topic: `new-${created++}`, callbackUrl: sink.url };
      const reply = await daemon.api('POST', '/v1/topics', topic);
      return reply.status === 201 ? null : reply;
    });
    expect(rejected).toMatchObject({ status: 503, body: { code: 'not_stored' } });
    // No retry now: retries continue while nothing else frees disk space.
    const before = times(sink, 'failing');
    await until('every failing job to be retried twice', () =>
      failing.every((id) => (times(sink, 'failing').get(id) ?? 0) >= (before.get(id) ?? 0) + 2),
    );
    const cancelled = await Promise.all(
      later.slice(0, 50).map((id) => daemon.api('DELETE', `/v1/topics/later/jobs/${id}`)),
    );
    expect(new Set(cancelled.map((reply) => reply.status))).toEqual(new Set([200]));
    holds = false;
    for (const arrival of sink.open()) sink.finish(arrival);
    await until('the held jobs to drain', () => times(sink, 'held').size === held.length);
    expect(new Set(times(sink, 'held').values())).toEqual(new Set([1]));

    for (const title of ['dq-notifier-0', 'dq-store', 'dq-upkeep', 'dq-timer-0', 'dq-server-0']) {
      const pid = daemon.pidOf(title);
      process.kill(pid, 'SIGKILL');
      await until(`${title} to be restarted`, () =>
        daemon.workers().some((worker) => worker.title === title && worker.pid !== pid),
      );
    }
    fails = false;
    await until('the failing jobs to be done', async () => (await jobsLeft(daemon)) === 50 + late.length);
    freeBlocks(daemon);
    await until('a push to be stored', async () => (await push(daemon, 'held', 'after')).status === 201);
    await until('the daemon to be ready', async () => (await isReady(daemon)) === 200);
    await until('it to be done', async () => (await jobsLeft(daemon)) === 50 + late.length);
    // Due while the disk is full.
    const waiting = await pushAll(daemon, 'held', ids(50), 10_000);
    expect(await daemon.stop()).toBe(0);
    expectWhole(daemon);

    const filler = fillUp(directory);
    truncateSync(join(directory, 'filler'), filler - limits.startFreeBytes - 64 * 1024);
    const second = await startDaemon({ directory });
    await fill(second, 'later');
    await until('all to arrive', () => waiting.every((id) => times(sink, 'held').get(id) === 2));
    freeBlocks(second);
    await until('a push to be stored', async () => (await push(second, 'held', 'last')).status === 201);
    expect(await second.stop()).toBe(0);
    expectWhole(second);
  });

  it('without any free block: dq start fails with one sentence', async () => {
    const directory = mountTmpfs(mebibyte);
    fillUp(directory);
    const data = join(directory, 'data');
    const run = await runDq(['start', '--port', '0', '--data-dir', data, '--log-dir', directory]);
    expect(run).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(
        /^dq: (the data directory .*\/data cannot be used: database or disk|the disk of the data directory .*\/data) is full.*\n$/,
      ),
    });
  });
});
