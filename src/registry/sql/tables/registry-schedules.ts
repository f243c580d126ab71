// Stores schedules: a row each, with its settings as JSON. A process claims due instants for a time, by the
// clock of the job store, so that one makes the job of each. Instant, revision and
// time of a claim fence its end. Only the end of a claim removes an instant that is due: a change of the
// schedule leaves it.

import type { NotNull } from 'kysely';
import { limits } from '../../../core/limits.ts';
import { firstWithin, grouped } from '../../../core/lists.ts';
import {
  changedTimes,
  type DueTick,
  type ScheduleRecord,
  type StoredSchedule,
  type TickEnd,
} from '../../../core/schedule.ts';
import type { Registry } from '../../../ports/registry.ts';
import type { Db, RegistryAccess, Trx } from '../registry-engine.ts';
import type { RegistrySchema } from '../schema/registry-schema.ts';

type Row = RegistrySchema['schedule'];

export function scheduleVerbs(db: RegistryAccess) {
  return {
    schedules: (after, limit) => db.read((tables) => readSchedules(tables, after, limit)),
    schedule: (name) => db.read((tables) => readSchedule(tables, name)),
    createSchedule: (record, nextAt) => db.write((trx) => insertSchedule(trx, record, nextAt)),
    updateSchedule: (record, nextAt, now) => db.write((trx) => updateSchedule(trx, record, nextAt, now)),
    removeSchedule: (name, revision) => db.write((trx) => deleteSchedule(trx, name, revision)),
    claimSchedules: async (now, until, max) =>
      (await db.writeIf(
        async (tables) => (await dueRows(tables, now, until, 1)).length > 0,
        (trx) => claimDue(trx, now, until, max),
      )) ?? [],
    async endTicks(ends) {
      if (ends.length > 0) await db.write((trx) => endTicks(trx, ends));
    },
  } satisfies Partial<Registry>;
}

async function readSchedules(db: Db, after: string, limit: number): Promise<StoredSchedule[]> {
  const rows = await db
    .selectFrom('schedule')
    .selectAll()
    .where('name', '>', after)
    .orderBy('name')
    .limit(limit)
    .execute();
  return fitting(rows).map(scheduleOf);
}

const fitting = <R extends Row>(rows: readonly R[]): readonly R[] =>
  firstWithin(rows, limits.schedulesBytesMax, ({ record }) => Buffer.byteLength(record));

async function readSchedule(db: Db, name: string): Promise<StoredSchedule | null> {
  const row = await rowOf(db, name);
  return row === undefined ? null : scheduleOf(row);
}

const rowOf = (db: Db, name: string): Promise<Row | undefined> =>
  db.selectFrom('schedule').selectAll().where('name', '=', name).executeTakeFirst();

/** Its first instant counts as claimed before: an earlier schedule of this name may have made it. */
async function insertSchedule(
  trx: Trx,
  record: ScheduleRecord,
  nextAt: number | null,
): Promise<'created' | 'exists' | 'full'> {
  if ((await readSchedule(trx, record.name)) !== null) return 'exists';
  const { count } = await trx
    .selectFrom('schedule')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow();
  if (count >= limits.schedulesMax) return 'full';
  const work = { made_at: null, claim_until: 0, claims: 1, problem: null };
  await trx
    .insertInto('schedule')
    .values({
      name: record.name,
      record: JSON.stringify(record),
      revision: record.revision,
      next_at: nextAt,
      ...work,
    })
    .execute();
  return 'created';
}

/** Compare-and-set by the revision before. A new next instant counts as claimed before: it was computed
 *  before this write, and may have been made meanwhile. */
async function updateSchedule(
  trx: Trx,
  record: ScheduleRecord,
  nextAt: number | null,
  now: number,
): Promise<'updated' | 'changed' | 'absent' | 'full'> {
  const row = await rowOf(trx, record.name);
  if (row === undefined) return 'absent';
  const old = scheduleOf(row);
  if (old.revision !== record.revision - 1) return 'changed';
  // Claimed after the caller read the clock: its job may be made in the earlier topic.
  const claimedAt = row.claim_until > 0 ? (old.nextAt ?? now) : now;
  // One that is further ahead was claimed by a clock that was wrong.
  const dueUntil = claimedAt <= now + limits.tickLateMs ? Math.max(now, claimedAt) : now;
  const times = changedTimes(old, record, nextAt, dueUntil);
  if (times === null) return 'full';
  // The change forgets its claim.
  const wasClaimed = row.claim_until > 0 && old.nextAt !== null;
  const madeAt = wasClaimed ? Math.max(old.nextAt, old.madeAt ?? old.nextAt) : old.madeAt;
  await trx
    .updateTable('schedule')
    .set({
      record: JSON.stringify({ ...record, earlier: times.earlier }),
      revision: record.revision,
      ...(times.isKept ? {} : { next_at: times.nextAt, claim_until: 0, claims: 1, made_at: madeAt }),
    })
    .where('name', '=', record.name)
    .execute();
  return 'updated';
}

async function deleteSchedule(
  trx: Trx,
  name: string,
  revision?: number,
): Promise<'removed' | 'changed' | 'absent'> {
  const row = await rowOf(trx, name);
  if (row === undefined) return 'absent';
  if (revision !== undefined && row.revision !== revision) return 'changed';
  await trx.deleteFrom('schedule').where('name', '=', name).execute();
  return 'removed';
}

/** The earliest first. A claim that ended before its instant was made is taken again. Long records make it
 *  fewer than `max`. */
async function claimDue(trx: Trx, now: number, until: number, max: number): Promise<DueTick[]> {
  const rows = fitting(await dueRows(trx, now, until, max));
  if (rows.length === 0) return [];
  await trx
    .updateTable('schedule')
    .set(({ eb }) => ({ claim_until: until, claims: eb('claims', '+', 1) }))
    .where(
      'name',
      'in',
      rows.map(({ name }) => name),
    )
    .execute();
  return rows.map((row) => ({
    schedule: scheduleOf(row),
    dueAt: row.next_at,
    // A clock that went back repeats instants: their jobs may exist.
    wasClaimed: row.claims > 0 || row.next_at <= (row.made_at ?? Number.NEGATIVE_INFINITY),
    claimedUntil: until,
  }));
}

/** Ends claims. An instant that another process ended or claimed meanwhile stays as it is: freed, a third one
 *  could push its job beside the one that has the claim. An instant that stays counts as claimed before: its
 *  job may be made. Of a changed schedule it stays too, and is free at once: the next one follows from the
 *  new times.
 *  Ends with equal values are one statement: of many schedules that are due at once, nearly all. */
async function endTicks(trx: Trx, ends: readonly TickEnd[]): Promise<void> {
  const groups = grouped(ends, ({ name: _, ...values }) => JSON.stringify(values));
  for (const group of groups.values()) {
    const [{ dueAt, revision, claimedUntil, nextAt, madeAt, problem }] = group as [TickEnd];
    const names = group.map(({ name }) => name);
    const latest = madeAt ?? dueAt;
    // An instant that is moved while it is claimed may have been made: its claim is forgotten here.
    const leastClaim = madeAt === null ? 1 : 0;
    const { numUpdatedRows } = await trx
      .updateTable('schedule')
      .set(({ eb, ref }) => ({
        // Before claim_until: MySQL assigns in this order, and reads the new values.
        ...(madeAt === null && claimedUntil !== null
          ? {}
          : {
              made_at: eb
                .case()
                // The latest one, also after the clock went back.
                .when(eb.or([eb('made_at', '>', latest), eb('claim_until', '<', leastClaim)]))
                .then(ref('made_at'))
                .else(latest)
                .end(),
            }),
        next_at: nextAt,
        // An instant that does not follow may have been made, as one that stays.
        claim_until: 0,
        claims: nextAt !== null && nextAt <= dueAt ? 1 : 0,
        problem,
      }))
      .where('name', 'in', names)
      .where('next_at', '=', dueAt)
      .where('revision', '=', revision)
      .$if(claimedUntil !== null, (query) => query.where('claim_until', '=', claimedUntil))
      .executeTakeFirst();
    if (Number(numUpdatedRows) === group.length || claimedUntil === null) continue;
    await trx
      .updateTable('schedule')
      .set({ claim_until: 0, claims: 1 })
      .where('name', 'in', names)
      .where('next_at', '=', dueAt)
      .where('claim_until', '=', claimedUntil)
      .execute();
  }
}

/** `until`: the end of a claim that begins at `now`. One that ends much later is of a clock that was
 *  ahead. */
const dueRows = (db: Db, now: number, until: number, max: number) =>
  db
    .selectFrom('schedule')
    .selectAll()
    .$narrowType<{ next_at: NotNull }>()
    .where('next_at', '<=', now)
    .where((eb) => eb.or([eb('claim_until', '<=', now), eb('claim_until', '>', until + (until - now))]))
    .orderBy('next_at')
    .orderBy('name')
    .limit(max)
    .execute();

function scheduleOf(row: Row): StoredSchedule {
  const { earlier = [], ...record } = JSON.parse(row.record) as ScheduleRecord &
    Partial<Pick<StoredSchedule, 'earlier'>>;
  return {
    ...record,
    revision: row.revision,
    earlier,
    nextAt: row.next_at,
    madeAt: row.made_at,
    problem: row.problem,
  };
}
