// Consumers that ack, nack, extend or fall silent while processes of dq are killed and Redis is frozen: every
// acknowledged push is acked exactly once, or dead, and a long lease outlives the kills.
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { startRedis } from '../../scripts/services/redis.ts';
import { type Daemon, startDaemon } from '../support/daemon.ts';
import { createTopic, forAll, numbers } from '../support/producing.ts';
import { expectWhole } from '../support/redis-trouble.ts';
import { lacks, mariadb, owned } from '../support/services.ts';
import { until } from '../support/until.ts';

// Above the sum of the waits.
vi.setConfig({ testTimeout: 300_000 });

const jobs = 200;
const consumers = 20;

interface Pulled {
  readonly id: string;
  readonly lease: string;
  readonly attempt: number;
}

interface Seen {
  /** id → acks that dq confirmed */
  readonly acked: Map<string, number>;
  /** ids of acks without a reply, or with the reply unknown */
  readonly unsure: Set<string>;
  /** confirmed nacks with dead */
  readonly buried: Set<string>;
  silences: number;
}

/** The same for the same attempt of a job: 0 to 99. */
function drawOf({ id, attempt }: Pulled): number {
  let hash = attempt * 7919;
  for (const char of id) hash = (hash * 31 + char.charCodeAt(0)) >>> 0;
  return (hash >>> 3) % 100;
}

/** null: no reply, as while a server is killed */
async function post(daemon: Daemon, path: string, json?: object) {
  return daemon.api('POST', path, json).catch(() => null);
}

async function statusOf(daemon: Daemon, verb: string, json: object): Promise<number | null> {
  const reply = await post(daemon, `/v1/leases/${verb}`, json);
  return reply?.status === 200 ? (reply.body.results[0].status as number) : null;
}

async function consume(daemon: Daemon, seen: Seen, stop: AbortSignal): Promise<void> {
  while (!stop.aborted) {
    const reply = await post(daemon, '/v1/topics/t/pull?wait=1s&max=3');
    for (const job of reply?.status === 200 ? (reply.body.items as Pulled[]) : [])
      await answer(daemon, seen, job);
  }
}

async function answer(daemon: Daemon, seen: Seen, job: Pulled): Promise<void> {
  const draw = drawOf(job);
  const leases = [job.lease];
  if (draw < 20) {
    seen.silences += 1;
    return;
  }
  if (draw < 40) {
    await statusOf(daemon, 'nack', { leases, delay: '0' });
    return;
  }
  if (draw < 45) {
    if ((await statusOf(daemon, 'nack', { leases, dead: true })) === 200) seen.buried.add(job.id);
    return;
  }
  if (draw < 65) await statusOf(daemon, 'extend', { leases, for: '5s' });
  const status = await statusOf(daemon, 'ack', { leases });
  if (status === 200) seen.acked.set(job.id, (seen.acked.get(job.id) ?? 0) + 1);
  else if (status !== 409) seen.unsure.add(job.id);
}

/** Consumers and pushes are spread over the instances; the first loses processes. `midway`: between kills */
async function run(daemons: readonly Daemon[], midway: () => Promise<void> = async () => {}): Promise<void> {
  const [daemon] = daemons as readonly [Daemon];
  const instance = (n: number) => daemons[n % daemons.length] as Daemon;
  const topic = { topic: 't', delivery: 'pull', lease: '1s', backoff: ['0s'], maxAttempts: 4 };
  await createTopic(daemon, topic);
  const seen: Seen = { acked: new Map(), unsure: new Set(), buried: new Set(), silences: 0 };
  const stop = new AbortController();
  for (const one of daemons)
    await until(
      'the topic is known',
      async () => (await one.api('POST', '/v1/topics/t/pull')).status === 200,
    );
  const last = daemons.at(-1) as Daemon;
  await createTopic(daemon, { topic: 'long', delivery: 'pull', lease: '10m' });
  expect((await daemon.push('long', '1', { id: 'held' })).status).toBe(201);
  const held = await until('its lease', async () => {
    const { body } = await daemon.api('POST', '/v1/topics/long/pull');
    return (body.items as Pulled[] | undefined)?.[0];
  });
  const running = numbers(consumers).map((n) => consume(instance(n), seen, stop.signal));
  const pushed: string[] = [];
  const pushing = forAll(numbers(jobs), async (n) => {
    // A repeat has another id: the job of a push without a reply may have ended, and would be a second job.
    let tries = 0;
    pushed.push(
      await until(`push ${n}`, async () => {
        const id = `j${n}-${tries++}`;
        return (await instance(n).push('t', '{}', { id })).status < 300 ? id : null;
      }),
    );
  });
  for (const [title, after] of [
    ['dq-server-0', 25],
    ['dq-notifier-0', 50],
    ['dq-store', 75],
    ['dq-upkeep', 100],
  ] as const) {
    await until(`${after} jobs are acked`, () => seen.acked.size >= after);
    const pid = await until(`${title} runs`, () => daemon.workers().find((one) => one.title === title)?.pid);
    process.kill(pid, 'SIGKILL');
    if (title === 'dq-notifier-0') await midway();
  }
  await pushing;
  // Also at another instance.
  expect(await statusOf(last, 'ack', { leases: [held.lease] })).toBe(200);
  await until(
    'every job has ended or is dead',
    async () => {
      const { states } = (await daemon.api('GET', '/v1/stats')).body;
      return states.delayed + states.ready + states.reserved === 0;
    },
    30_000,
    100,
  );
  await expectWhole(daemon);
  stop.abort();
  await Promise.all(running);

  expect(pushed).toHaveLength(jobs);
  const ends = new Map<string, number>();
  await forAll(pushed, async (id) => {
    const { body } = await daemon.api('GET', `/v1/topics/t/jobs/${id}`);
    const acks = seen.acked.get(id) ?? 0;
    ends.set(body.state, (ends.get(body.state) ?? 0) + 1);
    if (body.state === 'done')
      expect(acks === 1 || (acks === 0 && seen.unsure.has(id)), `${id} ${acks}`).toBe(true);
    else expect([body.state, acks], id).toEqual(['dead', 0]);
    if (seen.buried.has(id)) expect(body.state, id).toBe('dead');
    // A lease that ended is a failed attempt, and never a strike.
    expect(body.strikes ?? 0, id).toBe(0);
  });
  // Every kind of answer happened.
  expect(seen.silences).toBeGreaterThan(10);
  expect(ends.get('dead')).toBeGreaterThan(0);
}

it('embedded store: 20 consumers and four kills, each push acked once or dead', async () => {
  await run([await startDaemon()]);
});

const isMissing = (await lacks('redis')) || (await lacks('mysql'));

describe.skipIf(isMissing)('two instances on one Redis', () => {
  it('20 consumers, four kills and Redis frozen for 4 s: each push acked once or dead', async () => {
    const server = await owned('test', startRedis({ config: ['appendonly yes', 'appendfsync always'] }));
    const database = await owned('test', mariadb());
    await database.createDatabase('pull');
    const args = ['--redis', server.url, '--mysql', database.url('pull')];
    const one = await startDaemon({ args });
    const two = await startDaemon({ args, config: { secretKeyFile: join(one.dataDir, 'secret.key') } });
    await run([one, two], async () => {
      await server.process.freeze();
      // Longer than the leases of 1 s: they end, and are not settled meanwhile.
      const from = performance.now();
      await until('the leases have ended', () => performance.now() - from > 4_000);
      server.process.thaw();
    });
  });
});
