// Mistakes of verdicts beside success and failure: deadIf, and snoozes of push and pull topics.

import type { SimulatedMutant } from './mutants.ts';

const finish = 'src/store/sqlite/engine/finish.ts';
const verdict = 'src/core/verdict.ts';
const deliverer = 'src/notifier/deliverer.ts';
const pulled = 'src/intake/pull/pulled-leases.ts';

export const verdictMutants: readonly SimulatedMutant[] = [
  {
    name: 'a-snooze-counts-an-attempt',
    edit: { file: finish, text: 'row.failures + (attempt === null ? 0 : 1)', by: 'row.failures + 1' },
  },
  {
    name: 'the-number-of-snoozes-is-not-stored',
    edit: { file: finish, text: 'if (extension !== undefined) tx.rows.setOptions(row, extension);', by: '' },
  },
  {
    name: 'a-snooze-does-not-raise-the-number',
    edit: { file: deliverer, text: '(options.again ?? 0) + 1 : 0;', by: '(options.again ?? 1) : 0;' },
  },
  {
    name: 'snoozes-have-no-limit',
    edit: { file: verdict, text: 'again % limits.againMax !== 0', by: 'again % limits.againMax !== 0.5' },
  },
  {
    name: 'a-snooze-of-half-its-wait',
    edit: {
      file: verdict,
      text: "if (verdict.outcome === 'again') return { kind: 'again', delayMs: verdict.delayMs };",
      by: "if (verdict.outcome === 'again') return { kind: 'again', delayMs: verdict.delayMs / 2 };",
    },
  },
  {
    name: 'a-snooze-with-410-lives',
    edit: {
      file: verdict,
      text: 'const noMoreAttempts = reason === null ? null : refusalOf(outcome);',
      by: "const noMoreAttempts = reason === null || outcome.header('dq-again') !== null ? null : refusalOf(outcome);",
    },
  },
  {
    name: 'a-reply-of-dead-if-is-retried',
    edit: { file: verdict, text: "{ noMoreAttempts: 'dead_rule' }", by: '{}' },
  },
  {
    name: 'a-release-with-a-delay-is-a-failed-attempt',
    edit: {
      file: pulled,
      text: 'attempt: counts ? attempt : null,\n          extension,',
      by: 'attempt,\n          extension,',
    },
  },
];

const retry = 'src/store/redis/scripts/lua/retry.lua';

export const redisVerdictMutants: readonly SimulatedMutant[] = [
  {
    name: 'redis-a-snooze-counts-an-attempt',
    store: 'redis',
    edit: { file: retry, text: 'if #attempt > 0 then job.failures', by: 'if attempt then job.failures' },
  },
  {
    name: 'redis-the-number-of-snoozes-is-not-stored',
    store: 'redis',
    edit: { file: retry, text: '  if #block > 0 then set_extension(job, block) end\n', by: '' },
  },
];
