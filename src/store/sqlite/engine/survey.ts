// Examines many jobs in pieces: each function is one bounded piece, and owner/survey-service.ts decides when
// the next one runs. Read only.
// Why pieces on the owner's connection: an open jobs.db has one connection (locking_mode EXCLUSIVE, and no
// index of the WAL that another connection could read), so a thread could read it only while it is frozen;
// freezing checkpoints the WAL, which delays pushes more than a piece does.

import type { FoundJob, JobKey, JobState } from '../../../core/job.ts';
import { deadReasonCodes, stateCodes } from '../../../core/stored-codes.ts';
import type { ScanFilter } from '../../../ports/job-store.ts';
import { StoreError } from '../../../ports/store-error.ts';
import { type Database, rowsBy } from '../../../runtime/database.ts';
import { monotonicNow } from '../../../runtime/time.ts';
import { storeLimits } from '../../limits.ts';
import { matches, type Place } from '../../pages.ts';
import type { GroupedDeath, LastAttempt } from '../../surveys.ts';
import { dead, delayed, ready, reserved, type StateCode } from '../file/schema.ts';
import { sqliteLimits } from '../limits.ts';
import { foundColumns, readFound, sharingParameters } from './search.ts';
import type { TransactionContext } from './transaction-context.ts';

/** A piece of a scan. `cursor`: where the next piece begins; null: at the end */
interface ScanPiece {
  readonly items: readonly FoundJob[];
  readonly cursor: string | null;
  readonly examined: number;
}

interface DeadPiece {
  readonly letters: readonly GroupedDeath[];
  /** null: at the end */
  readonly place: Place | null;
}

const statementsOf = (db: Database) => {
  // Statements for one piece share their parameters, and each uses some of them.
  const prepare = (sql: string) => sharingParameters(rowsBy(db, sql));
  const due = (index: string, where: string) => {
    const found = `FROM job INDEXED BY ${index} WHERE ${where} ended_at IS NULL AND due >= :at AND due < :end
      AND (due, version) > (:at, :version) ORDER BY due, version`;
    return {
      edge: prepare(`SELECT due, version ${found} LIMIT 1 OFFSET :rows - 1`),
      count: prepare(`SELECT count(*) FROM (SELECT due ${found} LIMIT :rows)`),
    };
  };
  // A requeue sets the failures to 0, and the attempts before it stay.
  const deaths = (index: string, where: string) =>
    prepare(
      `SELECT job.topic, job.dead_at, job.version, job.reason,
         CASE WHEN failures > 0 AND json_valid(list) THEN json_extract(list, '$[#-1].reason') END,
         CASE WHEN failures > 0 AND json_valid(list) THEN json_extract(list, '$[#-1].status') END
       FROM job INDEXED BY ${index} LEFT JOIN attempts ON attempts.n = job.n
       WHERE ${where} state = 3 AND (dead_at, job.version) < (:at, :version)
       ORDER BY dead_at DESC, job.version DESC LIMIT :rows`,
    );
  return {
    ahead: prepare(
      `SELECT count(*) FROM (SELECT 1 FROM job INDEXED BY job_ready WHERE state = 1 AND prio = ? AND topic = ?
         AND (due, version) < (?, ?) LIMIT ?)`,
    ),
    // length() reads the header of a body only, so a piece with large bodies is found before it is read.
    bodyEdge: prepare(
      `SELECT max(n), count(*), total(length(bytes)) FROM
         (SELECT n, bytes FROM body WHERE n > :after ORDER BY n LIMIT :rows)`,
    ),
    bodyRows: prepare(
      `SELECT ${foundColumns}, job.n FROM body CROSS JOIN job ON job.n = body.n
       WHERE body.n > :after AND body.n <= :edge AND instr(body.bytes, :part) > 0
       ORDER BY body.n LIMIT :limit`,
    ),
    bodiesUpTo: prepare('SELECT count(*) FROM body WHERE n > :after AND n <= :edge'),
    ids: prepare(
      `SELECT ${foundColumns}, n FROM job INDEXED BY job_key
       WHERE topic = :topic AND id >= :from AND id < :end ORDER BY id LIMIT :rows`,
    ),
    hasInBody: prepare('SELECT instr(bytes, ?) > 0 FROM body WHERE n = ?'),
    due: due('job_time', ''),
    dueOfTopic: due('job_topic', 'topic = :topic AND'),
    dead: deaths('job_dead', ''),
    deadOfTopic: deaths('job_dead_topic', 'topic = :topic AND'),
  };
};

export class Survey {
  readonly #tx: TransactionContext;
  readonly #sql: ReturnType<typeof statementsOf>;

  constructor(tx: TransactionContext) {
    this.#tx = tx;
    this.#sql = statementsOf(tx.db);
  }

  /** The storage clock of the last group. */
  get now(): number {
    return this.#tx.now;
  }

  /** Surveys.position */
  position({ topic, id }: JobKey): number | null {
    const row = this.#tx.rows.find(topic, id);
    if (row?.state !== ready) return null;
    const args = [row.prio, row.topic, row.due, row.version, storeLimits.positionMax];
    return (this.#sql.ahead.get(...args) as [number])[0];
  }

  /** Numbers of the known topics, ascending; null: all */
  numbersOf(topics: readonly string[] | null | undefined): readonly number[] | null {
    if (topics === null || topics === undefined) return null;
    const known = topics.map((name) => this.#tx.counters.topicNumber(name));
    return known.filter((no) => no !== undefined).sort((a, b) => a - b);
  }

  /** Jobs of these topics and states, from memory. */
  countOf(topics: readonly number[] | null, states: readonly StateCode[]): number {
    const { counters } = this.#tx;
    let sum = 0;
    for (const state of states)
      if (topics === null) sum += counters.total(state);
      else for (const no of topics) for (const prio of [0, 1, 2]) sum += counters.countOf(no, prio, state);
    return sum;
  }

  // Scan

  /** By id where a prefix bounds the ids, else body by body. */
  scan(filter: ScanFilter, limit: number, cursor: string | null): ScanPiece {
    return filter.idPrefix === undefined
      ? this.#scanBodies(filter, limit, cursor)
      : this.#scanIds(filter, filter.idPrefix, limit, cursor);
  }

  #scanBodies(filter: ScanFilter, limit: number, cursor: string | null): ScanPiece {
    const after = cursor === null ? -1 : Number(partsOf(cursor, /^(\d{1,16})$/)[0]);
    let edge: [number | null, number, number];
    let most: number = 2 * sqliteLimits.surveyBodies;
    do {
      most = Math.ceil(most / 2);
      edge = this.#sql.bodyEdge.get({ after, rows: most }) as typeof edge;
    } while (edge[2] > sqliteLimits.surveyBodyBytes && most > 1);
    const [end, examined] = edge;
    if (end === null) return { items: [], cursor: null, examined: 0 };
    const range = { after, edge: end, part: bytesOf(filter.body), limit };
    const found = this.#sql.bodyRows.all(range) as unknown[][];
    const topics = filter.topics === undefined ? null : new Set(this.numbersOf(filter.topics));
    const items = found
      .filter(([topic]) => topics === null || topics.has(topic as number))
      .map((row) => this.#read(row))
      .filter((job) => matches(filter, job));
    if (found.length < limit) return { items, cursor: examined < most ? null : String(end), examined };
    const last = found.at(-1)?.at(-1) as number;
    const [upTo] = this.#sql.bodiesUpTo.get({ after, edge: last }) as [number];
    return { items, cursor: String(last), examined: upTo };
  }

  #scanIds(filter: ScanFilter, prefix: string, limit: number, cursor: string | null): ScanPiece {
    const place = cursor === null ? ['0', ''] : partsOf(cursor, /^(\d{1,16})\.((?:[0-9a-f]{2}){0,256})$/);
    const topics = this.numbersOf(filter.topics) ?? [...this.#tx.counters.topicNumbersAfter(0)];
    const [from, end] = rangeOf(prefix);
    const part = filter.body === undefined ? null : bytesOf(filter.body);
    const began = monotonicNow();
    const items: FoundJob[] = [];
    let examined = 0;
    let [no, id] = [Number(place[0]), Buffer.from(place[1] ?? '', 'hex')];
    const here = () => ({ items, cursor: `${no}.${id.toString('hex')}`, examined });
    for (const topic of topics) {
      if (topic < no) continue;
      if (topic > no) [no, id] = [topic, Buffer.alloc(0)];
      for (;;) {
        // One lower bound: with two, SQLite walks from the lower one.
        const first = id.length > 0 ? id : from;
        const found = this.#sql.ids.all({ topic, from: first, end, rows: sqliteLimits.surveyIds });
        for (const row of found as unknown[][]) {
          if (id.equals(row[1] as Uint8Array)) continue;
          id = Buffer.from(row[1] as Uint8Array);
          examined += 1;
          if (this.#isWanted(filter, row, part)) items.push(this.#read(row));
          if (items.length >= limit || monotonicNow() - began >= storeLimits.surveyStepMs) return here();
        }
        if (found.length < sqliteLimits.surveyIds) break;
      }
      // A topic without such ids costs a few µs, and there can be many.
      if (monotonicNow() - began >= storeLimits.surveyStepMs && topic !== topics.at(-1)) {
        id = Buffer.alloc(0);
        no = topic + 1;
        return here();
      }
    }
    return { items, cursor: null, examined };
  }

  #isWanted(filter: ScanFilter, row: readonly unknown[], part: Buffer | null): boolean {
    const job = this.#read(row);
    if (!matches(filter, job)) return false;
    return (
      part === null ||
      (this.#sql.hasInBody.get(part, row.at(-1) as number) as [number] | undefined)?.[0] === 1
    );
  }

  #read(row: readonly unknown[]): FoundJob {
    return readFound(this.#tx.counters, row);
  }

  // Horizon

  /** Jobs of a topic (null: all) with from ≤ dueAt < end after a place: at most surveyDues. */
  due(
    topic: number | null,
    after: Place,
    end: number,
  ): { readonly count: number; readonly place: Place | null } {
    const range = { topic, ...after, end, rows: sqliteLimits.surveyDues };
    const due = topic === null ? this.#sql.due : this.#sql.dueOfTopic;
    const edge = due.edge.get(range) as [number, number] | undefined;
    if (edge !== undefined)
      return { count: sqliteLimits.surveyDues, place: { at: edge[0], version: edge[1] } };
    return { count: (due.count.get(range) as [number])[0], place: null };
  }

  // Dead letters

  /** Of a topic (null: all), before a place, newest death first. */
  deadBefore(topic: number | null, place: Place): DeadPiece {
    const most = sqliteLimits.surveyDead;
    const range = { topic, ...place, rows: most };
    const found = (topic === null ? this.#sql.dead : this.#sql.deadOfTopic).all(range) as [
      number,
      number,
      number,
      number,
      LastAttempt['reason'],
      number | null,
    ][];
    const letters = found.map(([no, deadAt, , code, reason, status]) => ({
      topic: this.#tx.counters.topicName(no),
      deadAt,
      deadReason: deadReasonCodes[code] ?? 'attempts_exhausted',
      last: { reason, status },
    }));
    const last = found.at(-1);
    const more = last !== undefined && found.length === most;
    return { letters, place: more ? { at: last[1], version: last[2] } : null };
  }
}

/** The codes of a state, or of all. */
export function statesOf(state: JobState | undefined): readonly StateCode[] {
  return state === undefined ? [delayed, ready, reserved, dead] : [stateCodes.indexOf(state) as StateCode];
}

function bytesOf(base64: string | undefined): Buffer {
  return Buffer.from(base64 ?? '', 'base64');
}

/** First id, and the first one after all ids with the prefix. Ids are UTF-8, which has no byte 255. */
function rangeOf(prefix: string): readonly [from: Buffer, end: Buffer] {
  const from = Buffer.from(prefix);
  return [from, Buffer.concat([from, Buffer.from([255])])];
}

/** Throws StoreError for an invalid cursor. */
function partsOf(cursor: string, pattern: RegExp): readonly string[] {
  const [, ...parts] = pattern.exec(cursor) ?? [];
  if (parts.length === 0) throw new StoreError({ kind: 'not_stored', code: 'bad_cursor' });
  return parts;
}
