// Mistakes in the store, its client, the notifier and upkeep, each of which must break a rule in a simulated
// world (test/sim). A mistake that few worlds meet names the faults that it needs.

import { engine, listOf, type Mutants, notifier, type SimulatedMutant, script } from './mistake.ts';
import { journalMutants } from './simulated-journal.ts';
import { masterMutants } from './simulated-master.ts';
import { promiseMutants } from './simulated-promises.ts';
import { pullMutants } from './simulated-pull.ts';
import { redisMutants } from './simulated-redis.ts';
import { workMutants } from './simulated-works.ts';

const link = 'src/store/sqlite/client/link.ts';
const worker = 'src/master/workers/worker-process.ts';
const recipients = 'src/upkeep/alerts/recipient-state.ts';
const mailer = 'src/upkeep/alerts/mailer.ts';
const verdict = 'src/core/verdict.ts';
const deliverer = 'src/notifier/deliverer.ts';
const pulled = 'src/intake/pull/pulled-leases.ts';

const byName: Mutants<SimulatedMutant> = {
  'ack-without-fence': {
    file: engine('finish'),
    text: "FinishOutcome<'acked'> {\n  const row = leased(tx, item);",
    by: "FinishOutcome<'acked'> {\n  const row = tx.rows.find(item.topic, item.id) ?? null;",
  },
  'an-open-behind-the-clock-skips-no-number': {
    faults: 'powerCut,backupRestored,wallStep',
    file: engine('topic-counters'),
    text: 'this.#seq += randomInt(sqliteLimits.lostNumbersMax, sqliteLimits.skippedNumbersMax);',
    by: 'this.#seq += 0;',
  },
  'lease-of-half-the-timeout': {
    file: notifier('capacity-plan'),
    text: 'return timeoutMs + this.#options.leaseMarginMs;',
    by: 'return timeoutMs / 2;',
  },
  'call-with-a-short-lease': {
    faults: 'lateReply,pause,slowChannel',
    file: notifier('job-starter'),
    text: 'return !this.#isTooShort(held) && isCalled',
    by: 'return isCalled',
  },
  'body-goes-with-the-reserve': {
    file: engine('moves'),
    text: 'const token = counters.nextNumber(now);',
    by: "const token = counters.nextNumber(now);\n    this.#tx.db.prepare('DELETE FROM body WHERE n = ?').run(row.n);",
  },
  'promote-1-s-early': {
    file: engine('moves'),
    text: 'this.#sql.promote.all(now, ',
    by: 'this.#sql.promote.all(now + 1_000, ',
  },
  'retry-counts-twice': {
    file: engine('finish'),
    text: 'row.failures + (attempt === null ? 0 : 1)',
    by: 'row.failures + (attempt === null ? 0 : 2)',
  },
  'retry-after-half-the-delay': {
    file: engine('finish'),
    text: 'dueAfter(tx.now, item.delayMs)',
    by: 'dueAfter(tx.now, item.delayMs / 2)',
  },
  'requeue-keeps-failures': {
    file: engine('operator-moves'),
    text: '{ ...row, failures: 0, strikes: 0 }',
    by: 'row',
  },
  'cancel-of-another-version': {
    file: engine('push'),
    text: "  if (namesOther(key, row)) return { kind: 'other_version' };\n",
    by: '  namesOther(key, row);\n',
  },
  'living-notifiers-count-as-dead': {
    file: engine('recovery'),
    text: 'incarnation < youngest && !known.has(incarnation)',
    by: 'incarnation < youngest && known.size > 0',
  },
  'recovery-without-strike': {
    file: engine('recovery'),
    text: 'const strikes = row.strikes + 1;',
    by: 'const { strikes } = row;',
  },
  'lost-push-sent-again': {
    file: link,
    text: "[...lost.filter((call) => call.again), ...this.#waiting];\n    for (const call of lost) if (!call.again) this.#fail(call, 'store_lost');",
    by: '[...lost, ...this.#waiting];',
  },
  'lost-push-counts-as-not-stored': {
    file: link,
    text: "call.wasWritten ? 'unknown' : 'not_stored'",
    by: "call.wasWritten && code === '' ? 'unknown' : 'not_stored'",
  },
  'death-without-alert': {
    file: engine('job-rows'),
    text: '    this.#sql.addAlert.get(',
    by: '    if (row.version < 0) this.#sql.addAlert.get(',
  },
  'numbers-follow-the-clock-back': {
    file: engine('topic-counters'),
    text: 'this.#seq = Math.max(this.#seq + 1, nowMs * 1_000 + us);',
    by: 'const at = nowMs * 1_000 + us;\n    this.#seq = at > this.#seq - 1_000 ? Math.max(this.#seq + 1, at) : at;',
  },
  'clock-jump-shortens-leases': {
    faults: 'wallStep,receiverDown',
    file: engine('recovery'),
    text: 'if (isJump && !isWithoutLeases) this.#sql.shift.run(Math.ceil(jumpMs));',
    by: '',
  },
  'clock-jump-removes-dead-letters': {
    file: engine('clock-watch'),
    text: 'if (this.#look() !== null) return false;',
    by: 'this.#look();',
  },
  'no-hold-after-an-outage': {
    faults: 'storeDown',
    file: engine('recovery'),
    text: 'if (at - this.#calledAt > storeLimits.recoverAwayMs) this.#holdUntil = at + this.#holdMs;',
    by: '',
  },
  'lost-reserve-stays-leased': {
    faults: 'storeKill,cut,lateReply',
    file: notifier('reserver'),
    text: 'if (monotonicNow() >= this.#unheldAt) await this.#releaseUnheld();',
    by: '',
  },
  'held-jobs-count-as-unheld': {
    file: notifier('reserver'),
    text: 'owner, settler.tokens()',
    by: 'owner, []',
  },
  'unanswered-outcome-is-forgotten': {
    file: notifier('settler'),
    text: '        this.#sendAgain(outbox, finish);\n        continue;',
    by: '        this.#drop(outbox, finish);\n        continue;',
  },
  'topic-runs-one-call-more': {
    file: notifier('topic-rates'),
    text: 'return Math.min(this.of(concurrency), this.callsMax);',
    by: 'return Math.min(this.of(concurrency) + 1, this.callsMax + 1);',
  },
  'any-status-is-a-success': {
    file: 'src/core/verdict.ts',
    text: "if (!isOkStatus(topic.okStatus, reply.status)) return 'status';",
    by: '',
  },
  'each-notifier-runs-the-whole-topic': {
    file: notifier('topic-rates'),
    text: 'return Math.floor(whole / this.count) + (this.index < whole % this.count ? 1 : 0);',
    by: 'return whole;',
  },
  'rate-is-ignored': {
    file: notifier('topic-rates'),
    text: 'return Math.min(free, Math.max(0, Math.floor(bucket.tokens(nowMs))));',
    by: 'return free;',
  },
  'paused-topics-are-called': {
    faults: 'topicOff',
    file: 'src/core/topic/topic.ts',
    text: "return state === 'active' &&",
    by: "return (state === 'active' || state === 'paused') &&",
  },
  'changed-topic-keeps-its-limits': {
    faults: 'topicEdit,topicOff',
    file: notifier('capacity'),
    text: 'const target = this.#targets.forget(name);',
    by: 'const target = this.#targets.get(name);',
  },
  'calls-of-a-removed-topic-count-nothing': {
    faults: 'topicEdit',
    works: 'removals',
    file: notifier('capacity'),
    text: 'if (this.#budget.runningOf(name) > 0 || this.#rates.has(name)) this.targetOf(name);',
    by: '',
  },
  'suspects-are-called-beside-others': {
    faults: 'poison,kill',
    file: notifier('poison-isolation'),
    text: 'return held.job.strikes >= limits.strikesIsolated;',
    by: 'return held.job.strikes > limits.strikesPoison;',
  },
  'outcome-outside-the-fence': {
    file: engine('finish'),
    text: "  if (row === null) return { kind: 'lease_lost' };\n  tx.rows.end(",
    by: "  pushOutcome(tx, item.outcome);\n  if (row === null) return { kind: 'lease_lost' };\n  tx.rows.end(",
  },
  'poison-without-outcome': {
    faults: 'poison,kill',
    file: 'src/upkeep/recoverer.ts',
    text: '(its) => store.jobs.bury(its),',
    by: '(its) => store.jobs.bury(its.map((one) => ({ ...one, outcome: undefined }))),',
  },
  'poison-gets-a-strike-more': {
    faults: 'poison',
    file: engine('recovery'),
    text: 'if (strikes < limits.strikesPoison)',
    by: 'if (strikes <= limits.strikesPoison)',
  },
  'loop-ends-on-a-failure': {
    faults: 'storeKill,cut',
    file: 'src/runtime/loop.ts',
    text: 'waitMs = this.#options.failureWaitMs ?? 200;',
    by: 'return;',
  },
  'long-sleep-ends-by-hints-alone': {
    faults: 'loseHints',
    file: 'src/runtime/loop.ts',
    text: 'return ticker().once(done);',
    by: 'return () => {};',
  },
  'late-outcomes-are-forgotten': {
    faults: 'storeDown',
    file: notifier('settler'),
    text: 'if (this.#late >= this.#options.lateMax) {',
    by: 'if (this.#late >= 0) {',
  },
  'candidate-outstays-its-lease': {
    faults: 'poison,kill',
    file: notifier('job-starter'),
    text: 'if (target === null) this.#releaseIsolated();',
    by: 'if (target === null) return;',
  },
  'alert-settled-before-its-mail': {
    faults: 'mailTrouble,receiverDown',
    file: 'src/upkeep/alerts/mailer.ts',
    text: 'const done = alerts.filter(({ version }) => finished.has(version));',
    by: 'const done = alerts;',
  },
  'claim-of-an-alert-never-expires': {
    faults: 'kill,killMid,receiverDown',
    file: engine('alerts'),
    text: "'state < 2 AND (state = 0 OR claimed_until <= ?)'",
    by: "'state < 2 AND (state = 0 OR claimed_until <= ? - 999999999)'",
  },
  'mailed-alerts-are-forgotten': {
    faults: 'mailTrouble,receiverDown',
    file: 'src/upkeep/alerts/recipient-state.ts',
    text: 'for (const id of ids) done.add(id);',
    by: '',
  },
  'statistics-of-an-unknown-write-count-again': {
    faults: 'storeKillAtRegistry',
    file: 'src/upkeep/stats-recorder.ts',
    text: 'if (!perhapsWritten) this.add(deltas);',
    by: 'if (perhapsWritten || !perhapsWritten) this.add(deltas);',
  },
  'sent-counters-stay-in-the-buffer': {
    file: 'src/process/senders.ts',
    text: 'this.#entries.delete(key);',
    by: '',
  },
  // The edit of a job.
  'edit-of-a-running-job': {
    file: engine('operator-moves'),
    text: "if (row.state === reserved) return { kind: 'in_flight' };\n  const due = item.when",
    by: 'const due = item.when',
  },
  'edit-ignores-the-version': {
    file: engine('operator-moves'),
    text: "if (namesOther(item, row)) return { kind: 'other_version' };\n  if (item.requeue",
    by: 'if (item.requeue',
  },
  'edit-keeps-the-body': {
    file: 'src/store/sqlite/engine/job-rows.ts',
    text: 'this.#sql.renewBody.get(row.n, body);\n    this.wait(row, to, prio);',
    by: 'this.wait(row, to, prio);',
  },
  'edit-keeps-the-failures-of-a-dead-letter': {
    file: engine('operator-moves'),
    text: 'item.requeue ? { failures: 0, strikes: 0 } : row',
    by: 'row',
  },
  'redis-edit-of-a-running-job': {
    store: 'redis',
    file: script('edit'),
    text: 'return job.state == 2 and 2 or 1',
    by: 'return 1',
  },
  'redis-edit-keeps-the-body-apart': {
    store: 'redis',
    file: script('edit'),
    text: "if apart ~= '' then call('HSET', P .. ':b', f, apart)",
    by: "if apart ~= '' then call('HSETNX', P .. ':b', f, apart)",
  },
  'redis-edit-ignores-the-version': {
    store: 'redis',
    file: script('edit'),
    text: 'if names_other(version, job) then return 5 end',
    by: '',
  },
  'journal-edit-keeps-the-origin': {
    store: 'redis',
    faults: 'redisEmptied,mysqlTrouble',
    file: script('edit'),
    text: 'job.origin = draw()',
    by: '',
  },
  'journal-edit-without-record': {
    store: 'redis',
    file: 'src/journal/record/journaled-jobs.ts',
    text: 'async edit(items) {',
    by: 'async edit(items) {\n      if (items.length > 0) return jobs.edit(items);',
  },
  // Limits, alerts and the deadlines of the master.
  'full-disk-gives-strikes': {
    faults: 'diskFull,pause',
    file: engine('recovery'),
    text: 'if (isDiskFull) return',
    by: 'if (isDiskFull && bound < 0) return',
  },
  'take-over-has-a-part-of-its-time': {
    faults: 'reload,storeDown',
    file: worker,
    text: "if (this.state === 'ready') this.#killLate('did not take over');",
    by: "if (this.state === 'ready') this.#killAfter(5, 'did not take over');",
  },
  'deferred-address-counts-as-served': {
    faults: 'mailTrouble,receiverDown',
    file: recipients,
    text: "if (kind === 'deferred' || (kind",
    by: 'if ((kind',
  },
  'failed-mail-settles-its-alerts': {
    faults: 'mailTrouble,receiverDown',
    file: recipients,
    text: "} else if (kind !== 'failed') {",
    by: '} else {',
  },
  'alerts-wait-for-a-death': {
    faults: 'mailTrouble,receiverDown',
    file: mailer,
    text: 'this.#nextRoundAt = turnAfter(pollMs);',
    by: 'this.#nextRoundAt = Number.POSITIVE_INFINITY;',
  },
  // Verdicts beside success and failure: deadIf, and snoozes of push and pull topics.
  'a-snooze-counts-an-attempt': {
    file: engine('finish'),
    text: 'row.failures + (attempt === null ? 0 : 1)',
    by: 'row.failures + 1',
  },
  'the-number-of-snoozes-is-not-stored': {
    file: engine('finish'),
    text: 'if (extension !== undefined) tx.rows.setOptions(row, extension);',
    by: '',
  },
  'a-snooze-does-not-raise-the-number': {
    file: deliverer,
    text: '(options.again ?? 0) + 1 : 0;',
    by: '(options.again ?? 1) : 0;',
  },
  'snoozes-have-no-limit': {
    file: verdict,
    text: 'again % limits.againMax !== 0',
    by: 'again % limits.againMax !== 0.5',
  },
  'a-snooze-of-half-its-wait': {
    file: verdict,
    text: "if (verdict.outcome === 'again') return { kind: 'again', delayMs: verdict.delayMs };",
    by: "if (verdict.outcome === 'again') return { kind: 'again', delayMs: verdict.delayMs / 2 };",
  },
  'a-snooze-with-410-lives': {
    file: verdict,
    text: 'const noMoreAttempts = reason === null ? null : refusalOf(outcome);',
    by: "const noMoreAttempts = reason === null || outcome.header('dq-again') !== null ? null : refusalOf(outcome);",
  },
  'a-reply-of-dead-if-is-retried': { file: verdict, text: "{ noMoreAttempts: 'dead_rule' }", by: '{}' },
  'a-release-with-a-delay-is-a-failed-attempt': {
    file: pulled,
    text: 'attempt: counts ? attempt : null,\n          extension,',
    by: 'attempt,\n          extension,',
  },
};

export const simulatedMutants = listOf(
  byName,
  masterMutants,
  promiseMutants,
  pullMutants,
  workMutants,
  redisMutants,
  journalMutants,
);
