// Mistakes in the store, its client, the notifier and upkeep, each of which must break a rule in a simulated
// world (test/sim). A mistake that few worlds meet names the faults that it needs.
// Invariant (test/unit/mutants.test.ts): each text occurs once in its file.

import type { SimulatedMutant } from './mutants.ts';
import { editMutants } from './simulated-edits.ts';
import { masterMutants } from './simulated-master.ts';
import { orderMutants } from './simulated-orders.ts';
import { promiseMutants } from './simulated-promises.ts';
import { pullMutants } from './simulated-pull.ts';
import { verdictMutants } from './simulated-verdicts.ts';
import { workMutants } from './simulated-works.ts';

const engine = (name: string) => `src/store/sqlite/engine/${name}.ts`;
const notifier = (name: string) => `src/notifier/${name}.ts`;
const link = 'src/store/sqlite/client/link.ts';

export const simulatedMutants: readonly SimulatedMutant[] = [
  {
    name: 'ack-without-fence',
    edit: {
      file: engine('finish'),
      text: "FinishOutcome<'acked'> {\n  const row = leased(tx, item);",
      by: "FinishOutcome<'acked'> {\n  const row = tx.rows.find(item.topic, item.id) ?? null;",
    },
  },
  {
    name: 'an-open-behind-the-clock-skips-no-number',
    faults: 'powerCut,backupRestored,wallStep',
    edit: {
      file: engine('topic-counters'),
      text: 'this.#seq += randomInt(sqliteLimits.lostNumbersMax, sqliteLimits.skippedNumbersMax);',
      by: 'this.#seq += 0;',
    },
  },
  {
    name: 'lease-of-half-the-timeout',
    edit: {
      file: notifier('capacity-plan'),
      text: 'return timeoutMs + this.#options.leaseMarginMs;',
      by: 'return timeoutMs / 2;',
    },
  },
  {
    name: 'call-with-a-short-lease',
    faults: 'lateReply,pause,slowChannel',
    edit: {
      file: notifier('job-starter'),
      text: 'return !this.#isTooShort(held) && isCalled',
      by: 'return isCalled',
    },
  },
  {
    name: 'body-goes-with-the-reserve',
    edit: {
      file: engine('moves'),
      text: 'const token = counters.nextNumber(now);',
      by: "const token = counters.nextNumber(now);\n    this.#tx.db.prepare('DELETE FROM body WHERE n = ?').run(row.n);",
    },
  },
  {
    name: 'promote-1-s-early',
    edit: {
      file: engine('moves'),
      text: 'this.#promote.all(now, ',
      by: 'this.#promote.all(now + 1_000, ',
    },
  },
  {
    name: 'retry-counts-twice',
    edit: {
      file: engine('finish'),
      text: 'row.failures + (attempt === null ? 0 : 1)',
      by: 'row.failures + (attempt === null ? 0 : 2)',
    },
  },
  {
    name: 'retry-after-half-the-delay',
    edit: {
      file: engine('finish'),
      text: 'dueAfter(tx.now, item.delayMs)',
      by: 'dueAfter(tx.now, item.delayMs / 2)',
    },
  },
  {
    name: 'requeue-keeps-failures',
    edit: {
      file: engine('operator-moves'),
      text: '{ ...row, failures: 0, strikes: 0 }',
      by: 'row',
    },
  },
  {
    name: 'cancel-of-another-version',
    edit: {
      file: engine('push'),
      text: "  if (namesOther(key, row)) return { kind: 'other_version' };\n",
      by: '  namesOther(key, row);\n',
    },
  },
  {
    name: 'living-notifiers-count-as-dead',
    edit: {
      file: engine('recovery'),
      text: 'incarnation < youngest && !known.has(incarnation)',
      by: 'incarnation < youngest && known.size > 0',
    },
  },
  {
    name: 'recovery-without-strike',
    edit: {
      file: engine('recovery'),
      text: 'const strikes = row.strikes + 1;',
      by: 'const { strikes } = row;',
    },
  },
  {
    name: 'lost-push-sent-again',
    edit: {
      file: link,
      text: "[...lost.filter((call) => call.again), ...this.#waiting];\n    for (const call of lost) if (!call.again) this.#fail(call, 'store_lost');",
      by: '[...lost, ...this.#waiting];',
    },
  },
  {
    name: 'lost-push-counts-as-not-stored',
    edit: {
      file: link,
      text: "call.wasWritten ? 'unknown' : 'not_stored'",
      by: "call.wasWritten && code === '' ? 'unknown' : 'not_stored'",
    },
  },
  {
    name: 'death-without-alert',
    edit: {
      file: engine('job-rows'),
      text: '    this.#addAlert.get(',
      by: '    if (row.version < 0) this.#addAlert.get(',
    },
  },
  {
    name: 'numbers-follow-the-clock-back',
    edit: {
      file: engine('topic-counters'),
      text: 'this.#seq = Math.max(this.#seq + 1, nowMs * 1_000 + us);',
      by: 'const at = nowMs * 1_000 + us;\n    this.#seq = at > this.#seq - 1_000 ? Math.max(this.#seq + 1, at) : at;',
    },
  },
  {
    name: 'clock-jump-shortens-leases',
    faults: 'wallStep,receiverDown',
    edit: {
      file: engine('recovery'),
      text: 'if (isJump && !isWithoutLeases) this.#shift.run(Math.ceil(jumpMs));',
      by: '',
    },
  },
  {
    name: 'clock-jump-removes-dead-letters',
    edit: {
      file: engine('clock-watch'),
      text: 'if (this.#look() !== null) return false;',
      by: 'this.#look();',
    },
  },
  {
    name: 'no-hold-after-an-outage',
    faults: 'storeDown',
    edit: {
      file: engine('recovery'),
      text: 'if (at - this.#calledAt > storeLimits.recoverAwayMs) this.#holdUntil = at + this.#holdMs;',
      by: '',
    },
  },
  {
    name: 'lost-reserve-stays-leased',
    faults: 'storeKill,cut,lateReply',
    edit: {
      file: notifier('reserver'),
      text: 'if (monotonicNow() >= this.#unheldAt) await this.#releaseUnheld();',
      by: '',
    },
  },
  {
    name: 'held-jobs-count-as-unheld',
    edit: { file: notifier('reserver'), text: 'owner, settler.tokens()', by: 'owner, []' },
  },
  {
    name: 'unanswered-outcome-is-forgotten',
    edit: {
      file: notifier('settler'),
      text: '        this.#sendAgain(outbox, finish);\n        continue;',
      by: '        this.#drop(outbox, finish);\n        continue;',
    },
  },
  {
    name: 'topic-runs-one-call-more',
    edit: {
      file: notifier('topic-rates'),
      text: 'return Math.min(this.of(concurrency), this.callsMax);',
      by: 'return Math.min(this.of(concurrency) + 1, this.callsMax + 1);',
    },
  },
  {
    name: 'any-status-is-a-success',
    edit: {
      file: 'src/core/verdict.ts',
      text: "if (!isOkStatus(topic.okStatus, reply.status)) return 'status';",
      by: '',
    },
  },
  {
    name: 'each-notifier-runs-the-whole-topic',
    edit: {
      file: notifier('topic-rates'),
      text: 'return Math.floor(whole / this.count) + (this.index < whole % this.count ? 1 : 0);',
      by: 'return whole;',
    },
  },
  {
    name: 'rate-is-ignored',
    edit: {
      file: notifier('topic-rates'),
      text: 'return Math.min(free, Math.max(0, Math.floor(bucket.tokens(nowMs))));',
      by: 'return free;',
    },
  },
  {
    name: 'suspects-are-called-beside-others',
    faults: 'poison,kill',
    edit: {
      file: notifier('poison-isolation'),
      text: 'return held.job.strikes >= limits.strikesIsolated;',
      by: 'return held.job.strikes > limits.strikesPoison;',
    },
  },
  {
    name: 'outcome-outside-the-fence',
    edit: {
      file: engine('finish'),
      text: "  if (row === null) return { kind: 'lease_lost' };\n  tx.rows.end(",
      by: "  pushOutcome(tx, item.outcome);\n  if (row === null) return { kind: 'lease_lost' };\n  tx.rows.end(",
    },
  },
  {
    name: 'poison-without-outcome',
    faults: 'poison,kill',
    edit: {
      file: 'src/upkeep/recoverer.ts',
      text: '(its) => store.jobs.bury(its),',
      by: '(its) => store.jobs.bury(its.map((one) => ({ ...one, outcome: undefined }))),',
    },
  },
  {
    name: 'poison-gets-a-strike-more',
    faults: 'poison',
    edit: {
      file: engine('recovery'),
      text: 'if (strikes < limits.strikesPoison)',
      by: 'if (strikes <= limits.strikesPoison)',
    },
  },
  {
    name: 'loop-ends-on-a-failure',
    faults: 'storeKill,cut',
    edit: {
      file: 'src/runtime/loop.ts',
      text: 'waitMs = this.#options.failureWaitMs ?? 200;',
      by: 'return;',
    },
  },
  {
    name: 'long-sleep-ends-by-hints-alone',
    faults: 'loseHints',
    edit: {
      file: 'src/runtime/loop.ts',
      text: 'return ticker().once(done);',
      by: 'return () => {};',
    },
  },
  {
    name: 'late-outcomes-are-forgotten',
    faults: 'storeDown',
    edit: {
      file: notifier('settler'),
      text: 'if (this.#late >= this.#options.lateMax) {',
      by: 'if (this.#late >= 0) {',
    },
  },
  {
    name: 'candidate-outstays-its-lease',
    faults: 'poison,kill',
    edit: {
      file: notifier('job-starter'),
      text: 'if (target === null) this.#releaseIsolated();',
      by: 'if (target === null) return;',
    },
  },
  {
    name: 'alert-settled-before-its-mail',
    faults: 'mailTrouble,receiverDown',
    edit: {
      file: 'src/upkeep/alerts/mailer.ts',
      text: 'const done = alerts.filter(({ version }) => finished.has(version));',
      by: 'const done = alerts;',
    },
  },
  {
    name: 'claim-of-an-alert-never-expires',
    faults: 'kill,killMid,receiverDown',
    edit: {
      file: engine('alerts'),
      text: "'state < 2 AND (state = 0 OR claimed_until <= ?)'",
      by: "'state < 2 AND (state = 0 OR claimed_until <= ? - 999999999)'",
    },
  },
  {
    name: 'mailed-alerts-are-forgotten',
    faults: 'mailTrouble,receiverDown',
    edit: {
      file: 'src/upkeep/alerts/recipient-state.ts',
      text: 'for (const id of ids) done.add(id);',
      by: '',
    },
  },
  {
    name: 'statistics-of-an-unknown-write-count-again',
    faults: 'storeKillAtRegistry',
    edit: {
      file: 'src/upkeep/stats-recorder.ts',
      text: 'if (!perhapsWritten) this.add(deltas);',
      by: 'if (perhapsWritten || !perhapsWritten) this.add(deltas);',
    },
  },
  {
    name: 'sent-counters-stay-in-the-buffer',
    edit: {
      file: 'src/process/stat-sender.ts',
      text: 'this.#entries.delete(key);',
      by: '',
    },
  },
  ...editMutants,
  ...masterMutants,
  ...promiseMutants,
  ...pullMutants,
  ...orderMutants,
  ...verdictMutants,
  ...workMutants,
];
