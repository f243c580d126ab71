// kill -9 of the store's owner at random moments, under load, again and again: what was acknowledged is
// delivered, what was refused is not, nothing is delivered twice but what was in flight at a kill, and the
// file is whole after every kill. 15 kills as a rule; DQ_STORE_KILLS=200 npx vitest run
// test/fault/store-kills.test.ts for as many as one likes. The bare owner, not a daemon: a master gives up
// after ten deaths of a role within a minute (test/fault/kill.test.ts kills those).

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

/** What producers heard: by id. */
const heard = { stored: new Set<string>(), refused: new Set<string>(), unknown: new Set<string>() };

interface Delivery {
  readonly id: string;
  readonly from: number;
  /** of the answer to its ack; null = none came */
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
      if (outcome.kind === 'stored') heard.stored.add(id);
      else if (outcome.kind === 'not_stored') heard.refused.add(id);
      else heard.unknown.add(id);
    }
    await sleep(1);
  }
}

/** As a notifier does: reserves, calls, acks until there is an answer; gives back what it does not know it
 *  has. */
async function consume({ store }: StoreConnection, holder: Owner, isDone: () => boolean): Promise<void> {
  while (!isDone()) {
    await store.jobs.promote(0, 500).catch(() => null);
    let jobs: readonly ReservedJob[];
    try {
      jobs = (await store.jobs.reserve(0, request(50, null, holder))).jobs;
    } catch {
      // The answer was lost, and perhaps jobs with it.
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

/** What lies there after a kill, looked at in a copy: the next owner finds it as it was left. */
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
    // In flight at a kill: no answer to its ack yet, or one of another life of the owner.
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
      const before = heard.stored.size;
      await until('pushes to be stored', () => heard.stored.size > before);
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
    expect([...heard.stored].filter((id) => !delivered.has(id))).toEqual([]);
    expect([...heard.refused].filter((id) => delivered.has(id))).toEqual([]);
    expect(twice()).toEqual([]);
    const engine = openEngine(ownerPaths(directory.path).path);
    expect(engine.db.prepare('PRAGMA integrity_check').all()).toEqual([{ integrity_check: 'ok' }]);
    engine.close();
    const unknown = [...heard.unknown];
    const figures = {
      kills,
      stored: heard.stored.size,
      refused: heard.refused.size,
      unknown: unknown.length,
      'unknown, delivered': unknown.filter((id) => delivered.has(id)).length,
      delivered: delivered.size,
      'delivered again after a kill': deliveries.length - delivered.size,
    };
    if (kills > 15) process.stdout.write(`${JSON.stringify(figures)}\n`);
    // Kills that hit nothing would prove nothing.
    expect(unknown.length).toBeGreaterThan(0);
    expect(heard.stored.size).toBeGreaterThan(kills * 20);
  },
  60_000 + kills * 10_000,
);
