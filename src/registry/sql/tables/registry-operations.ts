// Stores operations: a row each, with its record and the state of its work as JSON. At most
// limits.operationsKept rows, limits.operationsOpenMax of them open. A process works on an operation under a
// lease; its token fences the writes of a process that lost the lease.

import { limits } from '../../../core/limits.ts';
import {
  isOpen,
  type OperationCheckpoint,
  type OperationLease,
  type OperationRecord,
  type OperationWork,
} from '../../../core/operation.ts';
import type { Registry } from '../../../ports/registry.ts';
import type { Db, RegistryAccess, Trx } from '../registry-engine.ts';

const idPattern = /^[0-9a-f]{12}$/;

export function operationVerbs(db: RegistryAccess) {
  return {
    createOperation: (record, work) => db.write((trx) => insertOperation(trx, record, work)),
    operations: () => db.read(readOperations),
    operation: (id) => db.read((tables) => readOperation(tables, id)),
    claimOperation: (...claimed) =>
      db.writeIf(
        async (tables) => (await claimableOf(tables, ...claimed)) !== null,
        (trx) => claim(trx, ...claimed),
      ),
    checkpointOperation: (token, checkpoint) => db.write((trx) => writeCheckpoint(trx, token, checkpoint)),
    stopOperation: (id, now) => db.write((trx) => markStopped(trx, id, now)),
  } satisfies Partial<Registry>;
}

/** Drops the oldest ended operations. */
async function insertOperation(
  trx: Trx,
  record: OperationRecord,
  work: OperationWork,
): Promise<'created' | 'full'> {
  const kept = await trx
    .selectFrom('operation')
    .select(['id', 'is_open'])
    .orderBy('created_at', 'desc')
    .orderBy('id')
    .execute();
  const open = kept.filter((row) => row.is_open === 1).length;
  if (open >= limits.operationsOpenMax) return 'full';
  const ended = kept.filter((row) => row.is_open === 0);
  for (const { id } of ended.slice(Math.max(0, limits.operationsKept - 1 - open)))
    await trx.deleteFrom('operation').where('id', '=', id).execute();
  await trx
    .insertInto('operation')
    .values({
      id: record.id,
      record: JSON.stringify(record),
      work: JSON.stringify(work),
      is_open: 1,
      token: 0,
      holder: null,
      lease_until: 0,
      created_at: record.createdAt,
    })
    .execute();
  return 'created';
}

async function readOperations(db: Db): Promise<OperationRecord[]> {
  const rows = await db
    .selectFrom('operation')
    .select('record')
    .orderBy('created_at', 'desc')
    .orderBy('id')
    .execute();
  return rows.flatMap(({ record }) => parsed(record) ?? []);
}

async function readOperation(db: Db, id: string): Promise<OperationRecord | null> {
  if (!idPattern.test(id)) return null;
  const row = await db.selectFrom('operation').select('record').where('id', '=', id).executeTakeFirst();
  return row === undefined ? null : parsed(row.record);
}

/** The oldest open operation without a valid lease. `holder`: `<instance>.<incarnation>`; a lease of another
 *  process of the instance is not valid, because one dq-upkeep of an instance works at a time. */
async function claim(
  trx: Trx,
  holder: string,
  now: number,
  leaseUntil: number,
  except?: readonly string[],
): Promise<OperationLease | null> {
  const id = await claimableOf(trx, holder, now, leaseUntil, except);
  if (id === null) return null;
  const row = await trx.selectFrom('operation').selectAll().where('id', '=', id).executeTakeFirstOrThrow();
  const token = row.token + 1;
  const record = parsed(row.record);
  const work = parsed<OperationWork>(row.work);
  await trx
    .updateTable('operation')
    .set({
      holder,
      token,
      lease_until: leaseUntil,
      ...(record === null || work === null ? { is_open: 0 } : {}),
    })
    .where('id', '=', id)
    .execute();
  if (record === null || work === null) return null;
  return { record, work, token, wasReleased: row.holder === null };
}

/** Of an operation that an operator has stopped, state and end stay. */
async function writeCheckpoint(
  trx: Trx,
  token: number,
  { record, work, leaseUntil, isClosed }: OperationCheckpoint,
): Promise<'updated' | 'stopped' | 'lost'> {
  const row = await trx
    .selectFrom('operation')
    .select(['record', 'token'])
    .where('id', '=', record.id)
    .executeTakeFirst();
  if (row === undefined || row.token !== token) return 'lost';
  const stored = parsed(row.record);
  const isStopped = stored?.state === 'stopped';
  const next = isStopped ? { ...record, state: stored.state, endedAt: stored.endedAt } : record;
  await trx
    .updateTable('operation')
    .set({
      record: JSON.stringify(next),
      work: JSON.stringify(work),
      lease_until: leaseUntil ?? 0,
      ...(leaseUntil === null ? { holder: null } : {}),
      ...(isClosed ? { is_open: 0 } : {}),
    })
    .where('id', '=', record.id)
    .execute();
  return isStopped ? 'stopped' : 'updated';
}

/** Its process notices at its next checkpoint and stores what it had done. */
async function markStopped(trx: Trx, id: string, now: number): Promise<OperationRecord | null> {
  const record = await readOperation(trx, id);
  if (record === null || !isOpen(record)) return record;
  const stopped: OperationRecord = { ...record, state: 'stopped', endedAt: now, problem: null };
  await trx
    .updateTable('operation')
    .set({ record: JSON.stringify(stopped) })
    .where('id', '=', id)
    .execute();
  return stopped;
}

/** `leaseUntil`: of a lease that begins at `now`. One that ends much later is of a clock that was ahead. */
async function claimableOf(
  db: Db,
  holder: string,
  now: number,
  leaseUntil: number,
  except: readonly string[] = [],
): Promise<string | null> {
  const rows = await db
    .selectFrom('operation')
    .select(['id', 'holder', 'lease_until'])
    .where('is_open', '=', 1)
    .orderBy('created_at')
    .orderBy('id')
    .execute();
  const instance = `${holder.split('.')[0]}.`;
  const free = rows.find(
    (row) =>
      !except.includes(row.id) &&
      (row.lease_until <= now ||
        row.lease_until > leaseUntil + (leaseUntil - now) ||
        (row.holder !== holder && row.holder?.startsWith(instance))),
  );
  return free?.id ?? null;
}

function parsed<T = OperationRecord>(json: string): T | null {
  try {
    return JSON.parse(json) as T;
  } catch {
    return null; // readers skip a damaged row
  }
}
