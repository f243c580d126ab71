// Implements promote and reserve, the two moves that scan an index. Each is one step of its transaction.
// wheel.ts plans in memory which jobs are reserved, in which order; the file is read only for these jobs.

import { optionsIn } from '../../../core/extension.ts';
import { isPulled, type ReservedJob } from '../../../core/job.ts';
import { limits } from '../../../core/limits.ts';
import { deadReasonCodes, priorityCodes } from '../../../core/stored-codes.ts';
import type { Reserved, ReserveRequest } from '../../../ports/job-store.ts';
import { type Database, rowsBy } from '../../../runtime/database.ts';
import { delayed, ready, reserved, type StateCode } from '../file/schema.ts';
import { sqliteLimits } from '../limits.ts';
import { asBuffer, type JobRow } from './job-rows.ts';
import type { RingViews } from './ring.ts';
import { stepMax, type TransactionContext } from './transaction-context.ts';

const poison = deadReasonCodes.indexOf('poison');

/** A ready job whose turn it is. */
interface Candidate {
  readonly row: JobRow;
  readonly acceptedAt: number;
  readonly contentType: string | null;
  readonly extension: Uint8Array | null;
  /** number: its length, above sqliteLimits.joinedBodyMax; null: missing in a damaged file */
  readonly body: Uint8Array | number | null;
}

/** A row of readyJobs. */
type ReadyColumns = readonly [
  n: number,
  id: Uint8Array,
  due: number,
  version: number,
  origin: number,
  failures: number,
  strikes: number,
  acceptedAt: number,
  contentType: string | null,
  extension: Uint8Array | null,
  body: Candidate['body'],
];

const statementsOf = (db: Database) => ({
  promote: rowsBy(
    db,
    `UPDATE job SET state = 1 WHERE n IN
     (SELECT n FROM job WHERE state = 0 AND due <= ? ORDER BY due, version LIMIT ?) RETURNING topic, prio, due, version`,
  ),
  // length() of a blob reads its header, not its pages. Each column of a row costs 50 ns: none is selected
  // that is known.
  readyJobs: rowsBy(
    db,
    `SELECT job.n, job.id, job.due, job.version, job.origin, job.failures, job.strikes,
     job.accepted_at, job.ctype, job.extension,
     iif(length(body.bytes) <= ${sqliteLimits.joinedBodyMax}, body.bytes, length(body.bytes))
     FROM job LEFT JOIN body ON body.n = job.n
     WHERE job.state = 1 AND job.prio = ? AND job.topic = ? ORDER BY job.due, job.version LIMIT ?`,
  ),
  countReady: rowsBy(db, 'SELECT count(*) FROM job WHERE state = 1 AND prio = ? AND topic = ?'),
  countPulled: rowsBy(
    db,
    'SELECT count(*) FROM job INDEXED BY job_pulled WHERE state = 2 AND owner_instance = 0',
  ),
  body: rowsBy(db, 'SELECT bytes FROM body WHERE n = ?'),
});

export class Moves {
  readonly #tx: TransactionContext;
  readonly #sql: ReturnType<typeof statementsOf>;

  constructor(tx: TransactionContext) {
    this.#tx = tx;
    this.#sql = statementsOf(tx.db);
  }

  /** Whether promote would change nothing; answered from memory. */
  nothingIsDue(): boolean {
    const head = this.#tx.counters.head();
    return head === null || head > this.#tx.now;
  }

  /** Whether reserve would change nothing. */
  nothingIsReady(): boolean {
    return this.#tx.counters.total(ready) === 0;
  }

  /** For a caller whose capacities are kept from one reserve to the next. */
  ringViews(): RingViews {
    return this.#tx.counters.views();
  }

  /** Returns the number of promoted jobs. */
  promote(max: number): number {
    if (this.nothingIsDue()) return 0;
    const { counters, now } = this.#tx;
    const moved = this.#sql.promote.all(now, stepMax(this.#tx, Math.min(max, limits.promoteMax))) as [
      number,
      number,
      number,
      number,
    ][];
    // RETURNING has no order, and topics join the rings in the order of their jobs.
    moved.sort(([, , dueA, a], [, , dueB, b]) => dueA - dueB || a - b);
    for (const [topic, prio] of moved) {
      counters.count(topic, prio, delayed, -1);
      counters.count(topic, prio, ready, 1);
    }
    counters.delayedRemoved(null);
    return moved.length;
  }

  /** `views`: the rings as this caller used them before. */
  reserve(asked: ReserveRequest, views?: RingViews): Reserved {
    if (!isPulled(asked.owner)) return this.#reserve(asked, views);
    const left = this.#pullLeasesLeft();
    const request = { ...asked, max: Math.min(asked.max, Math.max(left, 1)) };
    const full = this.#topicsWith(left, asked);
    if (full.length === 0) return this.#reserve(request, views);
    // Views know the topics without capacity only from what the caller sends.
    const topics = new Map(asked.topics);
    for (const topic of full) topics.set(topic, { room: 0, leaseMs: 0 });
    const answer = this.#reserve({ ...request, topics });
    if (answer.jobs.length > 0 || answer.more) return answer;
    return { ...answer, atLeaseLimit: full };
  }

  #pullLeasesLeft(): number {
    const { pullLeasesMax } = limits;
    // With fewer reserved jobs than half of them, no topic has as many leases as are left.
    if (2 * this.#tx.counters.total(reserved) < pullLeasesMax) return pullLeasesMax;
    const [pulled] = this.#sql.countPulled.get() as [number];
    return pullLeasesMax - pulled;
  }

  /** Topics that would get jobs, and have at least so many reserved ones. */
  #topicsWith(leases: number, { topics, others }: ReserveRequest): string[] {
    const { counters } = this.#tx;
    if (counters.total(reserved) < leases) return [];
    const of = (no: number, state: StateCode) =>
      [0, 1, 2].reduce((sum, prio) => sum + counters.countOf(no, prio, state), 0);
    const named = [...topics].flatMap(([topic, { room }]) => (room > 0 ? [topic] : []));
    const rest = others.room > 0 ? [...counters.topicNumbers()].map((no) => counters.topicName(no)) : [];
    return [...new Set([...named, ...rest.filter((topic) => topics.get(topic) === undefined)])].filter(
      (topic) => {
        const no = counters.topicNumber(topic);
        return no !== undefined && of(no, ready) > 0 && of(no, reserved) >= leases;
      },
    );
  }

  #reserve(request: ReserveRequest, views?: RingViews): Reserved {
    const { counters } = this.#tx;
    const max = stepMax(this.#tx, Math.min(request.max, limits.reserveMax));
    const bounded = { ...request, max };
    let plan = counters.deal(bounded, views);
    if (plan.deals.length === 0) return { jobs: [], more: plan.more, now: null };
    const candidates = this.#candidates(plan.deals);
    // Every later call would meet the same damaged rows: they were repaired, and the caller calls again.
    if (candidates === null) return { jobs: [], more: true, now: null };
    const fitting = countFitting(candidates);
    // A plan for fewer jobs is a prefix of the plan for more.
    if (fitting < candidates.length) plan = counters.deal({ ...bounded, max: fitting }, views);
    counters.turn(plan);
    const jobs = candidates.slice(0, fitting).map((job) => this.#lease(job, request));
    return { jobs, more: plan.more, now: this.#tx.now };
  }

  /** One per deal, in order; null: some rows were damaged and are no longer ready. */
  #candidates(deals: ReturnType<TransactionContext['counters']['deal']>['deals']): Candidate[] | null {
    const queues = priorityCodes.map(() => new Map<string, { count: number; jobs: Candidate[] }>());
    const queueOf = ({ priority, topic }: (typeof deals)[number]) => {
      const ofPriority = queues[priorityCodes.indexOf(priority)] as (typeof queues)[number];
      let queue = ofPriority.get(topic);
      if (queue === undefined) {
        queue = { count: 0, jobs: [] };
        ofPriority.set(topic, queue);
      }
      return queue;
    };
    for (const deal of deals) queueOf(deal).count += 1;
    let isDamaged = false;
    for (const [prio, ofPriority] of queues.entries())
      for (const [topic, queue] of ofPriority) {
        const jobs = this.#earliest(prio, topic, queue.count);
        isDamaged = this.#mended(prio, topic, jobs, queue.count) || isDamaged;
        queue.jobs = jobs.reverse();
      }
    if (isDamaged) return null;
    return deals.map((deal) => queueOf(deal).jobs.pop() as Candidate);
  }

  /** Repairs damaged rows; returns whether there were any. Jobs without a body are buried, because they
   *  cannot be called; wrong counts are corrected. */
  #mended(prio: number, topic: string, queue: readonly Candidate[], counted: number): boolean {
    const { counters, rows, now } = this.#tx;
    const no = counters.topicNumber(topic) as number;
    if (queue.length < counted) {
      const [there] = this.#sql.countReady.get(prio, no) as [number];
      this.#tx.onDamage(
        `store damaged: topic ${topic} has ${there} ready jobs, fewer than counted; count corrected`,
      );
      counters.recount(no, prio, ready, there);
    }
    const without = queue.filter(({ body }) => body === null);
    for (const { row } of without) {
      this.#tx.onDamage(
        `store damaged: job ${topic}/${row.id} has no body; buried; purge it or push it again`,
      );
      const { failures, strikes } = row;
      rows.bury(row, { failures, strikes, at: now, reason: poison, attempt: null });
    }
    return without.length > 0 || queue.length < counted;
  }

  #earliest(prio: number, topic: string, count: number): Candidate[] {
    const no = this.#tx.counters.topicNumber(topic) as number;
    const rows = this.#sql.readyJobs.all(prio, no, count) as ReadyColumns[];
    return rows.map((of) => {
      const row: JobRow = {
        n: of[0],
        topic: no,
        id: asBuffer(of[1]).toString(),
        state: ready,
        prio,
        due: of[2],
        version: of[3],
        origin: of[4],
        failures: of[5],
        strikes: of[6],
        token: null,
        deadAt: null,
      };
      return { row, acceptedAt: of[7], contentType: of[8], extension: of[9], body: of[10] };
    });
  }

  #lease(candidate: Candidate, request: ReserveRequest): ReservedJob {
    const { row, acceptedAt, contentType, extension, body } = candidate;
    const { counters, rows, now } = this.#tx;
    const topic = counters.topicName(row.topic);
    const requested = (request.topics.get(topic) ?? request.others).leaseMs;
    const { leaseMs = requested } = isPulled(request.owner) ? optionsIn(extension) : {};
    const token = counters.nextNumber(now);
    rows.reserve(row, { token, ...request.owner, until: now + Math.ceil(leaseMs) });
    return {
      topic,
      id: row.id,
      version: row.version,
      token,
      origin: row.origin,
      dueAt: row.due,
      acceptedAt,
      failures: row.failures,
      strikes: row.strikes,
      leaseMs,
      contentType,
      body: asBuffer(body instanceof Uint8Array ? body : (this.#sql.body.get(row.n) as [Uint8Array])[0]),
      ...(extension === null ? {} : { extension: asBuffer(extension) }),
    };
  }
}

/** How many of the first candidates fit into one answer; at least one. */
function countFitting(candidates: readonly Candidate[]): number {
  let bytes = 0;
  for (const [i, { body }] of candidates.entries()) {
    bytes += (typeof body === 'object' ? (body?.length ?? 0) : body) + limits.idBytesMax;
    if (i > 0 && bytes > limits.reserveBytesMax) return i;
  }
  return candidates.length;
}
