// Finds single jobs that the store lost without a rollback: they wait in the journal, are overdue, and the
// store does not have them. Puts them back.
// Invariants: a job is put back only if its row is open after all instances have shipped what their spools
// held. An audit follows a round without failure: after an outage of MySQL the instances report first. So the
// history of the store still holds every end that the journal may not know. One without a sign stops the
// audits: the history of ends that only its spool has may be removed by now.

import { isRestorable } from '../../core/job-change.ts';
import { inBatches } from '../../core/lists.ts';
import { type KeyPage, noCounts, type RestoreCounts } from '../../ports/journal.ts';
import { Agent } from '../../runtime/loop.ts';
import { monotonicNow, sleep, wallNow } from '../../runtime/time.ts';
import { journalLimits } from '../limits.ts';
import { isStillPassed, type Passed, shippedByAll } from './barrier.ts';
import type { Looker } from './looker.ts';
import { changeOf, countsOf, type HealingParts, sumOf, unlessEnded, WorkEnded } from './put-outcomes.ts';

interface AuditorOptions extends HealingParts {
  readonly looker: Pick<Looker, 'allowedNow'>;
  /** for tests: other values of journalLimits */
  readonly everyMs?: number;
  readonly overdueMs?: number;
  readonly barrierMs?: number;
}

type OverdueJob = KeyPage['keys'][number];

export class Auditor extends Agent {
  readonly #options: AuditorOptions;
  #hasFailed = true;

  constructor(options: AuditorOptions) {
    super({
      log: options.log,
      failure: 'auditor: cannot compare overdue jobs with the store',
      end: 'auditor: compares overdue jobs with the store again',
      work: () => unlessEnded(this.#round()),
      everyMs: options.everyMs ?? journalLimits.auditEveryMs,
      onFailure: () => {
        this.#hasFailed = true;
      },
    });
    this.#options = options;
  }

  async #round(): Promise<void> {
    const { journal, instance, refresh } = this.#options;
    const living = (await journal.instances()).filter(({ ageMs }) => ageMs < journalLimits.restoreSeenMs);
    // One instance does it for all.
    const isOurs = living[0]?.instance === instance;
    if (isOurs && !this.#hasFailed) {
      await refresh();
      await this.#audit();
    }
    this.#hasFailed = false;
  }

  async #audit(): Promise<void> {
    const { journal, instance, log, retentionMs, barrierMs = journalLimits.restoreBarrierMs } = this.#options;
    const lacking = await this.#findLacking();
    if (lacking.length === 0) return;
    const passed = await shippedByAll(journal, {
      self: instance,
      seenMs: journalLimits.auditSeenMs,
      maxMs: barrierMs,
      silent: { withinMs: retentionMs, maxMs: 0 },
      meanwhile: async () => this.#checkDrain(),
    });
    if (passed.behind.length > 0) {
      const hosts = passed.behind.map(({ host }) => host).join(', ');
      log.notice('auditor: waits for instances that do not ship their changes', { hosts });
      return;
    }
    // An instance may have raised it before it reached the barrier.
    const since = await journal.since();
    let counts = noCounts;
    for (const batch of inBatches(lacking, journalLimits.auditBatch)) {
      this.#checkDrain();
      counts = sumOf(counts, await this.#putBack(batch, since, passed));
    }
    if (counts.put > 0)
      log.error('auditor: the store had lost jobs; they are put back', undefined, { ...counts });
  }

  /** The overdue jobs that the store does not have. Most of them have ended, and the row does not say so
   *  yet. */
  async #findLacking(): Promise<readonly OverdueJob[]> {
    const { journal, healing, overdueMs = journalLimits.auditOverdueMs } = this.#options;
    const since = await journal.since();
    const lacking: OverdueJob[] = [];
    let cursor: string | null = null;
    do {
      this.#checkDrain();
      const began = monotonicNow();
      const filter = { until: wallNow() - overdueMs, acceptedFrom: since, isRestorable: true };
      const page: KeyPage = await journal.openKeys('waiting', filter, cursor);
      const answers = await healing.lacks(page.keys);
      lacking.push(...page.keys.filter((_, i) => answers[i] === true));
      cursor = page.nextCursor;
      await sleep(monotonicNow() - began);
    } while (cursor !== null && lacking.length < journalLimits.auditMax);
    return lacking;
  }

  /** A bucket with a note puts nothing back here: its healing does. */
  async #putBack(jobs: readonly OverdueJob[], since: number, passed: Passed): Promise<RestoreCounts> {
    const { journal, healing, looker, record } = this.#options;
    const allowed = looker.allowedNow();
    const open = (await journal.rows(jobs)).filter(
      (row) => row.state === 'waiting' && isRestorable(row) && (row.pushed?.acceptedAt ?? 0) >= since,
    );
    // The next audit compares the others.
    if (!(await isStillPassed(journal, passed))) return noCounts;
    const outcomes = await healing.put(open, allowed);
    await record(open.flatMap((row, i) => changeOf(row, outcomes[i] ?? { kind: 'kept' })));
    return countsOf(outcomes);
  }

  #checkDrain(): void {
    if (this.isDraining) throw new WorkEnded();
  }
}
