// Mistakes in the journal of changes and in its healing, each of which must break a rule in a simulated world
// on Redis. A mistake that few worlds meet names the faults that it needs.

import { type Mutants, type SimulatedMutant, script, sharing } from './mistake.ts';

const healing = (name: string) => `src/journal/heal/${name}.ts`;
const decorator = 'src/journal/record/journaled-jobs.ts';
const jobRow = 'src/core/job-change.ts';
const healed = 'mysqlTrouble,redisFailover,redisEmptied';

export const journalMutants: Mutants<SimulatedMutant> = sharing(
  { store: 'redis' },
  {
    'journal-cancel-without-record': {
      file: decorator,
      text: 'cancel: async (keys, as) =>',
      by: 'cancel: async (keys, as) => keys.length > 0 ? jobs.cancel(keys, as) :',
    },
    'journal-push-answered-before-its-record': {
      file: decorator,
      text: "    failureOf(spool, changes, 'jobs.push'),\n    ...Array",
      by: "    (void failureOf(spool, changes, 'jobs.push'), null),\n    ...Array",
    },
    'journal-ack-without-record': {
      file: decorator,
      text: 'ack: async (given) => {',
      by: 'ack: async (given) => {\n      if (given.length > 0) return jobs.ack(given);',
    },
    'journal-ack-recorded-as-a-retry': {
      faults: 'mysqlTrouble',
      file: decorator,
      text: "kind: 'ended',\n        end: 'done',",
      by: "kind: 'retried',\n        end: 'done',",
    },
    'journal-healing-waits-for-no-instance': {
      faults: 'mysqlTrouble,redisFailover,redisEmptied',
      file: healing('barrier'),
      text: 'if (awaited.length === 0) {',
      by: 'if (awaited.length >= 0) {',
    },
    'journal-healing-waits-for-the-living-alone': {
      faults: 'mysqlTrouble,instanceDown,redisFailover,redisEmptied',
      file: healing('barrier'),
      text: ': now - began < (silent?.maxMs ?? 0)',
      by: ': now < began',
    },
    'journal-silent-instance-is-not-awaited': {
      faults: 'mysqlTrouble,instanceDown,redisFailover,redisEmptied',
      file: healing('restorer'),
      text: 'Math.max(peerWaitMs - (work.ageMs ?? 0), leastMs)',
      by: '0',
    },
    'journal-late-changes-are-not-compared': {
      faults: 'mysqlTrouble,instanceDown,redisFailover,redisEmptied',
      file: 'src/journal/ship/recorder.ts',
      text: 'const late = () => looker.lateOf(changes, marks, isStale());',
      by: 'const late = () => [];',
    },
    'journal-ends-are-not-compared': {
      faults: 'mysqlTrouble,redisFailover',
      file: healing('restorer'),
      text: "if (notes.some(({ phase }) => phase === 'ends')) {",
      by: 'if (notes.length > 99) {',
    },
    'journal-job-with-a-recorded-end-is-kept': {
      faults: 'mysqlTrouble,redisFailover',
      file: script('restore'),
      text: 'if row.state > 3 then return remove(job, row) end\n  if job.state == 2',
      by: "if row.state > 3 then return '\\3' end\n  if job.state == 2",
    },
    'journal-older-version-is-kept': {
      faults: 'mysqlTrouble,redisFailover',
      file: healing('restorer'),
      text: "isEnds ? 'compare' : 'put'",
      by: "'put'",
    },
    'journal-reserve-while-ends-are-compared': {
      faults: 'mysqlTrouble,redisFailover',
      file: script('reserve'),
      text: "if note and note.phase == 'ends' and note_held() > us then",
      by: 'if nil then',
    },
    'journal-hold-is-over-at-once': {
      faults: 'mysqlTrouble,redisFailover',
      file: script('shared/healing'),
      text: 'digits(us + limits.noteHoldMs * 1000)',
      by: 'digits(us + 60000)',
    },
    'journal-losses-are-not-looked-for': {
      faults: 'mysqlTrouble,redisFailover,instanceDown,restart',
      file: script('look'),
      text: 'local is_lost = stored < number and',
      by: 'local is_lost = false and',
    },
    'journal-waiting-jobs-are-not-put-back': {
      faults: 'mysqlTrouble,redisEmptied',
      file: healing('restorer'),
      text: "part: isLogged ? 'changed' : 'waiting'",
      by: "part: isLogged ? 'changed' : 'dead'",
    },
    'journal-numbers-are-not-reported-to-the-store': {
      faults: healed,
      file: 'src/journal/ship/recorder.ts',
      text: 'const marks = await looker.report(writer, changes);',
      by: 'const marks = new Map(changes.map(({ place, number }) => [place, number]));',
    },
    'journal-dead-letter-is-put-back-without-its-settled-alert': {
      faults: healed,
      file: script('restore'),
      text: "if row.is_told then put_settled_alert(job) else owe_alert(job, '') end",
      by: "if not row.is_told then owe_alert(job, '') end",
    },
    'journal-end-during-a-healing-is-overwritten': {
      faults: 'mysqlTrouble,redisFailover,redisEmptied',
      file: script('restore'),
      text: 'if ended_version(f) >= row.version then',
      by: 'if ended_version(f) < 0 then',
    },
    'journal-put-back-over-a-later-version': {
      faults: 'mysqlTrouble,redisFailover,redisEmptied',
      file: script('restore'),
      text: "if job and job.version > row.version then return '\\3' end",
      by: '',
    },
    'journal-body-is-not-put-back': {
      faults: 'mysqlTrouble,redisEmptied',
      file: script('restore'),
      text: "  if row.body then call('HSET', P .. ':b', f, row.body) end\n",
      by: '',
    },
    'journal-note-is-never-cleared': {
      faults: 'mysqlTrouble,redisEmptied',
      file: healing('restorer'),
      text: "for (const note of notes) await this.#advance(note, 'healed');",
      by: '',
    },
    'journal-work-is-never-claimed': {
      faults: 'mysqlTrouble,redisEmptied',
      file: healing('restorer'),
      text: 'if (work === null) return false;',
      by: 'if (work === null || work.no > 0) return false;',
    },
    'journal-merged-end-is-forgotten': {
      faults: 'mysqlTrouble,redisFailover,redisEmptied',
      file: 'src/core/job-change.ts',
      text: 'const top = compareStanding(a, b) >= 0 ? a : b;',
      by: 'const top = isEnded(b) && !isEnded(a) ? a : compareStanding(a, b) >= 0 ? a : b;',
    },
    'journal-rows-by-number': {
      faults: healed,
      file: jobRow,
      text: 'a.version - b.version ||\n    Number(isEnded(a)) - Number(isEnded(b)) ||\n    a.number',
      by: 'a.number',
    },
    'journal-known-number-is-not-sent': {
      faults: 'mysqlTrouble,redisFailover',
      file: 'src/store/redis/shard/shard.ts',
      text: 'this.#received[bucket] ?? 0}',
      by: '0}',
    },
    'journal-note-from-the-known-number-on': {
      faults: 'mysqlTrouble,redisFailover',
      file: script('shared/healing'),
      text: 'make_note(watermark, ',
      by: 'make_note(tonumber(known), ',
    },
    'journal-common-watermark': {
      faults: 'mysqlTrouble,redisFailover',
      file: script('shared/frame'),
      text: "local writer, known = switches:match(' (%S+) (%d+)$')",
      by: "local writer, known = switches:match(' (%S+) (%d+)$')\nif writer then writer = 'all' end",
    },
    'journal-open-rows-wait-for-the-jobs': {
      faults: 'mysqlTrouble,redisFailover',
      file: healing('restorer'),
      text: 'rows.filter(isEnds ? isPut : isRestorable)',
      by: 'rows.filter(isEnds ? isEnded : isRestorable)',
    },
    'journal-jobs-before-ends': {
      faults: 'mysqlTrouble,redisFailover',
      file: healing('restorer'),
      text: "if (isIn('ends')) {",
      by: "if (isIn('ends')) {\n      for (const note of notes) if (note.phase === 'ends') await this.#advance(note, 'jobs');",
    },
  },
);
