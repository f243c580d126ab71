// Consumers that ack, nack, extend or fall silent while processes of dq are killed and Redis is frozen: every
// acknowledged push is acked exactly once, or dead.
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it, vi } from 'vitest';
import { startRedis } from '../../scripts/services/redis.ts';
import { limits } from '../../src/core/limits.ts';
import { type Daemon, startDaemon } from '../support/daemon.ts';
import { startHanging } from '../support/hanging.ts';
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
    ['dq-server-0', 75],
    ['dq-upkeep', 100],
  ] as const) {
    await until(`${after} jobs are acked`, () => seen.acked.size >= after);
    const pid = await until(`${title} runs`, () => daemon.workers().find((one) => one.title === title)?.pid);
    process.kill(pid, 'SIGKILL');
    if (title === 'dq-notifier-0') await midway();
  }
  await pushing;
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

/** The last daemon answers leases that the first one gave before the kill. */
async function expectOwnLeasesOnly(daemons: readonly Daemon[], kill: () => Promise<void>): Promise<void> {
  const [first, last] = [daemons[0], daemons.at(-1)] as [Daemon, Daemon];
  const receiver = await startHanging();
  receiver.hang();
  await createTopic(first, { topic: 't', delivery: 'pull', lease: '10m' });
  await createTopic(first, { topic: 'called', callbackUrl: receiver.urlOf(1), timeout: '60s' });
  // One store call has all of them: on a busy disk all may be answered 503, and are pushed again.
  const pushed = (topic: string, id: string) =>
    until(`push ${id}`, async () => (await first.push(topic, '{}', { id })).status < 300);
  await forAll(numbers(20), (n) => pushed('t', `j${n}`));
  // A notifier that has not read the new topic yet reserves its jobs, and releases them at once: a pull in
  // this moment finds none.
  const items: Pulled[] = [];
  await until('all are pulled', async () => {
    items.push(...((await first.api('POST', '/v1/topics/t/pull?max=20')).body.items as Pulled[]));
    return items.length >= 20;
  });
  expect(items).toHaveLength(20);
  await pushed('called', 'a');
  await until('the callback runs', () => receiver.open() > 0);
  const { version, dueAt } = (await first.api('GET', '/v1/topics/called/jobs/a')).body;
  await kill();
  await until('it serves', async () => (await post(last, '/v1/topics/t/pull'))?.status === 200);

  // Version and token are the clock in µs: these hit within the first ms, if text alone were enough.
  const mac = Buffer.alloc(limits.leaseMacBytes);
  const guess = (parts: readonly unknown[]) =>
    Buffer.concat([mac, Buffer.from(JSON.stringify(parts))]).toString('base64url');
  const guesses = numbers(1_000).map((n) =>
    guess(['called', 'a', Number(version), Number(version) + n, 0, Date.parse(dueAt)]),
  );
  const changed = items.map(({ lease }) => {
    const bytes = Buffer.from(lease, 'base64url');
    const parts = JSON.parse(bytes.subarray(limits.leaseMacBytes).toString()) as unknown[];
    const own = Buffer.from(JSON.stringify(parts.with(4, 1)));
    return Buffer.concat([bytes.subarray(0, limits.leaseMacBytes), own]).toString('base64url');
  });
  for (const leases of [guesses, changed]) {
    const { body } = await last.api('POST', '/v1/leases/ack', { leases });
    expect(new Set(body.results.map(({ code }: { code: string }) => code))).toEqual(new Set(['lease_lost']));
  }
  expect((await last.api('GET', '/v1/topics/called/jobs/a')).body.state).toBe('reserved');
  const acks = await last.api('POST', '/v1/leases/ack', { leases: items.map(({ lease }) => lease) });
  expect(acks.body.results).toEqual(items.map(() => ({ status: 200 })));
}

async function killAll(daemon: Daemon, titles: readonly string[]): Promise<void> {
  for (const title of titles) {
    const pid = daemon.pidOf(title);
    process.kill(pid, 'SIGKILL');
    await until(`another ${title} runs`, () =>
      daemon.workers().some((one) => one.title === title && one.pid !== pid),
    );
  }
}

it('embedded store: leases outlive kills of dq-server and dq-store, and a guess never acks', async () => {
  const daemon = await startDaemon();
  await expectOwnLeasesOnly([daemon], () => killAll(daemon, ['dq-server-0', 'dq-store']));
});

it('embedded store: 20 consumers and four kills, each push acked once or dead', async () => {
  await run([await startDaemon()]);
});

const isMissing = (await lacks('redis')) || (await lacks('mysql'));

describe.skipIf(isMissing)('two instances on one Redis', () => {
  it('leases outlive kills, also at the other instance, and a guess never acks', async () => {
    const server = await owned('test', startRedis({ config: ['appendonly yes', 'appendfsync always'] }));
    const database = await owned('test', mariadb());
    await database.createDatabase('leases');
    const args = ['--redis', server.url, '--mysql', database.url('leases')];
    const one = await startDaemon({ args });
    const two = await startDaemon({ args, config: { secretKeyFile: join(one.dataDir, 'secret.key') } });
    await expectOwnLeasesOnly([one, two], () => killAll(one, ['dq-server-0', 'dq-store']));
  });

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
      await sleep(4_000);
      server.process.thaw();
    });
  });
});
