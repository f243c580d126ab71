// Opens the embedded store in a temporary directory, with its owner in this process behind its socket, as
// in the daemon. The dump reads the tables directly.

import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { AttemptRecord, EndedJob } from '../../src/core/job.ts';
import { deadReasonCodes, endCodes, priorityCodes, stateCodes } from '../../src/core/stored-codes.ts';
import type { AlertEntry } from '../../src/ports/job-store.ts';
import type { TopicRecord } from '../../src/ports/registry.ts';
import type { Database } from '../../src/runtime/database.ts';
import { connectStore, type StoreConnection } from '../../src/store/sqlite/client/client.ts';
import { attemptsOfEnded } from '../../src/store/sqlite/engine/history.ts';
import { invariants } from '../../src/store/sqlite/file/invariants.ts';
import { ended } from '../../src/store/sqlite/file/schema.ts';
import { StoreOwner, type StoreOwnerOptions } from '../../src/store/sqlite/owner/owner.ts';
import { silentLog } from '../../src/telemetry/log.ts';
import { type DumpedJob, inDumpOrder, type StateDump } from '../conformance/store-under-test.ts';

export interface SqliteStore {
  readonly directory: string;
  readonly owner: StoreOwner;
  readonly client: StoreConnection;
  dump(): StateDump;
  close(): Promise<void>;
}

/** In memory where the machine has such a file system: most of the time of a short test on a disk is fsync.
 *  The tests of durability use a disk. */
export const memoryDirectory = () => temporaryDirectory(existsSync('/dev/shm') ? '/dev/shm' : tmpdir());

export function temporaryDirectory(parent = tmpdir()): { readonly path: string; remove(): void } {
  const path = mkdtempSync(join(parent, 'dq-store-'));
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) };
}

export const ownerPaths = (directory: string) => ({
  path: join(directory, 'jobs.db'),
  socketPath: join(directory, 'store.sock'),
});

/** A given directory stays when the store is closed. */
export async function openSqliteStore(
  more: Partial<StoreOwnerOptions> = {},
  given?: ReturnType<typeof temporaryDirectory>,
): Promise<SqliteStore> {
  const directory = given ?? temporaryDirectory();
  const owner = new StoreOwner({
    ...ownerPaths(directory.path),
    log: silentLog,
    // The owner is another process in the daemon: a test that replaces Date.now later replaces the clock of
    // the client only.
    clock: Date.now,
    recoverHoldMs: 0,
    clockHoldMs: 0,
    // Of the default of 16 MiB, 48 MiB would be written per store: the WAL, the reserve, its checkpoint.
    diskReserveBytes: 1024 * 1024,
    onFatal: (error) => {
      throw error;
    },
    ...more,
  });
  await owner.start();
  const { registry } = more;
  const client = connectStore({
    ...ownerPaths(directory.path),
    title: 'test',
    log: silentLog,
    ...(registry === undefined ? {} : { readTopic: (record: TopicRecord) => registry.read(record) }),
  });
  await client.start();
  return {
    directory: directory.path,
    owner,
    client,
    dump: () => owner.inspect((db) => dumpOf(db, more.clock)),
    async close() {
      await client.close();
      await owner.drain(1_000);
      if (given === undefined) directory.remove();
    },
  };
}

type Row = Record<string, never>;
const textOf = (bytes: Uint8Array) => Buffer.from(bytes).toString();

export function dumpOf(db: Database, clock: () => number = Date.now): StateDump {
  judgeWhole(db);
  const jobs = db
    .prepare(
      `SELECT job.*, topic.name, body.bytes, attempts.list FROM job JOIN topic ON topic.no = job.topic
       LEFT JOIN body ON body.n = job.n LEFT JOIN attempts ON attempts.n = job.n`,
    )
    .all() as Row[];
  const alerts = db
    .prepare('SELECT alert.*, topic.name FROM alert JOIN topic ON topic.no = alert.topic')
    .all() as Row[];
  const hasEnded = (row: Row) => row['state'] === ended;
  return inDumpOrder(
    jobs.filter((row) => !hasEnded(row)).map(jobOf),
    alerts.map((row) => alertOf(row, clock())),
    jobs.filter(hasEnded).map(endedOf),
  );
}

function judgeWhole(db: Database): void {
  for (const { what, sql } of invariants) {
    const found = db.prepare(sql).all();
    if (found.length > 0) throw new Error(`${what}: ${JSON.stringify(found)}`);
  }
}

function jobOf(row: Row): DumpedJob {
  const owner = { instance: row['owner_instance'] ?? 0, incarnation: row['owner_incarnation'] ?? 0 };
  return {
    topic: row['name'] ?? '',
    id: textOf(row['id'] ?? new Uint8Array()),
    version: row['version'] ?? 0,
    origin: row['origin'] ?? 0,
    state: stateCodes[row['state'] ?? 0] ?? 'dead',
    dueAt: row['due'] ?? 0,
    acceptedAt: row['accepted_at'] ?? 0,
    failures: row['failures'] ?? 0,
    strikes: row['strikes'] ?? 0,
    priority: priorityCodes[row['prio'] ?? 0] ?? 'low',
    lease:
      row['owner_instance'] === null
        ? null
        : { token: row['token'] ?? 0, owner, untilMs: row['lease_until'] ?? 0 },
    contentType: row['ctype'] ?? null,
    body: Buffer.from(row['bytes'] ?? []),
    attempts: JSON.parse(row['list'] ?? '[]') as AttemptRecord[],
    ...(row['extension'] ? { extension: Buffer.from(row['extension']) } : {}),
    deadAt: row['dead_at'] ?? null,
    deadReason: row['reason'] === null ? null : (deadReasonCodes[row['reason'] ?? 0] ?? null),
  };
}

function endedOf(row: Row): EndedJob {
  return {
    topic: row['name'] ?? '',
    id: textOf(row['id'] ?? new Uint8Array()),
    version: row['version'] ?? 0,
    origin: row['origin'] ?? 0,
    state: endCodes[row['ended_as'] ?? 0] ?? 'done',
    endedAt: row['ended_at'] ?? 0,
    dueAt: row['due'] ?? 0,
    acceptedAt: row['accepted_at'] ?? 0,
    failures: row['failures'] ?? 0,
    attempts: attemptsOfEnded(row['list'] ?? null, row['ctype'] ?? null),
  };
}

function alertOf(row: Row, now: number): AlertEntry {
  const states = ['owed', 'claimed', 'sent', 'nobody'] as const;
  const state = (states[row['state'] ?? 0] ?? 'owed') as AlertEntry['state'];
  const ranOut = state === 'claimed' && (row['claimed_until'] ?? 0) <= now;
  return {
    topic: row['name'] ?? '',
    id: textOf(row['id'] ?? new Uint8Array()),
    version: row['version'] ?? 0,
    deadAt: row['dead_at'] ?? 0,
    reason: deadReasonCodes[row['reason'] ?? 0] ?? 'attempts_exhausted',
    failures: row['failures'] ?? 0,
    attempt: JSON.parse(row['attempt'] ?? 'null') as AttemptRecord | null,
    state: ranOut ? 'owed' : state,
  };
}
