// Mistakes on disks, in lateness, waits, retention and limits, each of which must break a rule in a simulated
// world (test/sim). Part of simulated.ts.

import type { SimulatedMutant } from './mutants.ts';

const engine = (name: string) => `src/store/sqlite/engine/${name}.ts`;
const notifier = (name: string) => `src/notifier/${name}.ts`;

export const promiseMutants: readonly SimulatedMutant[] = [
  {
    name: 'push-without-fsync',
    faults: 'powerCut',
    edit: {
      file: 'src/ports/store-verbs.ts',
      text: "'jobs.push': { frame: 16, kind: 'hot', changes: 'full',",
      by: "'jobs.push': { frame: 16, kind: 'hot', changes: 'normal',",
    },
  },
  {
    name: 'ack-without-fsync',
    faults: 'powerCut',
    edit: {
      file: 'src/ports/store-verbs.ts',
      text: "'jobs.ack': { frame: 21, kind: 'hot', changes: 'full',",
      by: "'jobs.ack': { frame: 21, kind: 'hot', changes: 'normal',",
    },
  },
  {
    name: 'strike-without-fsync',
    faults: 'powerCut,kill',
    edit: {
      file: 'src/ports/store-verbs.ts',
      text: "'jobs.recoverOwners': { frame: 26, kind: 'cold', changes: 'full',",
      by: "'jobs.recoverOwners': { frame: 26, kind: 'cold', changes: 'normal',",
    },
  },
  {
    name: 'fsync-only-when-all-need-it',
    faults: 'powerCut',
    edit: {
      file: 'src/store/sqlite/owner/group.ts',
      text: 'const isFull = this.#open.some(',
      by: 'const isFull = this.#open.every(',
    },
  },
  {
    name: 'full-disk-counts-as-broken',
    faults: 'diskFull',
    edit: {
      file: 'src/store/sqlite/owner/group.ts',
      text: "if (error instanceof NoDiskSpace) return 'full';",
      by: "if (error instanceof NoDiskSpace) return 'broken';",
    },
  },
  {
    name: 'failed-commit-counts-as-not-stored',
    faults: 'commitFails',
    edit: {
      file: 'src/store/sqlite/owner/group.ts',
      text: "this.#rejectAll(why === 'commit_broken' ? inDoubt : brokenBy(error));",
      by: 'this.#rejectAll(brokenBy(error));',
    },
  },
  {
    name: 'store-goes-on-after-a-failed-commit',
    faults: 'commitFails',
    edit: {
      file: 'src/store/sqlite/owner/group.ts',
      text: '      this.#fatal = error;\n      this.#rejectAll',
      by: '      this.#rejectAll',
    },
  },
  {
    name: 'rollback-keeps-the-counters',
    faults: 'diskFull',
    edit: {
      file: engine('engine'),
      text: 'if (this.#savepoint !== null) counters.rollBack(this.#savepoint);',
      by: '',
    },
  },
  {
    name: 'disk-stays-full',
    faults: 'diskFull',
    edit: {
      file: 'src/store/sqlite/owner/disk-reserve-keeper.ts',
      text: 'this.#breakOnFailure(() => this.#report(this.#restored()));',
      by: 'this.#report(false);',
    },
  },
  {
    name: 'timer-follows-hints-alone',
    faults: 'loseHints',
    edit: {
      file: 'src/timer/timer.ts',
      text: 'const sleepMs = waitMs === null ? ceilingMs : Math.min(Math.ceil(waitMs), ceilingMs);',
      by: 'const sleepMs = waitMs === null ? 60_000 : Math.ceil(waitMs);',
    },
  },
  {
    name: 'timer-ignores-hints',
    faults: 'topicOff',
    edit: {
      file: 'src/timer/timer.ts',
      text: 'if (monotonicNow() + waitMs < this.#nextAt) this.loop.wake();',
      by: '',
    },
  },
  {
    name: 'notifier-follows-hints-alone',
    faults: 'loseHints',
    edit: {
      file: notifier('capacity'),
      text: 'const ceilingMs = pauseMs > 0 ? Math.min(pollCeilingMs, pauseMs) : pollCeilingMs;',
      by: 'const ceilingMs = pauseMs > 0 ? pauseMs : 50 * pollCeilingMs;',
    },
  },
  {
    name: 'notifier-ignores-ready-hints',
    faults: 'topicOff',
    edit: {
      file: notifier('notifier'),
      text: "if (hint.kind === 'ready') this",
      by: "if (hint.kind !== 'ready') this",
    },
  },
  {
    name: 'retry-waits-2n-units',
    edit: {
      file: 'src/core/retry-policy.ts',
      text: 'return (2 * failures + 1) * retryUnitMs;',
      by: 'return 2 * failures * retryUnitMs;',
    },
  },
  {
    name: 'retry-after-is-ignored',
    edit: {
      file: 'src/core/retry-policy.ts',
      text: 'const delayMs = Math.max(backoffMs(policy.backoff, failures, retryUnitMs), atLeastMs);',
      by: 'const delayMs = Math.max(backoffMs(policy.backoff, failures, retryUnitMs), atLeastMs * 0);',
    },
  },
  {
    name: 'jitter-shortens',
    edit: {
      file: 'src/core/retry-policy.ts',
      text: 'delayMs + delayMs * policy.jitter',
      by: 'delayMs - delayMs * policy.jitter',
    },
  },
  {
    name: 'dead-letters-expire-early',
    faults: 'receiverDown',
    edit: {
      file: engine('engine'),
      text: 'return now - Math.max(0, olderThanMs);',
      by: 'return now - Math.max(0, olderThanMs) / 10;',
    },
  },
  {
    name: 'dead-letters-never-expire',
    faults: 'receiverDown',
    edit: {
      file: 'src/upkeep/janitor.ts',
      text: "config['dead.retention'], limits.expireMax",
      by: "1_000 * config['dead.retention'], limits.expireMax",
    },
  },
  {
    name: 'history-is-removed-early',
    faults: 'topicOff',
    edit: {
      file: 'src/upkeep/janitor.ts',
      text: 'store.history.forget(retentionMs,',
      by: 'store.history.forget(retentionMs / 1_000,',
    },
  },
  {
    name: 'clock-that-is-behind-is-not-noted',
    faults: 'wallStep,storeDown,slowChannel',
    edit: {
      file: engine('clock-watch'),
      text: 'this.#notedAt === null || now < this.#notedAt',
      by: 'this.#notedAt === null',
    },
  },
  // A deadline of a job (test/sim/deadlines.ts).
  {
    name: 'attempt-starts-after-the-deadline',
    edit: {
      file: notifier('job-starter'),
      text: 'storageNow <= deadlineOf(optionsIn(extension), held.job)',
      by: 'storageNow > 0',
    },
  },
  {
    name: 'job-expires-3-s-early',
    edit: {
      file: notifier('job-starter'),
      text: 'storageNow <= deadlineOf(optionsIn(extension), held.job)',
      by: 'storageNow + 3_000 <= deadlineOf(optionsIn(extension), held.job)',
    },
  },
  {
    name: 'job-without-time-for-a-retry-waits',
    faults: 'receiverDown',
    edit: {
      file: 'src/core/verdict.ts',
      text: "'delayMs' in settlement && settlement.delayMs > leftMs;",
      by: "'delayMs' in settlement && settlement.delayMs > leftMs + 86_400_000;",
    },
  },
  {
    name: 'moved-job-keeps-its-deadline',
    edit: {
      file: 'src/core/extension.ts',
      text: 'isMoved && dueAt > deadline ?',
      by: 'isMoved && dueAt < 0 ?',
    },
  },
  {
    name: 'client-gets-a-job-after-its-deadline',
    faults: 'topicOff',
    edit: {
      file: 'src/intake/pull/puller.ts',
      text: 'pulledAt <= deadlineOf(optionsIn(job.extension), job)',
      by: 'pulledAt > 0',
    },
  },
  {
    name: 'expired-job-dies-for-another-reason',
    edit: {
      file: notifier('job-starter'),
      text: "settler.bury(held, 'expired', null, outcome);",
      by: "settler.bury(held, 'gone', null, outcome);",
    },
  },
  // An idempotency window begins with the end or death of a job.
  {
    name: 'window-is-over-after-half-of-it',
    faults: 'kill',
    edit: {
      file: 'src/core/job.ts',
      text: 'Math.abs(now - at) < windowMs',
      by: 'Math.abs(now - at) < windowMs / 2',
    },
  },
  {
    name: 'window-of-a-cancelled-id-is-over-at-once',
    faults: 'kill',
    edit: {
      file: engine('push'),
      text: 'if (end === null || !',
      by: "if (end === null || end.state === 'cancelled' || !",
    },
  },
  {
    name: 'topic-takes-all-slots',
    edit: {
      file: notifier('topic-rates'),
      text: 'Math.floor(slots / 2)',
      by: 'slots',
    },
  },
];
