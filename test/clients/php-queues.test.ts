// The queue drivers of the PHP client: the worker of Laravel, as Debian packages it, and an outline of
// think-queue work on jobs of a real daemon.
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { whyNotInstalled } from '../../scripts/services/binaries.ts';
import { environment } from '../support/daemon.ts';
import { sharedDaemon } from '../support/shared-daemon.ts';

const dq = await sharedDaemon();

async function pullTopic(topic: string): Promise<void> {
  expect((await dq.api('POST', '/v1/topics', { topic, delivery: 'pull', delay: '1h' })).status).toBe(201);
}
const job = async (topic: string, id: string) => (await dq.api('GET', `/v1/topics/${topic}/jobs/${id}`)).body;
/** until the next attempt, in minutes */
const minutes = ({ dueAt }: { dueAt: string }) => Math.round((Date.parse(dueAt) - Date.now()) / 60_000);

// biome-ignore lint/suspicious/noExplicitAny: what a script prints is what the test asserts
async function run(script: string, input: object): Promise<any> {
  const args = [join(import.meta.dirname, script), JSON.stringify(input)];
  const { stdout, stderr } = await promisify(execFile)('php', args, { env: environment(), timeout: 60_000 });
  expect(stderr).toBe('');
  return JSON.parse(stdout);
}

// An installation stops after five minutes.
describe('PHP queues', { timeout: 330_000 }, () => {
  it('Laravel: a worker processes, releases and fails jobs', async ({ skip }) => {
    const why = await whyNotInstalled('laravel');
    if (why !== null) skip(why);
    const topic = 'laravel.orders';
    await pullTopic(topic);
    const { ids, sizes, status, events, reported } = await run('laravel.php', {
      url: dq.url,
      topic,
      jobs: 7,
    });
    expect(status).toBe(0);
    // All, pending, delayed, reserved: before the worker begins
    expect(sizes).toEqual([8, 7, 1, 0]);
    const succeed = await job(topic, ids.succeed);
    expect(succeed).toMatchObject({ state: 'done', attempt: 1 });
    expect(await job(topic, ids.raw)).toMatchObject({ id: 'raw', state: 'done' });
    const thrown = await job(topic, ids.throw);
    expect(thrown).toMatchObject({ state: 'delayed', attempt: 1, maxAttempts: 100 });
    expect(minutes(thrown)).toBe(30);
    const released = await job(topic, ids.release);
    expect(released).toMatchObject({ state: 'delayed', attempt: 1 });
    expect(minutes(released)).toBe(60);
    const failed = await job(topic, ids.fail);
    expect(failed).toMatchObject({
      state: 'dead',
      deadReason: 'nacked',
      attempts: [{ detail: 'broken order' }],
    });
    expect(failed.contentType).toBe('application/json');
    const later = await job(topic, ids.later);
    expect(later).toMatchObject({ state: 'delayed', attempt: 0 });
    expect(minutes(later)).toBe(60);
    expect(JSON.parse(later.body)).toMatchObject({ job: 'Handler@succeed', data: [] });
    expect(events).toEqual(
      expect.arrayContaining([
        'JobProcessed Handler@succeed 1',
        'JobExceptionOccurred Handler@throw 1',
        'JobFailed Handler@fail 1',
      ]),
    );
    expect(reported).toEqual(['thrown']);
  });

  it('think-queue: a worker processes, releases and fails jobs', async ({ skip }) => {
    const why = await whyNotInstalled('phpCurl');
    if (why !== null) skip(why);
    const topic = 'think.orders';
    await pullTopic(topic);
    const { ids, size, jobs } = await run('think.php', { url: dq.url, topic });
    expect(size).toBe(4);
    expect(jobs).toEqual({ succeed: [ids.succeed, 1], release: [ids.release, 1], fail: [ids.fail, 1] });
    expect(await job(topic, ids.succeed)).toMatchObject({ state: 'done', attempt: 1 });
    const released = await job(topic, ids.release);
    expect(released).toMatchObject({ state: 'delayed', attempt: 1, maxAttempts: 100 });
    expect(minutes(released)).toBe(60);
    expect(await job(topic, ids.fail)).toMatchObject({ state: 'dead', deadReason: 'nacked' });
    expect(minutes(await job(topic, ids.later))).toBe(60);
  });
});
