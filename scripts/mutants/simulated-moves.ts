// Mistakes in the move of a jobs.db to Redis, each of which must break a rule in a simulated world
// (test/sim/redis/left-jobs.ts). Those that need a store without a history are in mutants.ts.

import type { SimulatedMutant } from './mutants.ts';

const mover = 'src/upkeep/mover.ts';

const edits: readonly Omit<SimulatedMutant, 'store' | 'works' | 'shards'>[] = [
  {
    name: 'move-forgets-before-the-put',
    faults: 'kill,cut,redisKill',
    edit: {
      file: mover,
      text: 'const outcomes = await this.#leaving.arrivals.put(move, jobs);',
      by: 'await this.#leaving.calls.forget(jobs);\n    const outcomes = await this.#leaving.arrivals.put(move, jobs);',
    },
  },
  {
    name: 'change-without-its-put',
    faults: 'kill,cut,redisKill',
    edit: {
      file: 'src/store/moving-store.ts',
      text: 'const arrived = jobs.length === 0 ? [] : await this.#put(move, jobs);',
      by: "const arrived = jobs.map(() => 'target' as const);",
    },
  },
  {
    name: 'end-in-jobs-db-has-no-window',
    faults: 'kill',
    edit: {
      file: 'src/store/moving-store.ts',
      text: 'if (ended === null || !isInWindow',
      by: 'if (ended !== null || !isInWindow',
    },
  },
  {
    name: 'move-forgets-what-redis-lost',
    faults: 'redisForgets,redisFailover,redisKill',
    edit: { file: mover, text: 'if (losses !== this.#losses) this.#beginAgain(losses);', by: '' },
  },
  {
    name: 'move-opened-without-the-ends-of-the-journal',
    faults: 'mysqlTrouble,redisEmptied,kill',
    edit: {
      file: mover,
      text: "if (known === 'open' || isFirst || this.#ctx.journal === undefined) return 'left';",
      by: "if (known !== 'healing') return 'left';",
    },
  },
  {
    name: 'lease-of-a-pull-client-lost-by-a-move',
    faults: 'reload',
    edit: {
      file: 'src/store/moving-store.ts',
      text: 'if (lost.length === 0) return outcomes;',
      by: 'if (lost.length >= 0) return outcomes;',
    },
  },
  {
    name: 'move-forgets-without-delay',
    faults: 'redisFailover',
    edit: {
      file: mover,
      text: 'if (first === undefined || askedAt - first.at < upkeepLimits.moveForgetMs) return;',
      by: 'if (first === undefined) return;',
    },
  },
  {
    name: 'ended-job-of-a-move-without-entry',
    faults: 'kill,cut',
    edit: {
      file: 'src/store/redis/scripts/lua/restore.lua',
      text: 'if ended_version(f) >= row.version then',
      by: 'if ended_version(f) > row.version then',
    },
  },
];

export const moveMutants: readonly SimulatedMutant[] = edits.map((mutant) => ({
  ...mutant,
  store: 'redis',
  works: 'moves',
  shards: 1,
}));
