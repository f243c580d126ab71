// Mistakes in the journal of changes and in its healing, each of which must break a rule in a simulated world
// on Redis. A mistake that few worlds meet names the faults that it needs.

import type { SimulatedMutant } from './mutants.ts';

const script = (name: string) => `src/store/redis/scripts/lua/${name}.lua`;
const recorder = 'src/journal/ship/recorder.ts';
const healing = (name: string) => `src/journal/heal/${name}.ts`;
const decorator = 'src/journal/record/journaled-jobs.ts';

const jobRow = 'src/core/job-row.ts';
const healed = 'mysqlTrouble,redisFailover,redisEmptied';

const edits: readonly Omit<SimulatedMutant, 'store'>[] = [
  {
    name: 'journal-cancel-without-record',
    edit: {
      file: decorator,
      text: 'cancel: async (keys, as) =>',
      by: 'cancel: async (keys, as) => keys.length > 0 ? jobs.cancel(keys, as) :',
    },
  },
  {
    name: 'journal-push-answered-before-its-record',
    edit: {
      file: decorator,
      text: "    failureOf(spool, changes, 'jobs.push'),\n    ...Array",
      by: "    (void failureOf(spool, changes, 'jobs.push'), null),\n    ...Array",
    },
  },
  {
    name: 'journal-ack-without-record',
    edit: {
      file: decorator,
      text: 'ack: async (given) => {',
      by: 'ack: async (given) => {\n      if (given.length > 0) return jobs.ack(given);',
    },
  },
  {
    name: 'journal-ack-recorded-as-a-retry',
    faults: 'mysqlTrouble',
    edit: {
      file: decorator,
      text: "kind: 'ended',\n        end: 'done',",
      by: "kind: 'retried',\n        end: 'done',",
    },
  },
  {
    name: 'journal-healing-waits-for-no-instance',
    faults: 'mysqlTrouble,redisFailover,redisEmptied',
    edit: {
      file: healing('barrier'),
      text: 'if (awaited.length === 0) {',
      by: 'if (awaited.length >= 0) {',
    },
  },
  {
    name: 'journal-healing-waits-for-the-living-alone',
    faults: 'mysqlTrouble,instanceDown,redisFailover,redisEmptied',
    edit: {
      file: healing('barrier'),
      text: ': now - began < (silent?.maxMs ?? 0)',
      by: ': now < began',
    },
  },
  {
    name: 'journal-ends-are-not-compared',
    faults: 'mysqlTrouble,redisFailover',
    edit: {
      file: healing('restorer'),
      text: "if (notes.some(({ phase }) => phase === 'ends')) {",
      by: 'if (notes.length > 99) {',
    },
  },
  {
    name: 'journal-job-with-a-recorded-end-is-kept',
    faults: 'mysqlTrouble,redisFailover',
    edit: {
      file: script('restore'),
      text: 'if row.state > 3 then return remove(job, row) end\n  if job.state == 2',
      by: "if row.state > 3 then return '\\3' end\n  if job.state == 2",
    },
  },
  {
    name: 'journal-older-version-is-kept',
    faults: 'mysqlTrouble,redisFailover',
    edit: {
      file: healing('restorer'),
      text: "isEnds ? 'compare' : 'put'",
      by: "'put'",
    },
  },
  {
    name: 'journal-reserve-while-ends-are-compared',
    faults: 'mysqlTrouble,redisFailover',
    edit: {
      file: script('reserve'),
      text: "if note and note.phase == 'ends' and note_held() > us then",
      by: 'if nil then',
    },
  },
  {
    name: 'journal-hold-is-over-at-once',
    faults: 'mysqlTrouble,redisFailover',
    edit: {
      file: script('shared/healing'),
      text: 'digits(us + limits.noteHoldMs * 1000)',
      by: 'digits(us + 60000)',
    },
  },
  {
    name: 'journal-losses-are-not-looked-for',
    faults: 'mysqlTrouble,redisFailover,instanceDown,restart',
    edit: {
      file: script('look'),
      text: 'local is_lost = stored < number and',
      by: 'local is_lost = false and',
    },
  },
  {
    name: 'journal-waiting-jobs-are-not-put-back',
    faults: 'mysqlTrouble,redisEmptied',
    edit: {
      file: healing('restorer'),
      text: "part: isLogged ? 'changed' : 'waiting'",
      by: "part: isLogged ? 'changed' : 'dead'",
    },
  },
  {
    name: 'journal-end-during-a-healing-is-overwritten',
    faults: 'mysqlTrouble,redisFailover,redisEmptied',
    edit: {
      file: script('restore'),
      text: 'if ended_version(f) >= row.version then',
      by: 'if ended_version(f) < 0 then',
    },
  },
  {
    name: 'journal-put-back-over-a-later-version',
    faults: 'mysqlTrouble,redisFailover,redisEmptied',
    edit: {
      file: script('restore'),
      text: "if job and job.version > row.version then return '\\3' end",
      by: '',
    },
  },
  {
    name: 'journal-body-is-not-put-back',
    faults: 'mysqlTrouble,redisEmptied',
    edit: {
      file: script('restore'),
      text: "  if row.body then call('HSET', P .. ':b', f, row.body) end\n",
      by: '',
    },
  },
  {
    name: 'journal-note-is-never-cleared',
    faults: 'mysqlTrouble,redisEmptied',
    edit: {
      file: healing('restorer'),
      text: "for (const note of notes) await this.#advance(note, 'healed');",
      by: '',
    },
  },
  {
    name: 'journal-work-is-never-claimed',
    faults: 'mysqlTrouble,redisEmptied',
    edit: {
      file: healing('restorer'),
      text: 'if (work === null) return false;',
      by: 'if (work === null || work.no > 0) return false;',
    },
  },
  {
    name: 'journal-merged-end-is-forgotten',
    faults: 'mysqlTrouble,redisFailover,redisEmptied',
    edit: {
      file: 'src/core/job-row.ts',
      text: 'const top = compareStanding(a, b) >= 0 ? a : b;',
      by: 'const top = isEnded(b) && !isEnded(a) ? a : compareStanding(a, b) >= 0 ? a : b;',
    },
  },
  {
    name: 'journal-mysql-that-went-back-is-not-noticed',
    faults: 'mysqlTrouble,redisEmptied',
    edit: {
      file: recorder,
      text: 'if (isBefore(outcome.at, from)) this.#positions = await this.#askPositions();\n        else',
      by: 'if (isBefore(from, outcome.at))',
    },
    livesBecause: 'the next round begins with a sign, which names the same positions and notices it',
  },
  {
    name: 'journal-rows-by-number',
    faults: healed,
    edit: {
      file: jobRow,
      text: 'a.version - b.version ||\n    Number(isEnded(a)) - Number(isEnded(b)) ||\n    a.number',
      by: 'a.number',
    },
  },
  {
    name: 'journal-known-number-is-not-sent',
    faults: 'mysqlTrouble,redisFailover',
    edit: { file: 'src/store/redis/shard/shard.ts', text: 'this.#received[bucket] ?? 0}', by: '0}' },
  },
  {
    name: 'journal-note-from-the-known-number-on',
    faults: 'mysqlTrouble,redisFailover',
    edit: {
      file: script('shared/healing'),
      text: 'make_note(watermark, ',
      by: 'make_note(tonumber(known), ',
    },
  },
  {
    name: 'journal-common-watermark',
    faults: 'mysqlTrouble,redisFailover',
    edit: {
      file: script('shared/frame'),
      text: "local writer, known = switches:match(' (%S+) (%d+)$')",
      by: "local writer, known = switches:match(' (%S+) (%d+)$')\nif writer then writer = 'all' end",
    },
  },
  {
    name: 'journal-open-rows-wait-for-the-jobs',
    faults: 'mysqlTrouble,redisFailover',
    edit: {
      file: healing('restorer'),
      text: 'rows.filter(isEnds ? isPut : isRestorable)',
      by: 'rows.filter(isEnds ? isEnded : isRestorable)',
    },
  },
  {
    name: 'journal-jobs-before-ends',
    faults: 'mysqlTrouble,redisFailover',
    edit: {
      file: healing('restorer'),
      text: "if (isIn('ends')) {",
      by: "if (isIn('ends')) {\n      for (const note of notes) if (note.phase === 'ends') await this.#advance(note, 'jobs');",
    },
  },
];

export const simulatedJournalMutants: readonly SimulatedMutant[] = edits.map((mutant) => ({
  ...mutant,
  store: 'redis',
}));
