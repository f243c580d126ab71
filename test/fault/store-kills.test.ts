// kill -9 of dq-store at random moments under load: acknowledged jobs are delivered, rejected ones are not,
// only jobs in flight at a kill arrive twice, and the file is whole after every kill. Default 15 kills; more
// with DQ_STORE_KILLS=200 npx vitest run test/fault/store-kills.test.ts. Runs the owner without a daemon: a
// master gives up after ten deaths of a role within a minute (test/fault/kill.test.ts kills a daemon's
// dq-store).

import { copyFileSync, existsSync, mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it, onTestFinished } from 'vitest';
import type { Owner, ReservedJob } from '../../src/core/job.ts';
import { askAndForget, openDatabase } from '../../src/runtime/database.ts';
import { connectStore, type StoreConnection } from '../../src/store/sqlite/client/client.ts';
import { openEngine } from '../../src/store/sqlite/engine/engine.ts';
import { invariants } from '../../src/store/sqlite/file/invariants.ts';
import { silentLog } from '../../src/telemetry/log.ts';
import { attemptOf, jobOf, leaseOf, request } from '../conformance/trial.ts';
import { OwnerProcess } from '../support/owner-process.ts';
import { numbers } from '../support/producing.ts';
import { ownerPaths, temporaryDirectory } from '../support/sqlite-store.ts';
import { until } from '../support/until.ts';

const kills = Number(process.env['DQ_STORE_KILLS'] ?? 15);

/** Kills so far. */
let epoch = 0;
let stopped = false;

/** Outcomes of pushes, by id. */
const outcomesOf = { stored: new Set<string>(), rejected: new Set<string>(), unknown: new Set<string>() };

interface Delivery {
  readonly id: string;
  readonly from: number;
  /** epoch of the answer to its ack; null = no answer */
  until: number | null;
}
const deliveries: Delivery[] = [];

async function produce({ store }: StoreConnection, name: string): Promise<void> {
  for (let n = 0; !stopped; n += 1) {
    const ids = numbers(1 + (n % 7)).map((m) => `${name}.${n}.${m}`);
    const outcomes = await store.jobs.push(
      ids.map((id, m) =>
        jobOf(id, { when: { delayMs: m * 10 }, body: Buffer.alloc(50 + ((n * 97) % 3_000), m) }),
      ),
    );
    for (const [i, outcome] of outcomes.entries()) {
      const id = ids[i] as string;
      if (outcome.kind === 'stored') outcomesOf.stored.add(id);
      else if (outcome.kind === 'not_stored') outcomesOf.rejected.add(id);
      else outcomesOf.unknown.add(id);
    }
    await sleep(1);
  }
}

/** Acts as a notifier: reserves, calls, acks until an answer comes; releases leases of lost answers. */
async function consume({ store }: StoreConnection, holder: Owner, isDone: () => boolean): Promise<void> {
  while (!isDone()) {
    await store.jobs.promote(0, 500).catch(() => null);
    let jobs: readonly ReservedJob[];
    try {
      jobs = (await store.jobs.reserve(0, request(50, null, holder))).jobs;
    } catch {
      // The answer was lost, perhaps with leases.
      await store.jobs.releaseUnheld(0, holder, []).catch(() => null);
      continue;
    }
    const called = jobs.map((job) => {
      const delivery: Delivery = { id: job.id, from: epoch, until: null };
      deliveries.push(delivery);
      return { job, delivery };
    });
    await sleep(2);
    let open = called;
    while (open.length > 0) {
      const outcomes = await store.jobs.ack(
        open.map(({ job }) => ({ ...leaseOf(job), attempt: attemptOf(job, { outcome: 'delivered' }) })),
      );
      for (const [i, { delivery }] of open.entries())
        if (outcomes[i]?.kind === 'acked' || outcomes[i]?.kind === 'lease_lost') delivery.until = epoch;
      open = open.filter(({ delivery }) => delivery.until === null);
    }
    if (jobs.length === 0) await sleep(5);
  }
}

/** Checks a copy of the files after a kill; the next owner gets the originals. */
function expectWhole(directory: string): void {
  const copy = join(directory, 'copy');
  mkdirSync(copy);
  for (const end of ['', '-wal']) {
    const path = `${ownerPaths(directory).path}${end}`;
    if (existsSync(path)) copyFileSync(path, join(copy, `jobs.db${end}`));
  }
  const db = openDatabase(join(copy, 'jobs.db'));
  try {
    expect(askAndForget(db, 'integrity_check', 'pragma_integrity_check')).toBe('ok');
    for (const { what, sql } of invariants)
      expect(db.prepare(`SELECT count(*) AS n FROM (${sql})`).get(), what).toEqual({ n: 0 });
  } finally {
    db.close();
  }
  rmSync(copy, { recursive: true });
}

function twice(): string[] {
  const last = new Map<string, Delivery>();
  const wrong: string[] = [];
  for (const delivery of deliveries) {
    const before = last.get(delivery.id);
    // In flight at a kill: the ack has no answer yet, or one of another epoch.
    if (before !== undefined && before.until === before.from) wrong.push(delivery.id);
    last.set(delivery.id, delivery);
  }
  return wrong;
}

it(
  `survives ${kills} kills at random moments under load`,
  async () => {
    const directory = temporaryDirectory();
    onTestFinished(() => directory.remove());
    let owner = await OwnerProcess.start(directory.path);
    onTestFinished(() => owner.kill());
    const clients = numbers(5).map((n) =>
      connectStore({ ...ownerPaths(directory.path), title: `test-${n}`, log: silentLog, awayMs: 20_000 }),
    );
    onTestFinished(async () => void (await Promise.all(clients.map((client) => client.close()))));
    await Promise.all(clients.map((client) => client.start()));
    const of = (n: number) => clients[n] as StoreConnection;
    let consumed = false;
    const producers = numbers(12).map((n) => produce(of(n % 3), `p${n}`));
    const consumers = numbers(2).map((n) =>
      consume(of(3 + n), { instance: 7, incarnation: n }, () => consumed),
    );

    for (let kill = 1; kill <= kills; kill += 1) {
      const before = outcomesOf.stored.size;
      await until('pushes to be stored', () => outcomesOf.stored.size > before);
      await sleep(Math.random() * 250);
      await owner.kill();
      epoch += 1;
      expectWhole(directory.path);
      owner = await OwnerProcess.start(directory.path);
    }
    stopped = true;
    await Promise.all(producers);
    const { admin } = of(0).store;
    await until(
      'all to be consumed',
      async () => Object.keys((await admin.counts()).topics).length === 0,
      60_000,
    );
    consumed = true;
    await Promise.all(consumers);
    await owner.drain();

    const delivered = new Set(deliveries.map(({ id }) => id));
    expect([...outcomesOf.stored].filter((id) => !delivered.has(id))).toEqual([]);
    expect([...outcomesOf.rejected].filter((id) => delivered.has(id))).toEqual([]);
    expect(twice()).toEqual([]);
    const engine = openEngine(ownerPaths(directory.path).path);
    expect(engine.db.prepare('PRAGMA integrity_check').all()).toEqual([{ integrity_check: 'ok' }]);
    engine.close();
    const unknown = [...outcomesOf.unknown];
    const figures = {
      kills,
      stored: outcomesOf.stored.size,
      rejected: outcomesOf.rejected.size,
      unknown: unknown.length,
      'unknown, delivered': unknown.filter((id) => delivered.has(id)).length,
      delivered: delivered.size,
      'delivered again after a kill': deliveries.length - delivered.size,
    };
    if (kills > 15) process.stdout.write(`${JSON.stringify(figures)}\n`);
    // Kills without effect would prove nothing.
    expect(unknown.length).toBeGreaterThan(0);
    expect(outcomesOf.stored.size).toBeGreaterThan(kills * 20);
  },
  60_000 + kills * 10_000,
);
