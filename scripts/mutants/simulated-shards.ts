// Mistakes in changes of the shard list, each of which must break a rule in a simulated world on Redis
// (test/sim/redis/shard-changes.ts).
// Invariant (test/unit/mutants.test.ts): each text occurs once in its file.

import type { SimulatedMutant } from './mutants.ts';

const list = 'src/core/shard-list.ts';
const changes = 'src/use-cases/change-shards.ts';

const edits: readonly Omit<SimulatedMutant, 'store' | 'works'>[] = [
  {
    name: 'shard-with-jobs-is-removed',
    edit: { file: changes, text: 'if (jobs + alerts > 0)', by: 'if (jobs + alerts > 1_000)' },
  },
  {
    name: 'last-active-shard-drains',
    edit: { file: changes, text: 'if (others.length === 0)', by: 'if (others.length < 0)' },
  },
  {
    name: 'draining-shard-gets-new-ids',
    faults: 'loseHints',
    edit: {
      file: list,
      text: 'const home = highest(hash, activeOf(list));',
      by: 'const home = highest(hash, list.shards.map(({ id }) => id));',
    },
  },
  {
    name: 'changed-list-keeps-its-number',
    edit: {
      file: list,
      text: 'const number = Math.max(list.number, reports.number) + 1;',
      by: 'const number = Math.max(list.number, reports.number);',
    },
  },
  {
    name: 'earlier-list-is-forgotten',
    edit: {
      file: list,
      text: 'earlier: [...list.earlier, past, ...forgotten] };',
      by: 'earlier: [...list.earlier, ...forgotten].filter(() => past === null) };',
    },
  },
  {
    name: 'shard-is-settled-with-jobs-of-an-earlier-list',
    edit: {
      file: changes,
      text: 'if (since >= number || !(await isCleared(servers, id))) continue;',
      by: 'if (since >= number) continue;',
    },
  },
  {
    name: 'change-of-the-list-is-not-announced',
    faults: 'pause,registryAway',
    edit: {
      file: changes,
      text: 'await Promise.allSettled(shards.servers.list.shards.map(({ id }) => shards.servers.announce(id)));',
      by: '',
    },
  },
  {
    name: 'verb-looks-on-one-shard-alone',
    edit: {
      file: 'src/store/redis/calls/jobs.ts',
      text: "const isElsewhere = ({ kind }: { readonly kind: string }) => kind === 'absent';",
      by: "const isElsewhere = ({ kind }: { readonly kind: string }) => kind === 'none';",
    },
  },
];

export const shardMutants: readonly SimulatedMutant[] = edits.map((mutant) => ({
  ...mutant,
  store: 'redis',
  works: 'shards',
}));
