// A daemon whose shards are added, drained and removed while jobs are pushed, replaced, read and delivered
// through its API. Its processes read each new list at different times. DQ_SHARD_JOBS=20000 for the full
// size: that many replaces of live ids.
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { type RedisServer, startRedisServers } from '../../scripts/services/redis.ts';
import { type Daemon, startDaemon } from '../support/daemon.ts';
import { addTopic, jobsLeft, numbers } from '../support/producing.ts';
import { untilEmptyAndWhole } from '../support/redis-trouble.ts';
import { runDq } from '../support/run-dq.ts';
import { lacks, owned } from '../support/services.ts';
import { ok, startSink } from '../support/sink.ts';
import { until } from '../support/until.ts';

vi.setConfig({ testTimeout: 600_000 });

const total = Number(process.env['DQ_SHARD_JOBS'] ?? 1_500);
const producers = 8;
/** live ids of a producer, and pushes of each id while it waits */
const [livingEach, waitingPushes] = [12, 6];
const farMs = 600_000;

interface Pushed {
  readonly body: string;
  readonly version: string;
  /** the push's outcome about the previous version */
  readonly replaced: boolean;
  readonly inFlight: boolean;
}

/** One id from its first push to its delivery. */
interface Life {
  readonly id: string;
  readonly pushes: Pushed[];
}

/** Each producer has its own ids, so that it knows the last push of each. */
class Producer {
  readonly #daemon: Daemon;
  readonly #name: string;
  readonly lives: Life[] = [];
  readonly wrong: string[] = [];
  replaces = 0;
  found = 0;

  constructor(daemon: Daemon, name: string) {
    this.#daemon = daemon;
    this.#name = name;
  }

  /** Takes turns over its live ids; each ends after some pushes, and another begins. */
  async run(isOver: () => boolean): Promise<void> {
    const living: Life[] = [];
    for (let turn = 0; !isOver(); turn += 1) {
      const at = turn % livingEach;
      living[at] ??= this.#begun(at);
      const life = living[at] as Life;
      if (life.pushes.length < waitingPushes) await this.#push(life, farMs);
      else {
        await this.#end(life, turn);
        living[at] = this.#begun(waitingPushes);
      }
      const other = living[(turn * 5) % livingEach];
      if (other !== undefined && other.pushes.length > 0) await this.#find(other);
    }
    for (const life of living) if (life.pushes.length > 0) await this.#end(life, 0);
  }

  #begun(pushesLeft: number): Life {
    const life: Life = { id: `${this.#name}-${this.lives.length}-${pushesLeft}`, pushes: [] };
    this.lives.push(life);
    return life;
  }

  /** Every third one is replaced while due or being called. */
  async #end(life: Life, turn: number): Promise<void> {
    await this.#find(life);
    for (const _ of numbers(turn % 3 === 0 ? 3 : 1)) await this.#push(life, turn % 2);
  }

  async #push(life: Life, delayMs: number): Promise<void> {
    const { id, pushes } = life;
    const body = JSON.stringify(`${id}/${pushes.length}`);
    const { status, json } = await this.#call(
      'POST',
      `/v1/topics/t/jobs?id=${id}&delay=${delayMs}ms&mode=replace`,
      body,
    );
    if (status !== 200 && status !== 201) {
      this.wrong.push(`push of ${id}: ${status} ${JSON.stringify(json)}`);
      return;
    }
    const { version, replaced, inFlight } = json as {
      version: string;
      replaced: boolean;
      inFlight?: boolean;
    };
    pushes.push({ body, version, replaced, inFlight: inFlight === true });
    if (replaced) this.replaces += 1;
  }

  /** A delayed one. */
  async #find({ id, pushes }: Life): Promise<void> {
    const last = pushes.at(-1);
    const { status, json } = await this.#call('GET', `/v1/topics/t/jobs/${id}`);
    if (status === 200 && json?.['version'] === last?.version && json?.['body'] === last?.body)
      this.found += 1;
    else this.wrong.push(`${id}, version ${last?.version}: ${status} ${JSON.stringify(json)}`);
  }

  async #call(method: string, path: string, body?: string) {
    const headers = body === undefined ? {} : { 'content-type': 'application/json' };
    const reply = await fetch(this.#daemon.url + path, { method, headers, body: body ?? null });
    return { status: reply.status, json: (await reply.json()) as Record<string, unknown> | null };
  }
}

const shard = async (daemon: Daemon, ...args: string[]) => {
  const run = await runDq(['shard', ...args, '--json', '--data-dir', daemon.dataDir]);
  return { ...run, json: run.stdout === '' ? null : JSON.parse(run.stdout) };
};

/** Checks the deliveries of one id; each complaint names it. */
function judged({ id, pushes }: Life, arrived: readonly string[]): readonly string[] {
  const times = (body: string) => arrived.filter((one) => one === body).length;
  return pushes.flatMap(({ body }, i) => {
    const next = pushes[i + 1];
    // A replaced version may arrive only if it was in flight at the replace.
    const [least, most] = next === undefined || !next.replaced ? [1, 1] : next.inFlight ? [0, 1] : [0, 0];
    const n = times(body);
    return n >= least && n <= most ? [] : [`${id}: push ${i} of ${pushes.length} arrived ${n} times`];
  });
}

describe.skipIf(await lacks('redis'))('a daemon whose shards change under load', () => {
  it(`2 → 3 → 2 → 3 → 2 over ${total} replaces: each id is delivered once, in its last version`, async () => {
    const { all } = await owned(
      'test',
      startRedisServers(3).then((all) => ({
        all,
        stop: async () => void (await Promise.all(all.map((one) => one.stop()))),
      })),
    );
    const [a, b, c] = all as [RedisServer, RedisServer, RedisServer];
    const sink = await startSink(ok);
    const daemon = await startDaemon({ config: { redis: [a.url, b.url], server: { workers: 2 } } });
    await addTopic(daemon, 't', sink.url);
    const some = numbers(producers).map((n) => new Producer(daemon, `p${n}`));
    const replaces = () => some.reduce((sum, one) => sum + one.replaces, 0);
    let isOver = false;
    const working = Promise.all(some.map((one) => one.run(() => isOver)));
    onTestFinished(async () => {
      isOver = true;
      await working.catch(() => {}); // its failure has already failed the test
    });
    const reached = (share: number) =>
      until(`${share} of the replaces`, () => replaces() >= share * total, 300_000, 20);

    const holding = async (server: RedisServer) => {
      const { json } = await shard(daemon, 'ls');
      const items = json.items as { id: string; url: string; jobs: number }[];
      return items.find(({ url }) => url === server.url);
    };
    const add = async (server: RedisServer) => {
      expect(await shard(daemon, 'add', server.url)).toMatchObject({ code: 0, json: { state: 'active' } });
      await until(
        'new ids are placed on it',
        async () => Number((await holding(server))?.jobs) > 5,
        60_000,
        100,
      );
    };
    /** Drains a shard and removes it when it is empty; returns the number of rejected removals. */
    const leave = async (server: RedisServer) => {
      const id = (await holding(server))?.id ?? '';
      expect(await shard(daemon, 'drain', id, '-y')).toMatchObject({ code: 0, json: { state: 'draining' } });
      let rejected = 0;
      await until(
        'it is empty',
        async () => {
          const { code, stderr } = await shard(daemon, 'rm', id, '-y');
          if (code === 1 && stderr.includes('it holds')) rejected += 1;
          return code === 0;
        },
        60_000,
        50,
      );
      return rejected;
    };

    await reached(0.1);
    await add(c);
    await reached(0.3);
    const rejected = [await leave(a)];
    await reached(0.5);
    await add(a);
    await reached(0.7);
    rejected.push(await leave(c));
    await reached(1);
    isOver = true;
    await working;
    const lives = some.flatMap((one) => one.lives);
    await until('all are delivered', async () => (await jobsLeft(daemon)) === 0, 60_000, 50);
    await untilEmptyAndWhole(daemon);

    const arrived = new Map<string, string[]>();
    for (const { id, body } of sink.arrivals) arrived.set(id, [...(arrived.get(id) ?? []), body.toString()]);
    const found = some.reduce((sum, one) => sum + one.found, 0);
    console.log(
      `${lives.length} ids, ${replaces()} replaces, ${found} looked up, ${sink.arrivals.length} callbacks; ${rejected} removals rejected`,
    );
    expect(some.flatMap(({ wrong }) => wrong).slice(0, 10)).toEqual([]);
    expect(lives.flatMap((life) => judged(life, arrived.get(life.id) ?? [])).slice(0, 10)).toEqual([]);
    expect(found).toBeGreaterThan(total / 4);
    const errors = daemon.log('error').map(({ message, reason }) => `${message} ${reason ?? ''}`);
    expect(errors.filter((line) => !line.startsWith('warning: '))).toEqual([]);
  });
});
