// Mistakes in the journal, and others that simulated worlds show rarely or never, each with the test that it
// fails.
// Invariant (test/unit/mutants.test.ts): each text occurs once in its file, and each title in its test file.

/** A text that is replaced. */
export interface Edit {
  readonly file: string;
  /** occurs once */
  readonly text: string;
  readonly by: string;
}

export interface Mutant {
  readonly name: string;
  readonly edit: Edit;
  readonly test: VitestCase;
}

export interface VitestCase {
  readonly file: string;
  /** the title, or a part of it, as its file has it; `%s` stands for any text */
  readonly title: string;
}

/** A mistake that breaks a rule in a simulated world (test/sim). */
export interface SimulatedMutant {
  readonly name: string;
  readonly edit: Edit;
  /** of its worlds; default sqlite */
  readonly store?: 'sqlite' | 'redis';
  /** kinds of faults that every world has; absent: those of its seed */
  readonly faults?: string;
  /** of Redis; absent: the seed decides */
  readonly shards?: number;
  /** what operators do in its worlds (test/sim/works.ts); absent: what its seed draws */
  readonly works?: string;
  /** why no world can show it: it is expected to live */
  readonly livesBecause?: string;
}

const jobRow = 'src/core/job-row.ts';
const jobs = 'src/journal/record/journaled-jobs.ts';
const lua = 'src/store/redis/scripts/lua';
const leaving = 'src/store/sqlite/engine/leaving.ts';

const unit = (name: string, title: string) => ({ file: `test/unit/${name}.test.ts`, title });
const role = (name: string, title: string) => ({ file: `test/role/${name}.test.ts`, title });
const healing = (title: string) => ({ file: 'test/fault/journal-healing.test.ts', title });

const byVerdict = (title: string) => unit('verdict', title);

/** name, text and its mistake in topic-watch.ts, title of the test */
const topicWatchEdits: readonly (readonly [string, string, string, string])[] = [
  [
    'failing-judged-by-some-notifiers',
    'if (!isWhole) return;',
    '',
    'a restart, or a notifier that does not answer, ends nothing',
  ],
  [
    'failing-ends-at-the-first-success',
    'return now - since >= this.#options.times.quietMs;',
    'return true;',
    'a success among failures ends nothing',
  ],
  [
    'failing-ends-by-an-old-success',
    'const failsAfter = (successAt: number, facts: TopicFailures): boolean =>\n  hasFailures(facts) &&',
    'const failsAfter = (successAt: number, facts: TopicFailures): boolean =>\n  false &&',
    'a topic that waits for its next attempt fails all the same',
  ],
  [
    'receiver-that-answers-fails',
    'const answersSince = this.#answersSince.get(origin) ?? 0;',
    'const answersSince = 0;',
    'a receiver without a success for minutes is mailed with what to run',
  ],
  [
    'one-failed-reply-is-an-incident',
    'failuresInRow >= upkeepLimits.repliesInRow;',
    'failuresInRow >= 1;',
    'few failed replies are about their jobs',
  ],
  [
    'success-before-a-reload-forgotten',
    "if (name === 'delivered') this.#delivered.set(topic, now);",
    "if (name === 'delivered' && now < 0) this.#delivered.set(topic, now);",
    'a success that was counted before a reload is the end',
  ],
  [
    'incident-of-unknown-topics-ends',
    'if (!this.#options.topics.isKnown) return;',
    '',
    'topics that are unknown or unreadable end nothing',
  ],
  [
    'incident-of-an-unreadable-topic-ends',
    'topics.isUnreadable(name) || this.#calledOrigin(name) !== null;',
    'this.#calledOrigin(name) !== null;',
    'topics that are unknown or unreadable end nothing',
  ],
  [
    'incidents-of-a-standby',
    'if (leader !== null) return this.#leaveTo(leader);',
    '',
    'an instance that does not lead has no incidents',
  ],
  [
    'no-incident-of-the-others',
    'if (begun.length > 0)\n',
    'if (begun.length > 9_999)\n',
    'some have their own incidents, and one is about all others',
  ],
  [
    'paused-incident-of-a-late-job',
    '      .filter((name) => now - (this.#heldSince.get(name) ?? now) >= times.pausedMs)\n',
    '',
    'a job that was late before the pause does not begin one',
  ],
  [
    'paused-incident-of-an-early-job',
    'if (found === null || dueMs < times.pausedMs) continue;',
    'if (found === null) continue;',
    'a job that is due for an hour in a paused topic is mailed',
  ],
  [
    'many-topics-have-own-incidents',
    '|| some.length > upkeepLimits.ownIncidentsMax;',
    ';',
    '200 topics of a receiver are one incident',
  ],
  [
    'pulled-topic-counts-as-called',
    " || topic.delivery === 'pull' ? null",
    ' ? null',
    'a topic whose jobs clients pull now ends it with that',
  ],
];

export const mutants: readonly Mutant[] = [
  {
    name: 'snooze-before-dead-if',
    edit: {
      file: 'src/core/verdict.ts',
      text: 'if (holds(rules.deadIf, outcome, facts)) return',
      by: 'if (againOf(rules, outcome, facts) === null && holds(rules.deadIf, outcome, facts)) return',
    },
    test: byVerdict('deadIf goes before a snooze that the same reply asks for'),
  },
  {
    name: 'rules-read-half-a-body',
    edit: {
      file: 'src/core/verdict.ts',
      text: 'rule !== null && !(cut && readsBody(rule)) &&',
      by: 'rule !== null &&',
    },
    test: byVerdict('half a body ends no job: rules that read it are false, others are not'),
  },
  {
    name: 'outcome-id-of-another-bucket',
    edit: {
      file: 'src/core/shard-list.ts',
      text: 'if (hash % shard.buckets === bucket && highest',
      by: 'if (highest',
    },
    test: unit('shard-list', 'placement: finds an id for each bucket of %s'),
  },
  {
    name: 'outcome-id-of-another-shard',
    edit: {
      file: 'src/core/shard-list.ts',
      text: '=== bucket && highest(hash, active) === shard.id)',
      by: '=== bucket)',
    },
    test: unit('shard-list', 'placement: a look-up finds the id that was made for a draining shard'),
  },
  {
    name: 'end-without-an-entry-while-a-move-is-open',
    edit: { file: `${lua}/shared/ends.lua`, text: ' or moving ~= nil', by: '' },
    test: role('mover', 'a late put revives nothing: during the move by the entry of the end'),
  },
  {
    name: 'ended-move-opened-by-a-late-mover',
    edit: { file: leaving, text: "if (this.#read('moving') !== move) return null;", by: '' },
    test: role('mover', 'a mover that stood still since it read the move leaves it closed'),
  },
  {
    name: 'close-of-another-move',
    edit: { file: leaving, text: "if (this.#read('moved') === move)", by: '' },
    test: role('mover', 'a second move ends only after the target has closed the first'),
  },
  {
    name: 'move-forgets-puts-after-the-last-look',
    edit: {
      file: 'src/upkeep/mover.ts',
      text: 'askedAt - first.at < upkeepLimits.moveForgetMs',
      by: 'monotonicNow() - first.at < upkeepLimits.moveForgetMs',
    },
    test: role('mover', 'jobs.db forgets no put that is younger than the last look for losses'),
  },
  {
    name: 'put-of-a-closed-move',
    edit: {
      file: `${lua}/restore.lua`,
      text: 'moving and moving:find(',
      by: "'' and string.find(' ', ' ') or moving and moving:find(",
    },
    test: role('mover', 'a late put revives nothing: during the move by the entry of the end'),
  },
  {
    name: 'jobs-db-delivers-while-it-is-left',
    edit: {
      file: 'src/store/sqlite/owner/operations.ts',
      text: "  'jobs.reserve',\n  'dead.requeue',",
      by: "  'dead.requeue',",
    },
    test: role('mover', 'jobs.db delivers nothing, takes no new id, and changes only reserved jobs'),
  },
  {
    name: 'job-of-an-old-reading-changes-in-jobs-db',
    edit: {
      file: 'src/store/sqlite/engine/engine.ts',
      text: '?.state !== reserved) return leavingFailure;',
      by: ' === undefined) return leavingFailure;',
    },
    test: role('mover', 'jobs.db delivers nothing, takes no new id, and changes only reserved jobs'),
  },
  {
    name: 'move-ends-with-a-lease-left',
    edit: {
      file: 'src/store/sqlite/engine/leaving.ts',
      text: 'if (this.#jobs() > 0 || this.#owesAlerts()) return false;',
      by: '',
    },
    test: role('mover', 'moves each job with all its members, and ends when the last lease is over'),
  },
  {
    name: 'rows-by-number',
    edit: {
      file: jobRow,
      text: 'a.version - b.version ||\n    Number(isEnded(a)) - Number(isEnded(b)) ||\n    a.number',
      by: 'a.number',
    },
    test: unit('journal-laws', 'an ack of a version that came back does not hide the newer push'),
  },
  {
    name: 'removal-without-a-number',
    edit: {
      file: `${lua}/restore.lua`,
      text: "return '\\2' .. struct.pack('>I7', draw())",
      by: "return '\\2' .. struct.pack('>I7', 0)",
    },
    test: role('redis-restore', 'what it wrote has a number: a server that loses it again'),
  },
  {
    name: 'cancel-with-job-version',
    edit: { file: jobs, text: "version: change.number,\n        kind: 'ended'", by: "kind: 'ended'" },
    test: role('journaled-store', 'cancel as %s: an ended record whose version is its number'),
  },
  {
    name: 'purge-with-job-version',
    edit: {
      file: 'src/journal/record/journaled-store.ts',
      text: '  version: job.number,\n',
      by: '',
    },
    test: role('journaled-store', '%s in bulk: a record of each job'),
  },
  {
    name: 'late-rows-ignored',
    edit: {
      file: 'src/journal/heal/looker.ts',
      text: 'if (!isOwn || (loss !== null && number > loss)) continue;',
      by: 'if (!isOwn || number >= 0) continue;',
    },
    test: healing('a process that stops between store and spool until the healing is over'),
  },
  {
    name: 'late-changes-not-compared',
    edit: {
      file: 'src/journal/ship/recorder.ts',
      text: 'const late = () => looker.lateOf(changes, marks, isStale());',
      by: 'const late = () => [];',
    },
    test: role(
      'journal-late',
      'a batch that takes long is compared, also when its process dies after the COMMIT',
    ),
  },
  {
    name: 'newer-note-hides-an-older-loss',
    edit: {
      file: `${lua}/shared/frame.lua`,
      text: 'tonumber(known) > note.id or watermark < note.from)',
      by: 'tonumber(known) > note.id)',
    },
    test: role('redis-notes', 'several writers: the note covers the oldest loss'),
  },
  {
    name: 'put-without-history',
    edit: {
      file: `${lua}/restore.lua`,
      text: 'if ended_version(f) >= row.version then',
      by: 'if false then',
    },
    test: role('redis-restore', 'absent, with an entry of the same or a later end: stays ended'),
  },
  {
    name: 'put-over-same-end',
    edit: {
      file: `${lua}/restore.lua`,
      text: 'if ended_version(f) >= row.version then',
      by: 'if ended_version(f) > row.version then',
    },
    test: role('redis-restore', 'absent, with an entry of the same or a later end: stays ended'),
  },
  {
    name: 'put-dead-without-alert',
    edit: {
      file: `${lua}/restore.lua`,
      text: "if row.is_told then put_settled_alert(job) else owe_alert(job, '') end",
      by: "if not row.is_told then owe_alert(job, '') end",
    },
    test: role('redis-restore', 'absent and dead with a settled alert: is removed when it is old'),
  },
  {
    name: 'known-not-sent',
    edit: { file: 'src/store/redis/shard/shard.ts', text: 'this.#received[bucket] ?? 0}', by: '0}' },
    test: role('redis-notes', 'the next write makes the note: from the watermark on'),
  },
  {
    name: 'from-is-known',
    edit: {
      file: `${lua}/shared/healing.lua`,
      text: 'make_note(watermark, ',
      by: 'make_note(tonumber(known), ',
    },
    test: role('redis-notes', 'the next write makes the note: from the watermark on'),
  },
  {
    name: 'note-below-the-lost-numbers',
    edit: { file: `${lua}/shared/healing.lua`, text: '  rise_above(lost)\n', by: '' },
    test: role('redis-notes', 'the note has a number above the lost ones'),
  },
  {
    name: 'common-watermark',
    edit: {
      file: `${lua}/shared/frame.lua`,
      text: "local writer, known = switches:match(' (%S+) (%d+)$')",
      by: "local writer, known = switches:match(' (%S+) (%d+)$')\nif writer then writer = 'all' end",
    },
    test: role('redis-notes', 'several writers: the note covers the oldest loss'),
  },
  {
    name: 'answer-before-sync',
    edit: {
      file: 'src/journal/record/spool-writer.ts',
      text: 'group.some(({ waitsForSync }) => waitsForSync);',
      by: 'false;',
    },
    test: unit('spool', 'synced: answers after the fdatasync of its record'),
  },
  {
    name: 'answer-before-spool',
    edit: {
      file: jobs,
      text: "failureOf(spool, changes, 'jobs.push'),",
      by: "(void failureOf(spool, changes, 'jobs.push'), null),",
    },
    test: role('journaled-store', 'push: an answer waits for the spool'),
  },
  {
    name: 'sync-again',
    edit: {
      file: 'src/journal/record/spool-writer.ts',
      text: 'await work();',
      by: 'await work().catch(() => work());',
    },
    test: unit('spool', 'a failing %s: unknown; the file is left, the changes go to a new one'),
  },
  {
    name: 'no-space-check-push',
    edit: {
      file: jobs,
      text: 'if (!spool.admits(recordBytesOf(items))) return items.map(() => spoolFull);\n  const early',
      by: 'const early',
    },
    test: role('journaled-store', 'a full spool: pushes and verbs are not stored, ends go on'),
  },
  {
    name: 'no-space-check-edit',
    edit: {
      file: jobs,
      text: 'if (!spool.admits(recordBytesOf(items))) return items.map(() => spoolFull);\n      return',
      by: 'return',
    },
    test: role('journaled-store', 'a full spool: pushes and verbs are not stored, ends go on'),
  },
  {
    name: 'edit-without-a-record-of-its-body',
    edit: {
      file: jobs,
      text: "return { ...ownChange(item, change), kind: 'accepted', ...pushed };",
      by: "return { ...ownChange(item, change), kind: 'moved', by: 'reschedule', ...pushed };",
    },
    test: role('journaled-store', 'edit: an accepted record of the whole job under its new origin'),
  },
  {
    name: 'no-space-check-verb',
    edit: { file: jobs, text: 'if (!spool.admits(0)) return items.map(() => spoolFull);', by: '' },
    test: role('journaled-store', 'a full spool: pushes and verbs are not stored, ends go on'),
  },
  {
    name: 'record-before-ack',
    edit: {
      file: jobs,
      text: "return writeOutcomes(spool, items, await jobs.ack(items), 'jobs.ack'",
      by: `return writeOutcomes(spool, items, await spool.write(items.map((item): Change => ({
        ...ownChange(item, { ...item, number: item.version, origin: 0, place: '', dueAt: 0, failures: 0 }),
        kind: 'ended', end: 'done', attempt: item.attempt })), 'written')
        .then(async () => (await jobs.ack(items)).map(({ kind }) => ({ kind: kind === 'acked' ? '' : kind }))), 'jobs.ack'`,
    },
    test: role('journaled-store', 'ack: a lost lease leaves no record'),
  },
  {
    name: 'note-cleared-without-id',
    edit: {
      file: `${lua}/advance.lua`,
      text: 'if not note or note.id ~= tonumber(ARGV[4])',
      by: 'if not note',
    },
    test: role('redis-restore', 'look: makes a note when a writer or a mark has a lower number'),
  },
  {
    name: 'reserve-before-ends',
    edit: {
      file: 'src/journal/heal/restorer.ts',
      text: "if (isIn('ends')) {",
      by: "if (isIn('ends')) {\n      for (const note of notes) if (note.phase === 'ends') await this.#advance(note, 'jobs');",
    },
    test: healing('ends come before the first reserve, also when the healing fails between two steps'),
  },
  {
    name: 'reserve-not-held',
    edit: {
      file: `${lua}/shared/healing.lua`,
      text: "'hold', digits(us + limits.noteHoldMs * 1000)",
      by: "'hold', '0'",
    },
    test: role('redis-notes', 'reserve: nothing while ends are put back, at most 60 s; then as always'),
  },
  {
    name: 'keep-without-row',
    edit: { file: jobs, text: "else if (outcome.kind === 'kept') kept.push(i);", by: '' },
    test: role('journaled-store', 'push: a kept job is read and recorded, with its version as number'),
  },
  {
    name: 'silent-instance-not-awaited',
    edit: {
      file: 'src/journal/heal/restorer.ts',
      text: 'Math.max(peerWaitMs - (work.ageMs ?? 0), leastMs)',
      by: '0',
    },
    test: healing('%s: a healing waits for a silent instance, and calls no job that it ended'),
  },
  {
    name: 'silent-instance-forgotten-by-age',
    edit: {
      file: 'src/journal/heal/barrier.ts',
      text: '(silent !== undefined && each.ageMs < silent.withinMs && ',
      by: '(silent !== undefined && each.ageMs < seenMs && ',
    },
    test: role('journal-audit', 'audit: a job stays ended whose end is in a spool of an instance seen %s'),
  },
  {
    name: 'wait-without-hold',
    edit: {
      file: `${lua}/advance.lua`,
      text: 'keep_note_hold(math.max(note_held(), us + tonumber(ARGV[6]) * 1000))',
      by: '',
    },
    test: role('redis-notes', 'reserve: nothing while a healing holds the jobs, also after 60 s'),
  },
  {
    name: 'hold-of-a-healing-is-the-last-one',
    edit: { file: `${lua}/advance.lua`, text: 'math.max(note_held(), ', by: '(' },
    test: role('redis-notes', 'hold: shortens no hold, except one of a clock that was set back'),
  },
  {
    name: 'clock-set-back-prolongs-hold',
    edit: {
      file: `${lua}/shared/holds.lua`,
      text: "math.min(tonumber(stored or 'inf'), at + longest)",
      by: "tonumber(stored or '0')",
    },
    test: role('redis-notes', 'reserve: a clock set back neither ends a hold nor extends it beyond 60 s'),
  },
  {
    name: 'ended-before-all-is-shipped',
    edit: {
      file: 'src/journal/ship/recorder.ts',
      text: 'isDone = !isBehind && open.every((incarnation) => incarnation === own);',
      by: 'isDone = true;',
    },
    test: role('journal-recorder', 'an instance that ends: says so only when all of its streams are shipped'),
  },
  {
    name: 'mark-before-report',
    edit: {
      file: 'src/journal/heal/looker.ts',
      text: 'await this.#look(partition, { writer, number });\n        marks.set(place, number);',
      by: 'marks.set(place, number);\n        await this.#look(partition, { writer, number });',
    },
    test: healing('a bucket that does not answer: its changes are shipped without a mark'),
  },
  {
    name: 'report-without-its-writer',
    edit: {
      file: 'src/journal/heal/looker.ts',
      text: 'if (next !== null) writers.set(next.writer, Math.max(shipped.get(next.writer) ?? 0, next.number));',
      by: '',
    },
    test: unit('looker', 'report: compares the number of the writer before its mark is raised'),
  },
  {
    name: 'journal-unanswered-numbers-not-compared',
    edit: {
      file: 'src/journal/heal/looker.ts',
      text: 'highest: isReported ? (loss ?? 0) : Math.max(highest, number),',
      by: 'highest: isReported ? (loss ?? 0) : highest * 0,',
    },
    test: unit(
      'looker',
      'lateOf: all changes of a partition that was not asked, those before a loss, or none',
    ),
  },
  {
    name: 'report-after-commit',
    edit: {
      file: 'src/journal/ship/recorder.ts',
      text: 'const marks = await looker.report(writer, changes);',
      by: 'const marks = new Map(changes.map(({ place, number }) => [place, number]));',
    },
    test: role('journal-recorder', 'reports numbers to the store before MySQL has them'),
  },
  {
    name: 'late-spool-merged',
    edit: {
      file: 'src/journal/ship/recorder.ts',
      text: 'if (await this.#setAsideLate(stream, from, part, title !== null)) return true;',
      by: '',
    },
    test: role('journal-recorder', 'a segment from before the retention is set aside, not merged'),
  },
  {
    name: 'late-accept-keeps-body',
    edit: { file: jobRow, text: 'body.bodyOrigin > endedOrigin ? body.pushed : null', by: 'body.pushed' },
    test: unit('journal-laws', 'keeps the newest body until its origin has ended'),
  },
  {
    name: 'late-accept-keeps-body-sql',
    edit: {
      file: 'src/journal/ship/job-upsert.ts',
      text: 'IF(GREATEST(body_origin, VALUES(body_origin)) <= ended_origin, NULL,',
      by: 'IF(FALSE, NULL,',
    },
    test: role('journal-mysql', 'merge: 300 lives of jobs, shuffled, repeated and in parts'),
  },
  {
    name: 'skip-ends-nothing',
    edit: {
      file: 'src/upkeep/operations/restore-rows.ts',
      text: "record.overdue === 'skip' ? await this.#purge(rows.filter(isOverdue)) : 0",
      by: "record.overdue === 'skip' ? rows.filter(isOverdue).length : 0",
    },
    test: role('restore-operation', 'overdue jobs: spread over ten minutes, or ended for good'),
  },
  {
    name: 'living-tail-cut',
    edit: {
      file: 'src/journal/ship/stream-reader.ts',
      text: 'if (later === null && isLiving) break;',
      by: '',
    },
    test: unit('spool-damage', 'a torn tail: cut off for a dead process'),
  },
  {
    name: 'audit-without-barrier',
    edit: {
      file: 'src/journal/heal/auditor.ts',
      text: 'if (passed.behind.length > 0) {',
      by: 'if (passed.behind.length > 1_000) {',
    },
    test: role('journal-audit', 'audit: a job stays ended whose end is in a spool of an instance seen %s'),
  },
  {
    name: 'shipped-changes-compared-without-barrier',
    edit: {
      file: 'src/journal/heal/restorer.ts',
      text: '    await this.#waitForAll(work, async () => {\n      if (comesLater()) throw new WorkEnded();\n    });\n',
      by: '    this.#passed = { barrier: 0, behind: [], reached: [], work: work.no, losses: this.#losses() };\n',
    },
    test: role('journal-late', 'MySQL goes back with open work: a job that has ended since is not put back'),
  },
  {
    name: 'barrier-reached-in-a-database-that-went-back',
    edit: {
      file: 'src/journal/ship/recorder.ts',
      text: 'await journal.seen({ ...self, spoolBytes: this.#spoolBytes }, this.#known);',
      by: 'await journal.seen({ ...self, spoolBytes: this.#spoolBytes });',
    },
    test: role(
      'journal-recorder',
      'MySQL went back and nothing follows: a barrier is reached only when all is shipped again',
    ),
  },
  {
    name: 'barrier-repeats-after-mysql-went-back',
    edit: {
      file: 'src/journal/ship/journal-work.ts',
      text: 'barrier = GREATEST(barrier + 1,',
      by: 'barrier = LEAST(barrier + 1,',
    },
    test: role('journal-mysql', 'instances: a MySQL that went back takes no sign, and repeats no barrier'),
  },
  {
    name: 'older-version-put-twice',
    edit: {
      file: 'src/store/redis/calls/healing.ts',
      text: 'return only + 4 + (isEarlier ? 8 : 0);',
      by: 'return only + 4;',
    },
    test: role('journal-shards', 'journal: two shards of an unsettled list go back, and both are healed'),
  },
  {
    name: 'healed-without-answer',
    edit: {
      file: 'src/journal/heal/restorer.ts',
      text: "for (const note of notes) await this.#advance(note, 'healed');",
      by: "for (const note of notes) await this.#options.healing.advance(note, 'healed');",
    },
    test: role('journal-shards', 'journal: a loss at the end of a healing'),
  },
  {
    name: 'short-steps-of-the-clock-do-not-add-up',
    edit: {
      file: 'src/store/sqlite/engine/recovery.ts',
      text: 'if (this.#isRight) this.#right = this.#begun;',
      by: 'this.#right = this.#begun;',
    },
    test: role('store-clock', 'steps of the clock that are each too short for a jump add up to one'),
  },
  {
    name: 'probes-need-an-open-slot',
    edit: {
      file: 'src/notifier/capacity.ts',
      text: '    const probes = this.#probeCalls(skipped, nowMs);',
      by: '    const probes = new Map<string, TopicCapacity>();',
    },
    test: unit('capacity', 'offers probes while no slot is open: they have their own account'),
  },
  {
    name: 'probes-wake-nothing-while-no-slot-is-open',
    edit: {
      file: 'src/notifier/capacity.ts',
      text: 'return Math.min(ceilingMs, this.#probes.turnInMs(now), this.#rates.worthInMs(now));',
      by: 'return this.#budget.openSlots <= 0 ? ceilingMs : Math.min(ceilingMs, this.#probes.turnInMs(now));',
    },
    test: unit('capacity', 'the next turn of probes ends a sleep also while no slot is open'),
  },
  {
    name: 'answer-of-an-old-topic',
    edit: {
      file: 'src/notifier/capacity-grants.ts',
      text: 'for (const grant of this.#open) this.#outdated.add(grant);',
      by: '',
    },
    test: unit('capacity', 'bring no more jobs of a topic that was %s than it may have now'),
  },
  {
    name: 'process-that-stood-still-pushes',
    edit: {
      file: 'src/upkeep/ticker.ts',
      text: '<= upkeepLimits.tickClaimMs / 2;',
      by: '<= 100 * upkeepLimits.tickClaimMs;',
    },
    test: role('ticker', 'are left to others by a process whose machine was suspended after its claim'),
  },
  {
    name: 'age-of-a-claim-counts-from-the-push',
    edit: {
      file: 'src/upkeep/ticker.ts',
      text: 'Math.max(monotonicNow() - at, wallNow() - date)',
      by: 'Math.max(0 * at, 0 * date)',
    },
    test: role('ticker', 'are left to others by a process whose machine was suspended after its claim'),
  },
  {
    name: 'emptied-bucket-without-a-note',
    edit: { file: `${lua}/mark.lua`, text: "if ARGV[4] ~= '' then", by: "if ARGV[4] == 'x' then" },
    test: role('redis-notes', 'an emptied server: a note from 0 on, and numbers above all that are known'),
  },
  {
    name: 'barrier-reached-while-behind',
    edit: {
      file: 'src/journal/ship/recorder.ts',
      text: '    if (!isBehind) {\n      this.#behindSince = null;',
      by: '    {\n      this.#behindSince = null;',
    },
    test: role(
      'journal-recorder',
      'MySQL went back and nothing follows: a barrier is reached only when all is shipped again',
    ),
  },
  {
    name: 'entry-with-the-version-of-the-job',
    edit: {
      file: `${lua}/shared/ends.lua`,
      text: 'job.closes and closed_by(job.closes) or only',
      by: 'only',
    },
    test: role(
      'redis-notes',
      'cancel and purge of a live job: its entry has the number of the end, with or without a note',
    ),
  },
  {
    name: 'late-end-leaves-no-entry',
    edit: {
      file: `${lua}/restore.lua`,
      text: '  leave_entry(topic_number_made(row.topic), row.tid, row.state - 4, row.version, 0)\n',
      by: '',
    },
    test: role('redis-restore', 'absent, and the row has ended: an entry keeps older rows away'),
  },
  ...topicWatchEdits.map(([name, text, by, title]) => ({
    name,
    edit: { file: 'src/upkeep/topic-watch.ts', text, by },
    test: role('topic-watch', title),
  })),
];
