// Stores the audit log. Its ids begin with the time of the entry, so one index orders and bounds every list.
// Bounded work: a list examines at most sqlLimits.auditScanMax entries and says where it stopped.

import { sql } from 'kysely';
import { type AuditEntry, type AuditFilter, auditIdPattern, firstAuditId } from '../../../core/audit.ts';
import { limits } from '../../../core/limits.ts';
import type { AuditPage, Registry } from '../../../ports/registry.ts';
import { sqlLimits } from '../limits.ts';
import type { Db, RegistryAccess, Trx } from '../registry-engine.ts';
import type { RegistrySchema } from '../schema/registry-schema.ts';

/** behind every id */
const end = 'g';

export function auditVerbs(db: RegistryAccess) {
  return {
    addAudit: (entries) => db.write((trx) => insertAudit(trx, entries)),
    audit: (filter, before, limit) => db.read((tables) => readAudit(tables, filter, before, limit)),
    trimAudit: (before) => db.write((trx) => deleteAudit(trx, before)),
  } satisfies Partial<Registry>;
}

/** A known id changes nothing: a call may be repeated. */
async function insertAudit(trx: Trx, entries: readonly AuditEntry[]): Promise<void> {
  const batch = entries.slice(0, limits.auditBatchMax).filter(({ id }) => auditIdPattern.test(id));
  if (batch.length === 0) return;
  const ids = batch.map(({ id }) => id);
  const stored = await trx.selectFrom('audit').select('id').where('id', 'in', ids).execute();
  const known = new Set(stored.map(({ id }) => id));
  const rows = batch
    .filter(({ id }) => !known.has(id))
    .map(({ id, actor, address, action, topic, jobId, detail, status, code }) => ({
      id,
      actor,
      address,
      action,
      topic,
      status,
      code,
      job: jobId,
      detail: detail === null ? null : JSON.stringify(detail),
    }));
  if (rows.length > 0) await trx.insertInto('audit').values(rows).execute();
}

async function readAudit(
  db: Db,
  filter: AuditFilter,
  before: string | null,
  limit: number,
): Promise<AuditPage> {
  const { topic, jobId, actor, action, since, until } = filter;
  const bounds = [before ?? end, until === undefined ? end : firstAuditId(until)];
  let examined = db
    .selectFrom('audit')
    .selectAll()
    .where('id', '<', bounds[0] as string)
    .where('id', '<', bounds[1] as string)
    .where('id', '>=', since === undefined ? '' : firstAuditId(since));
  if (topic !== undefined) examined = examined.where('topic', '=', topic);
  let found = db
    .selectFrom(examined.orderBy('id', 'desc').limit(sqlLimits.auditScanMax).as('examined'))
    .selectAll();
  if (jobId !== undefined) found = found.where('job', '=', jobId);
  if (actor !== undefined)
    found = found.where((has) =>
      has.or([
        has('actor', '=', actor),
        // `dq CLI (li.wei)` is an entry of `dq CLI`, and of `li.wei`. Other names have no bracket.
        has(sql<number>`instr(actor, ${`${actor} (`})`, '=', 1),
        has(sql<number>`instr(actor, ${` (${actor})`})`, '>', 0),
      ]),
    );
  if (action !== undefined) found = found.where('action', '=', action);
  const rows = await found
    .orderBy('id', 'desc')
    .limit(limit + 1)
    .execute();
  const items = rows.slice(0, limit).map(toEntry);
  if (rows.length > limit) return { items, next: items.at(-1)?.id ?? null };
  const last = await examined
    .clearSelect()
    .select('id')
    .orderBy('id', 'desc')
    .limit(1)
    .offset(sqlLimits.auditScanMax - 1)
    .executeTakeFirst();
  return { items, next: last?.id ?? null };
}

async function deleteAudit(trx: Trx, before: string): Promise<{ readonly more: boolean }> {
  const excess = await trx
    .selectFrom('audit')
    .select('id')
    .orderBy('id', 'desc')
    .limit(1)
    .offset(limits.auditMax)
    .executeTakeFirst();
  // The newest entry beyond the maximum goes with those before it.
  const bound = [before, excess === undefined ? '' : `${excess.id}g`].sort().at(-1) as string;
  const old = await trx
    .selectFrom('audit')
    .select('id')
    .where('id', '<', bound)
    .orderBy('id')
    .limit(sqlLimits.auditTrimMax)
    .execute();
  const last = old.at(-1);
  if (last !== undefined) await trx.deleteFrom('audit').where('id', '<=', last.id).execute();
  return { more: old.length === sqlLimits.auditTrimMax };
}

function toEntry(row: RegistrySchema['audit']): AuditEntry {
  const { id, actor, address, action, topic, job, status, code } = row;
  const at = Number.parseInt(id.slice(0, 12), 16);
  return { id, at, actor, address, action, topic, jobId: job, detail: detailOf(row.detail), status, code };
}

/** null for a damaged text: the rest of the entry is readable. */
function detailOf(text: string | null): AuditEntry['detail'] {
  try {
    return text === null ? null : (JSON.parse(text) as AuditEntry['detail']);
  } catch {
    return null;
  }
}
