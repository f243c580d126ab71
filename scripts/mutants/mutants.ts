// Mistakes in the journal, and others that simulated worlds show rarely or never, each with the test that it
// fails.

import { listOf, type Mutant, type Mutants, script } from './mistake.ts';

const jobRow = 'src/core/job-change.ts';
const jobs = 'src/journal/record/journaled-jobs.ts';
const leaving = 'src/store/sqlite/engine/leaving.ts';
const topicWatch = 'src/upkeep/topic-watch.ts';

const unit = (name: string, title: string) => ({ file: `test/unit/${name}.test.ts`, title });
const role = (name: string, title: string) => ({ file: `test/role/${name}.test.ts`, title });
const healing = (title: string) => ({ file: 'test/fault/journal-healing.test.ts', title });

const byVerdict = (title: string) => unit('verdict', title);

const byName: Mutants<Mutant> = {
  'snooze-before-dead-if': {
    file: 'src/core/verdict.ts',
    text: 'if (holds(rules.deadIf, outcome, facts)) return',
    by: 'if (againOf(rules, outcome, facts) === null && holds(rules.deadIf, outcome, facts)) return',
    test: byVerdict('deadIf goes before a snooze that the same reply asks for'),
  },
  'rules-read-half-a-body': {
    file: 'src/core/verdict.ts',
    text: 'rule !== null && !(cut && readsBody(rule)) &&',
    by: 'rule !== null &&',
    test: byVerdict('half a body ends no job: rules that read it are false, others are not'),
  },
  'outcome-id-of-another-bucket': {
    file: 'src/core/shard-list.ts',
    text: 'if (hash % shard.buckets === bucket && highest',
    by: 'if (highest',
    test: unit('shard-list', 'placement: finds an id for each bucket of %s'),
  },
  'outcome-id-of-another-shard': {
    file: 'src/core/shard-list.ts',
    text: '=== bucket && highest(hash, active) === shard.id)',
    by: '=== bucket)',
    test: unit('shard-list', 'placement: a look-up finds the id that was made for a draining shard'),
  },
  'end-without-an-entry-while-a-move-is-open': {
    file: script('shared/ends'),
    text: ' or moving ~= nil',
    by: '',
    test: role('mover', 'a late put revives nothing: during the move by the entry of the end'),
  },
  'ended-move-opened-by-a-late-mover': {
    file: leaving,
    text: "if (this.#read('moving') !== move) return null;",
    by: '',
    test: role('mover', 'a mover that stood still since it read the move leaves it closed'),
  },
  'close-of-another-move': {
    file: leaving,
    text: "if (this.#read('moved') === move)",
    by: '',
    test: role('mover', 'a second move ends only after the target has closed the first'),
  },
  'move-forgets-puts-after-the-last-look': {
    file: 'src/upkeep/mover.ts',
    text: 'askedAt - first.at < upkeepLimits.moveForgetMs',
    by: 'monotonicNow() - first.at < upkeepLimits.moveForgetMs',
    test: role('mover', 'jobs.db forgets no put that is younger than the last look for losses'),
  },
  'put-of-a-closed-move': {
    file: script('restore'),
    text: 'moving and moving:find(',
    by: "'' and string.find(' ', ' ') or moving and moving:find(",
    test: role('mover', 'a late put revives nothing: during the move by the entry of the end'),
  },
  'jobs-db-delivers-while-it-is-left': {
    file: 'src/store/sqlite/owner/operations.ts',
    text: "  'jobs.reserve',\n  'dead.requeue',",
    by: "  'dead.requeue',",
    test: role('mover', 'jobs.db delivers nothing, takes no new id, and changes only reserved jobs'),
  },
  'job-of-an-old-reading-changes-in-jobs-db': {
    file: 'src/store/sqlite/engine/engine.ts',
    text: '?.state !== reserved) return leavingFailure;',
    by: ' === undefined) return leavingFailure;',
    test: role('mover', 'jobs.db delivers nothing, takes no new id, and changes only reserved jobs'),
  },
  'move-ends-with-a-lease-left': {
    file: leaving,
    text: 'if (this.#jobs() > 0 || this.#owesAlerts()) return false;',
    by: '',
    test: role('mover', 'moves each job with all its members, and ends when the last lease is over'),
  },
  'removal-without-a-number': {
    file: script('restore'),
    text: "return '\\2' .. struct.pack('>I7', draw())",
    by: "return '\\2' .. struct.pack('>I7', 0)",
    test: role('redis-restore', 'what it wrote has a number: a server that loses it again'),
  },
  'cancel-with-job-version': {
    file: jobs,
    text: "version: change.number,\n        kind: 'ended'",
    by: "kind: 'ended'",
    test: role('journaled-store', 'cancel as %s: an ended record whose version is its number'),
  },
  'purge-with-job-version': {
    file: 'src/journal/record/journaled-store.ts',
    text: '  version: job.number,\n',
    by: '',
    test: role('journaled-store', '%s in bulk: a record of each job'),
  },
  'late-rows-ignored': {
    file: 'src/journal/heal/looker.ts',
    text: 'if (!isOwn || (loss !== null && number > loss)) continue;',
    by: 'if (!isOwn || number >= 0) continue;',
    test: healing('a process that stops between store and spool until the healing is over'),
  },
  'newer-note-hides-an-older-loss': {
    file: script('shared/frame'),
    text: 'tonumber(known) > note.id or watermark < note.from)',
    by: 'tonumber(known) > note.id)',
    test: role('redis-notes', 'several writers: the note covers the oldest loss'),
  },
  'note-below-the-lost-numbers': {
    file: script('shared/healing'),
    text: '  rise_above(lost)\n',
    by: '',
    test: role('redis-notes', 'the note has a number above the lost ones'),
  },
  'answer-before-sync': {
    file: 'src/journal/record/spool-writer.ts',
    text: 'group.some(({ waitsForSync }) => waitsForSync);',
    by: 'false;',
    test: unit('spool', 'synced: answers after the fdatasync of its record'),
  },
  'sync-again': {
    file: 'src/journal/record/spool-writer.ts',
    text: 'await work();',
    by: 'await work().catch(() => work());',
    test: unit('spool', 'a failing %s: unknown; the file is left, the changes go to a new one'),
  },
  'no-space-check-push': {
    file: jobs,
    text: 'if (!spool.admits(recordBytesOf(items))) return items.map(() => spoolFull);\n  const early',
    by: 'const early',
    test: role('journaled-store', 'a full spool: pushes and verbs are not stored, ends go on'),
  },
  'no-space-check-edit': {
    file: jobs,
    text: 'if (!spool.admits(recordBytesOf(items))) return items.map(() => spoolFull);\n      return',
    by: 'return',
    test: role('journaled-store', 'a full spool: pushes and verbs are not stored, ends go on'),
  },
  'edit-without-a-record-of-its-body': {
    file: jobs,
    text: "return { ...ownChange(item, change), kind: 'accepted', ...pushed };",
    by: "return { ...ownChange(item, change), kind: 'moved', by: 'reschedule', ...pushed };",
    test: role('journaled-store', 'edit: an accepted record of the whole job under its new origin'),
  },
  'no-space-check-verb': {
    file: jobs,
    text: 'if (!spool.admits(0)) return items.map(() => spoolFull);',
    by: '',
    test: role('journaled-store', 'a full spool: pushes and verbs are not stored, ends go on'),
  },
  'record-before-ack': {
    file: jobs,
    text: "return writeOutcomes(spool, items, await jobs.ack(items), 'jobs.ack'",
    by: `return writeOutcomes(spool, items, await spool.write(items.map((item): Change => ({
        ...ownChange(item, { ...item, number: item.version, origin: 0, place: '', dueAt: 0, failures: 0 }),
        kind: 'ended', end: 'done', attempt: item.attempt })), 'written')
        .then(async () => (await jobs.ack(items)).map(({ kind }) => ({ kind: kind === 'acked' ? '' : kind }))), 'jobs.ack'`,
    test: role('journaled-store', 'ack: a lost lease leaves no record'),
  },
  'note-cleared-without-id': {
    file: script('advance'),
    text: 'if not note or note.id ~= tonumber(ARGV[4])',
    by: 'if not note',
    test: role('redis-restore', 'look: makes a note when a writer or a mark has a lower number'),
  },
  'keep-without-row': {
    file: jobs,
    text: "else if (outcome.kind === 'kept') kept.push(i);",
    by: '',
    test: role('journaled-store', 'push: a kept job is read and recorded, with its version as number'),
  },
  'silent-instance-forgotten-by-age': {
    file: 'src/journal/heal/barrier.ts',
    text: '(silent !== undefined && each.ageMs < silent.withinMs && ',
    by: '(silent !== undefined && each.ageMs < seenMs && ',
    test: role('journal-audit', 'audit: a job stays ended whose end is in a spool of an instance seen %s'),
  },
  'wait-without-hold': {
    file: script('advance'),
    text: 'keep_note_hold(math.max(note_held(), us + tonumber(ARGV[6]) * 1000))',
    by: '',
    test: role('redis-notes', 'reserve: nothing while a healing holds the jobs, also after 60 s'),
  },
  'hold-of-a-healing-is-the-last-one': {
    file: script('advance'),
    text: 'math.max(note_held(), ',
    by: '(',
    test: role('redis-notes', 'hold: shortens no hold, except one of a clock that was set back'),
  },
  'clock-set-back-prolongs-hold': {
    file: script('shared/holds'),
    text: "math.min(tonumber(stored or 'inf'), at + longest)",
    by: "tonumber(stored or '0')",
    test: role('redis-notes', 'reserve: a clock set back neither ends a hold nor extends it beyond 60 s'),
  },
  'ended-before-all-is-shipped': {
    file: 'src/journal/ship/recorder.ts',
    text: 'isDone = !isBehind && open.every((incarnation) => incarnation === own);',
    by: 'isDone = true;',
    test: role('journal-recorder', 'an instance that ends: says so only when all of its streams are shipped'),
  },
  'mark-before-report': {
    file: 'src/journal/heal/looker.ts',
    text: 'await this.#look(partition, { writer, number });\n        marks.set(place, number);',
    by: 'marks.set(place, number);\n        await this.#look(partition, { writer, number });',
    test: healing('a bucket that does not answer: its changes are shipped without a mark'),
  },
  'report-without-its-writer': {
    file: 'src/journal/heal/looker.ts',
    text: 'if (next !== null) writers.set(next.writer, Math.max(shipped.get(next.writer) ?? 0, next.number));',
    by: '',
    test: unit('looker', 'report: compares the number of the writer before its mark is raised'),
  },
  'journal-unanswered-numbers-not-compared': {
    file: 'src/journal/heal/looker.ts',
    text: 'highest: isReported ? (loss ?? 0) : Math.max(highest, number),',
    by: 'highest: isReported ? (loss ?? 0) : highest * 0,',
    test: unit(
      'looker',
      'lateOf: all changes of a partition that was not asked, those before a loss, or none',
    ),
  },
  'late-spool-merged': {
    file: 'src/journal/ship/recorder.ts',
    text: 'if (await this.#setAsideLate(stream, from, part, title !== null)) return true;',
    by: '',
    test: role('journal-recorder', 'a segment from before the retention is set aside, not merged'),
  },
  'late-accept-keeps-body': {
    file: jobRow,
    text: 'body.bodyOrigin > endedOrigin ? body.pushed : null',
    by: 'body.pushed',
    test: unit('journal-laws', 'keeps the newest body until its origin has ended'),
  },
  'late-accept-keeps-body-sql': {
    file: 'src/journal/ship/job-upsert.ts',
    text: 'IF(GREATEST(body_origin, VALUES(body_origin)) <= ended_origin, NULL,',
    by: 'IF(FALSE, NULL,',
    test: role('journal-mysql', 'merge: 300 lives of jobs, shuffled, repeated and in parts'),
  },
  'skip-ends-nothing': {
    file: 'src/upkeep/operations/operation-jobs.ts',
    text: "record.overdue === 'skip' ? await this.#purge(rows.filter(isOverdue)) : 0",
    by: "record.overdue === 'skip' ? rows.filter(isOverdue).length : 0",
    test: role('restore-operation', 'overdue jobs: spread over ten minutes, or ended for good'),
  },
  'living-tail-cut': {
    file: 'src/journal/ship/stream-reader.ts',
    text: 'if (later === null && isLiving) break;',
    by: '',
    test: unit('spool-damage', 'a torn tail: cut off for a dead process'),
  },
  'audit-without-barrier': {
    file: 'src/journal/heal/auditor.ts',
    text: 'if (passed.behind.length > 0) {',
    by: 'if (passed.behind.length > 1_000) {',
    test: role('journal-audit', 'audit: a job stays ended whose end is in a spool of an instance seen %s'),
  },
  'shipped-changes-compared-without-barrier': {
    file: 'src/journal/heal/restorer.ts',
    text: '    await this.#waitForAll(work, async () => {\n      if (comesLater()) throw new WorkEnded();\n    });\n',
    by: '    this.#passed = { barrier: 0, behind: [], reached: [], work: work.no, losses: this.#losses() };\n',
    test: role('journal-late', 'MySQL goes back with open work: a job that has ended since is not put back'),
  },
  'barrier-reached-in-a-database-that-went-back': {
    file: 'src/journal/ship/recorder.ts',
    text: 'await journal.seen({ ...self, spoolBytes: this.#spoolBytes }, this.#known);',
    by: 'await journal.seen({ ...self, spoolBytes: this.#spoolBytes });',
    test: role(
      'journal-recorder',
      'MySQL went back and nothing follows: a barrier is reached only when all is shipped again',
    ),
  },
  'barrier-repeats-after-mysql-went-back': {
    file: 'src/journal/ship/journal-work.ts',
    text: 'barrier = GREATEST(barrier + 1,',
    by: 'barrier = LEAST(barrier + 1,',
    test: role('journal-mysql', 'instances: a MySQL that went back takes no sign, and repeats no barrier'),
  },
  'older-version-put-twice': {
    file: 'src/store/redis/calls/healing.ts',
    text: 'return only + 4 + (isEarlier ? 8 : 0);',
    by: 'return only + 4;',
    test: role('journal-shards', 'journal: two shards of an unsettled list go back, and both are healed'),
  },
  'healed-without-answer': {
    file: 'src/journal/heal/restorer.ts',
    text: "for (const note of notes) await this.#advance(note, 'healed');",
    by: "for (const note of notes) await this.#options.healing.advance(note, 'healed');",
    test: role('journal-shards', 'journal: a loss at the end of a healing'),
  },
  'short-steps-of-the-clock-do-not-add-up': {
    file: 'src/store/sqlite/engine/recovery.ts',
    text: 'if (this.#isRight) this.#right = this.#begun;',
    by: 'this.#right = this.#begun;',
    test: role('store-clock', 'steps of the clock that are each too short for a jump add up to one'),
  },
  'probes-need-an-open-slot': {
    file: 'src/notifier/capacity.ts',
    text: '    const probes = this.#probeCalls(skipped, nowMs);',
    by: '    const probes = new Map<string, TopicCapacity>();',
    test: unit('capacity', 'offers probes while no slot is open: they have their own account'),
  },
  'probes-wake-nothing-while-no-slot-is-open': {
    file: 'src/notifier/capacity.ts',
    text: 'return Math.min(ceilingMs, this.#probes.turnInMs(now), this.#rates.worthInMs(now));',
    by: 'return this.#budget.openSlots <= 0 ? ceilingMs : Math.min(ceilingMs, this.#probes.turnInMs(now));',
    test: unit('capacity', 'the next turn of probes ends a sleep also while no slot is open'),
  },
  'answer-of-an-old-topic': {
    file: 'src/notifier/capacity-grants.ts',
    text: 'for (const grant of this.#open) this.#outdated.add(grant);',
    by: '',
    test: unit('capacity', 'bring no more jobs of a topic that was %s than it may have now'),
  },
  'process-that-stood-still-pushes': {
    file: 'src/upkeep/ticker.ts',
    text: '<= upkeepLimits.tickClaimMs / 2;',
    by: '<= 100 * upkeepLimits.tickClaimMs;',
    test: role('ticker', 'are left to others by a process whose machine was suspended after its claim'),
  },
  'age-of-a-claim-counts-from-the-push': {
    file: 'src/upkeep/ticker.ts',
    text: 'Math.max(monotonicNow() - at, wallNow() - date)',
    by: 'Math.max(0 * at, 0 * date)',
    test: role('ticker', 'are left to others by a process whose machine was suspended after its claim'),
  },
  'emptied-bucket-without-a-note': {
    file: script('mark'),
    text: "if ARGV[4] ~= '' then",
    by: "if ARGV[4] == 'x' then",
    test: role('redis-notes', 'an emptied server: a note from 0 on, and numbers above all that are known'),
  },
  'barrier-reached-while-behind': {
    file: 'src/journal/ship/recorder.ts',
    text: '    if (!isBehind) {\n      this.#behindSince = null;',
    by: '    {\n      this.#behindSince = null;',
    test: role(
      'journal-recorder',
      'MySQL went back and nothing follows: a barrier is reached only when all is shipped again',
    ),
  },
  'entry-with-the-version-of-the-job': {
    file: script('shared/ends'),
    text: 'job.closes and closed_by(job.closes) or only',
    by: 'only',
    test: role(
      'redis-notes',
      'cancel and purge of a live job: its entry has the number of the end, with or without a note',
    ),
  },
  'late-end-leaves-no-entry': {
    file: script('restore'),
    text: '  leave_entry(topic_number_made(row.topic), row.tid, row.state - 4, row.version, 0)\n',
    by: '',
    test: role('redis-restore', 'absent, and the row has ended: an entry keeps older rows away'),
  },
  'failing-judged-by-some-notifiers': {
    file: topicWatch,
    text: 'if (!isWhole) return;',
    by: '',
    test: role('topic-watch', 'a restart, or a notifier that does not answer, ends nothing'),
  },
  'failing-ends-at-the-first-success': {
    file: topicWatch,
    text: 'return now - since >= this.#options.times.quietMs;',
    by: 'return true;',
    test: role('topic-watch', 'a success among failures ends nothing'),
  },
  'failing-ends-by-an-old-success': {
    file: topicWatch,
    text: 'const failsAfter = (successAt: number, facts: TopicFailures): boolean =>\n  hasFailures(facts) &&',
    by: 'const failsAfter = (successAt: number, facts: TopicFailures): boolean =>\n  false &&',
    test: role('topic-watch', 'a topic that waits for its next attempt fails all the same'),
  },
  'receiver-that-answers-fails': {
    file: topicWatch,
    text: 'const answersSince = this.#answersSince.get(origin) ?? 0;',
    by: 'const answersSince = 0;',
    test: role('topic-watch', 'a receiver without a success for minutes is mailed with what to run'),
  },
  'one-failed-reply-is-an-incident': {
    file: topicWatch,
    text: 'failuresInRow >= upkeepLimits.repliesInRow;',
    by: 'failuresInRow >= 1;',
    test: role('topic-watch', 'few failed replies are about their jobs'),
  },
  'success-before-a-reload-forgotten': {
    file: topicWatch,
    text: "if (name === 'delivered') this.#delivered.set(topic, now);",
    by: "if (name === 'delivered' && now < 0) this.#delivered.set(topic, now);",
    test: role('topic-watch', 'a success that was counted before a reload is the end'),
  },
  'incident-of-unknown-topics-ends': {
    file: topicWatch,
    text: 'if (!this.#options.topics.isKnown) return;',
    by: '',
    test: role('topic-watch', 'topics that are unknown or unreadable end nothing'),
  },
  'incident-of-an-unreadable-topic-ends': {
    file: topicWatch,
    text: 'topics.isUnreadable(name) || this.#calledOrigin(name) !== null;',
    by: 'this.#calledOrigin(name) !== null;',
    test: role('topic-watch', 'topics that are unknown or unreadable end nothing'),
  },
  'incidents-of-a-standby': {
    file: topicWatch,
    text: 'if (leader !== null) return this.#leaveTo(leader);',
    by: '',
    test: role('topic-watch', 'an instance that does not lead has no incidents'),
  },
  'no-incident-of-the-others': {
    file: topicWatch,
    text: 'if (begun.length > 0)\n',
    by: 'if (begun.length > 9_999)\n',
    test: role('topic-watch', 'some have their own incidents, and one is about all others'),
  },
  'paused-incident-of-a-late-job': {
    file: topicWatch,
    text: '      .filter((name) => now - (this.#heldSince.get(name) ?? now) >= times.pausedMs)\n',
    by: '',
    test: role('topic-watch', 'a job that was late before the pause does not begin one'),
  },
  'paused-incident-of-an-early-job': {
    file: topicWatch,
    text: 'if (found === null || dueMs < times.pausedMs) continue;',
    by: 'if (found === null) continue;',
    test: role('topic-watch', 'a job that is due for an hour in a paused topic is mailed'),
  },
  'many-topics-have-own-incidents': {
    file: topicWatch,
    text: '|| some.length > upkeepLimits.ownIncidentsMax;',
    by: ';',
    test: role('topic-watch', '200 topics of a receiver are one incident'),
  },
  'pulled-topic-counts-as-called': {
    file: topicWatch,
    text: " || topic.delivery === 'pull' ? null",
    by: ' ? null',
    test: role('topic-watch', 'a topic whose jobs clients pull now ends it with that'),
  },
};

export const mutants = listOf(byName);
