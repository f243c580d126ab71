// Mistakes in the edit of a job, each of which must break a rule in a simulated world. A mistake that few
// worlds meet names the faults that it needs.

import type { SimulatedMutant } from './mutants.ts';

const moves = 'src/store/sqlite/engine/operator-moves.ts';
const script = 'src/store/redis/scripts/lua/edit.lua';

export const editMutants: readonly SimulatedMutant[] = [
  {
    name: 'edit-of-a-running-job',
    edit: {
      file: moves,
      text: "if (row.state === reserved) return { kind: 'in_flight' };\n  const due = item.when",
      by: 'const due = item.when',
    },
  },
  {
    name: 'edit-ignores-the-version',
    edit: {
      file: moves,
      text: "if (namesOther(item, row)) return { kind: 'other_version' };\n  if (item.requeue",
      by: 'if (item.requeue',
    },
  },
  {
    name: 'edit-keeps-the-body',
    edit: {
      file: 'src/store/sqlite/engine/job-rows.ts',
      text: 'this.#renewBody.get(row.n, body);\n    this.wait(row, to, prio);',
      by: 'this.wait(row, to, prio);',
    },
  },
  {
    name: 'edit-keeps-the-failures-of-a-dead-letter',
    edit: { file: moves, text: 'item.requeue ? { failures: 0, strikes: 0 } : row', by: 'row' },
  },
  {
    name: 'redis-edit-of-a-running-job',
    store: 'redis',
    edit: { file: script, text: 'return job.state == 2 and 2 or 1', by: 'return 1' },
  },
  {
    name: 'redis-edit-keeps-the-body-apart',
    store: 'redis',
    edit: {
      file: script,
      text: "if apart ~= '' then call('HSET', P .. ':b', f, apart)",
      by: "if apart ~= '' then call('HSETNX', P .. ':b', f, apart)",
    },
  },
  {
    name: 'redis-edit-ignores-the-version',
    store: 'redis',
    edit: { file: script, text: 'if names_other(version, job) then return 5 end', by: '' },
  },
  {
    name: 'journal-edit-keeps-the-origin',
    store: 'redis',
    faults: 'redisEmptied,mysqlTrouble',
    edit: { file: script, text: 'job.origin = draw()', by: '' },
  },
  {
    name: 'journal-edit-without-record',
    store: 'redis',
    edit: {
      file: 'src/journal/record/journaled-jobs.ts',
      text: 'async edit(items) {',
      by: 'async edit(items) {\n      if (items.length > 0) return jobs.edit(items);',
    },
  },
];
