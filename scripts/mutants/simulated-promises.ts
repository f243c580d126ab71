// Mistakes on disks, in lateness, waits, retention and limits, each of which must break a rule in a simulated
// world (test/sim).

import { engine, type Mutants, notifier, type SimulatedMutant } from './mistake.ts';

export const promiseMutants: Mutants<SimulatedMutant> = {
  'push-without-fsync': {
    faults: 'powerCut',
    file: 'src/ports/store-verbs.ts',
    text: "'jobs.push': { frame: 16, kind: 'hot', changes: 'full',",
    by: "'jobs.push': { frame: 16, kind: 'hot', changes: 'normal',",
  },
  'ack-without-fsync': {
    faults: 'powerCut',
    file: 'src/ports/store-verbs.ts',
    text: "'jobs.ack': { frame: 21, kind: 'hot', changes: 'full',",
    by: "'jobs.ack': { frame: 21, kind: 'hot', changes: 'normal',",
  },
  'strike-without-fsync': {
    faults: 'powerCut,kill',
    file: 'src/ports/store-verbs.ts',
    text: "'jobs.recoverOwners': { frame: 26, kind: 'cold', changes: 'full',",
    by: "'jobs.recoverOwners': { frame: 26, kind: 'cold', changes: 'normal',",
  },
  'fsync-only-when-all-need-it': {
    faults: 'powerCut',
    file: 'src/store/sqlite/owner/group.ts',
    text: 'const isFull = this.#open.some(',
    by: 'const isFull = this.#open.every(',
  },
  'full-disk-counts-as-broken': {
    faults: 'diskFull',
    file: 'src/store/sqlite/owner/group.ts',
    text: "if (error instanceof NoDiskSpace) return 'full';",
    by: "if (error instanceof NoDiskSpace) return 'broken';",
  },
  'failed-commit-counts-as-not-stored': {
    faults: 'commitFails',
    file: 'src/store/sqlite/owner/group.ts',
    text: "this.#rejectAll(why === 'commit_broken' ? inDoubt : brokenBy(error));",
    by: 'this.#rejectAll(brokenBy(error));',
  },
  'store-goes-on-after-a-failed-commit': {
    faults: 'commitFails',
    file: 'src/store/sqlite/owner/group.ts',
    text: '      this.#fatal = error;\n      this.#rejectAll',
    by: '      this.#rejectAll',
  },
  'rollback-keeps-the-counters': {
    faults: 'diskFull',
    file: engine('engine'),
    text: 'if (this.#savepoint !== null) counters.rollBack(this.#savepoint);',
    by: '',
  },
  'disk-stays-full': {
    faults: 'diskFull',
    file: 'src/store/sqlite/owner/disk-reserve-keeper.ts',
    text: 'this.#breakOnFailure(() => this.#report(this.#restored()));',
    by: 'this.#report(false);',
  },
  'timer-follows-hints-alone': {
    faults: 'loseHints',
    file: 'src/timer/timer.ts',
    text: 'const sleepMs = waitMs === null ? ceilingMs : Math.min(Math.ceil(waitMs), ceilingMs);',
    by: 'const sleepMs = waitMs === null ? 60_000 : Math.ceil(waitMs);',
  },
  'timer-ignores-hints': {
    faults: 'topicOff',
    file: 'src/timer/timer.ts',
    text: 'if (monotonicNow() + waitMs < this.#nextAt) this.loop.wake();',
    by: '',
  },
  'notifier-follows-hints-alone': {
    faults: 'loseHints',
    file: notifier('capacity'),
    text: 'const ceilingMs = pauseMs > 0 ? Math.min(pollCeilingMs, pauseMs) : pollCeilingMs;',
    by: 'const ceilingMs = pauseMs > 0 ? pauseMs : 50 * pollCeilingMs;',
  },
  'notifier-ignores-ready-hints': {
    faults: 'topicOff',
    file: notifier('notifier'),
    text: "if (hint.kind === 'ready') this",
    by: "if (hint.kind !== 'ready') this",
  },
  'retry-waits-2n-units': {
    file: 'src/core/retry-policy.ts',
    text: 'return (2 * failures + 1) * retryUnitMs;',
    by: 'return 2 * failures * retryUnitMs;',
  },
  'retry-after-is-ignored': {
    file: 'src/core/retry-policy.ts',
    text: 'const delayMs = Math.max(backoffMs(policy.backoff, failures, retryUnitMs), atLeastMs);',
    by: 'const delayMs = Math.max(backoffMs(policy.backoff, failures, retryUnitMs), atLeastMs * 0);',
  },
  'jitter-shortens': {
    file: 'src/core/retry-policy.ts',
    text: 'delayMs + delayMs * policy.jitter',
    by: 'delayMs - delayMs * policy.jitter',
  },
  'dead-letters-expire-early': {
    faults: 'receiverDown',
    file: engine('engine'),
    text: 'return now - Math.max(0, olderThanMs);',
    by: 'return now - Math.max(0, olderThanMs) / 10;',
  },
  'dead-letters-never-expire': {
    faults: 'receiverDown',
    file: 'src/upkeep/janitor.ts',
    text: "config['dead.retention'], limits.expireMax",
    by: "1_000 * config['dead.retention'], limits.expireMax",
  },
  'history-is-removed-early': {
    faults: 'topicOff',
    file: 'src/upkeep/janitor.ts',
    text: 'store.history.forget(retentionMs,',
    by: 'store.history.forget(retentionMs / 1_000,',
  },
  'clock-that-is-behind-is-not-noted': {
    faults: 'wallStep,storeDown,slowChannel',
    file: engine('clock-watch'),
    text: 'this.#notedAt === null || now < this.#notedAt',
    by: 'this.#notedAt === null',
  },
  // A deadline of a job (test/sim/deadlines.ts).
  'attempt-starts-after-the-deadline': {
    file: notifier('job-starter'),
    text: 'storageNow <= deadlineOf(optionsIn(extension), held.job)',
    by: 'storageNow > 0',
  },
  'job-expires-3-s-early': {
    file: notifier('job-starter'),
    text: 'storageNow <= deadlineOf(optionsIn(extension), held.job)',
    by: 'storageNow + 3_000 <= deadlineOf(optionsIn(extension), held.job)',
  },
  'job-without-time-for-a-retry-waits': {
    faults: 'receiverDown',
    file: 'src/core/verdict.ts',
    text: "'delayMs' in settlement && settlement.delayMs > leftMs;",
    by: "'delayMs' in settlement && settlement.delayMs > leftMs + 86_400_000;",
  },
  'moved-job-keeps-its-deadline': {
    file: 'src/core/extension.ts',
    text: 'isMoved && dueAt > deadline ?',
    by: 'isMoved && dueAt < 0 ?',
  },
  'client-gets-a-job-after-its-deadline': {
    faults: 'topicOff',
    file: 'src/intake/pull/puller.ts',
    text: 'pulledAt <= deadlineOf(optionsIn(job.extension), job)',
    by: 'pulledAt > 0',
  },
  'expired-job-dies-for-another-reason': {
    file: notifier('job-starter'),
    text: "settler.bury(held, 'expired', null, outcome);",
    by: "settler.bury(held, 'gone', null, outcome);",
  },
  // An idempotency window begins with the end or death of a job.
  'window-is-over-after-half-of-it': {
    faults: 'kill',
    file: 'src/core/job.ts',
    text: 'Math.abs(now - at) < windowMs',
    by: 'Math.abs(now - at) < windowMs / 2',
  },
  'window-of-a-cancelled-id-is-over-at-once': {
    faults: 'kill',
    file: engine('push'),
    text: 'if (end === null || !',
    by: "if (end === null || end.state === 'cancelled' || !",
  },
  'topic-takes-all-slots': { file: notifier('topic-rates'), text: 'Math.floor(slots / 2)', by: 'slots' },
};
