// promote and reserve: the two moves that scan an index. Each is one step of the transaction it runs in. What is taken, and
// in which order, is planned from memory (wheel.ts); the file is asked for exactly the planned jobs.

import type { ReservedJob } from '../../../core/job.ts';
import { limits } from '../../../core/limits.ts';
import type { Reserved, ReserveRequest } from '../../../ports/job-store.ts';
import type { Statement } from '../../../runtime/database.ts';
import { delayed, priorityCodes, ready, reasonCodes } from '../file/schema.ts';
import { asBuffer, type JobRow, jobColumns, jobRowOf } from './job-rows.ts';
import type { RingViews } from './ring.ts';
import { stepMax, type TransactionContext } from './transaction-context.ts';

const poison = reasonCodes.indexOf('poison');

/** A ready job that has its turn. */
interface Candidate {
  readonly row: JobRow;
  readonly acceptedAt: number;
  readonly contentType: string | null;
  /** null: a damaged file has no body of it */
  readonly bodyBytes: number | null;
}

export class Moves {
  readonly #bench: TransactionContext;
  readonly #promote: Statement;
  readonly #readyJobs: Statement;
  readonly #body: Statement;
  readonly #countReady: Statement;

  constructor(bench: TransactionContext) {
    this.#bench = bench;
    this.#promote = bench.db.prepare(
      `UPDATE job SET state = 1 WHERE n IN
       (SELECT n FROM job WHERE state = 0 AND due <= ? ORDER BY due, version LIMIT ?) RETURNING topic, prio, due, version`,
      { returnArrays: true },
    );
    // length() of a blob reads its header, not its pages.
    this.#readyJobs = bench.db.prepare(
      `SELECT ${jobColumns}, job.accepted_at, job.ctype, length(body.bytes)
       FROM job LEFT JOIN body ON body.n = job.n
       WHERE job.state = 1 AND job.prio = ? AND job.topic = ? ORDER BY job.due, job.version LIMIT ?`,
      { returnArrays: true },
    );
    this.#countReady = bench.db.prepare(
      'SELECT count(*) FROM job WHERE state = 1 AND prio = ? AND topic = ?',
      {
        returnArrays: true,
      },
    );
    this.#body = bench.db.prepare('SELECT bytes FROM body WHERE n = ?', { returnArrays: true });
  }

  /** Whether promote would change nothing; asks the memory. */
  nothingIsDue(): boolean {
    const head = this.#bench.ledger.head();
    return head === null || head > this.#bench.now;
  }

  /** Whether reserve would change nothing. */
  nothingIsReady(): boolean {
    return this.#bench.ledger.total(ready) === 0;
  }

  /** For a caller whose rooms are known from one reserve to the next. */
  ringViews(): RingViews {
    return this.#bench.ledger.views();
  }

  /** Answers how many moved. */
  promote(max: number): number {
    if (this.nothingIsDue()) return 0;
    const { ledger, now } = this.#bench;
    const moved = this.#promote.all(now, stepMax(this.#bench, Math.min(max, limits.promoteMax))) as [
      number,
      number,
      number,
      number,
    ][];
    // RETURNING knows no order, and topics join the turns in the order of their jobs.
    moved.sort(([, , dueA, a], [, , dueB, b]) => dueA - dueB || a - b);
    for (const [topic, prio] of moved) {
      ledger.count(topic, prio, delayed, -1);
      ledger.count(topic, prio, ready, 1);
    }
    ledger.delayedGoes(null);
    return moved.length;
  }

  /** `views`: the rings as the caller has asked for them before. */
  reserve(request: ReserveRequest, views?: RingViews): Reserved {
    const { ledger } = this.#bench;
    const asked = { ...request, max: stepMax(this.#bench, Math.min(request.max, limits.reserveMax)) };
    let plan = ledger.deal(asked, views);
    if (plan.deals.length === 0) return { jobs: [], more: plan.more, now: null };
    const candidates = this.#candidates(plan.deals);
    // What a damaged file has at the head of a queue would be met by every later call: it is put out of the way, and the caller asks again.
    if (candidates === null) return { jobs: [], more: true, now: null };
    const fitting = countFitting(candidates);
    // A plan for fewer is a prefix of the plan for more.
    if (fitting < candidates.length) plan = ledger.deal({ ...asked, max: fitting }, views);
    ledger.turn(plan);
    const jobs = candidates.slice(0, fitting).map((job) => this.#lease(job, request));
    return { jobs, more: plan.more, now: this.#bench.now };
  }

  /** One per deal, in its order; null = some of them cannot be delivered, and are no longer ready. */
  #candidates(deals: ReturnType<TransactionContext['ledger']['deal']>['deals']): Candidate[] | null {
    const queues = new Map<string, Candidate[]>();
    const counts = new Map<string, number>();
    for (const { priority, topic } of deals) {
      const name = `${priority} ${topic}`;
      counts.set(name, (counts.get(name) ?? 0) + 1);
    }
    let isDamaged = false;
    for (const { priority, topic } of deals) {
      const name = `${priority} ${topic}`;
      if (queues.has(name)) continue;
      const prio = priorityCodes.indexOf(priority);
      const queue = this.#earliest(prio, topic, counts.get(name) ?? 0);
      isDamaged = this.#mended(prio, topic, queue, counts.get(name) ?? 0) || isDamaged;
      queues.set(name, queue.reverse());
    }
    if (isDamaged) return null;
    return deals.map(({ priority, topic }) => queues.get(`${priority} ${topic}`)?.pop() as Candidate);
  }

  /** Whether there was something to mend: jobs without a body are buried, because they cannot be called, and counted are those that
   *  are there. */
  #mended(prio: number, topic: string, queue: readonly Candidate[], counted: number): boolean {
    const { ledger, rows, now } = this.#bench;
    const no = ledger.topicNumber(topic) as number;
    if (queue.length < counted) {
      const [there] = this.#countReady.get(prio, no) as [number];
      this.#bench.onDamage(
        `the store is damaged: of the ready jobs of topic ${topic} that are counted there are ${there}; they are counted anew`,
      );
      ledger.recount(no, prio, ready, there);
    }
    const without = queue.filter(({ bodyBytes }) => bodyBytes === null);
    for (const { row } of without) {
      this.#bench.onDamage(
        `the store is damaged: job ${topic}/${row.id} has lost its body; it is a dead letter now, and can only be purged or pushed again`,
      );
      const { failures, strikes } = row;
      rows.bury(row, { failures, strikes, at: now, reason: poison, attempt: null });
    }
    return without.length > 0 || queue.length < counted;
  }

  #earliest(prio: number, topic: string, count: number): Candidate[] {
    const no = this.#bench.ledger.topicNumber(topic);
    const rows = this.#readyJobs.all(prio, no, count) as unknown[][];
    return rows.map((columns) => {
      const [acceptedAt, contentType, bodyBytes] = columns.slice(12) as [
        number,
        string | null,
        number | null,
      ];
      return { row: jobRowOf(columns), acceptedAt, contentType, bodyBytes };
    });
  }

  #lease({ row, acceptedAt, contentType }: Candidate, request: ReserveRequest): ReservedJob {
    const { ledger, rows, now } = this.#bench;
    const topic = ledger.topicName(row.topic);
    const { leaseMs } = request.topics.get(topic) ?? request.others;
    const token = ledger.draw(now);
    rows.reserve(row, { token, ...request.owner, until: now + Math.ceil(leaseMs) });
    return {
      topic,
      id: row.id.toString(),
      version: row.version,
      token,
      origin: row.origin,
      dueAt: row.due,
      acceptedAt,
      failures: row.failures,
      strikes: row.strikes,
      leaseMs,
      contentType,
      body: asBuffer((this.#body.get(row.n) as [Uint8Array])[0]),
    };
  }
}

/** How many of the first have room in one answer; one always has. */
function countFitting(candidates: readonly Candidate[]): number {
  let bytes = 0;
  for (const [i, { bodyBytes }] of candidates.entries()) {
    bytes += (bodyBytes ?? 0) + limits.idBytesMax;
    if (i > 0 && bytes > limits.reserveBytesMax) return i;
  }
  return candidates.length;
}
