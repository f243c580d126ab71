// Mistakes in schedules, operations and the removal of topics, each of which must break a rule in a simulated
// world (test/sim/ticks.ts, operation-rules.ts, removals.ts).

import { engine, type Mutants, type SimulatedMutant, sharing } from './mistake.ts';

const ticker = 'src/upkeep/ticker.ts';
const table = (name: string) => `src/registry/sql/tables/registry-${name}.ts`;
const operation = (name: string) => `src/upkeep/operations/${name}.ts`;
const useCase = (name: string) => `src/use-cases/${name}.ts`;
const schedule = 'src/core/schedule.ts';

export const workMutants: Mutants<SimulatedMutant> = {
  ...sharing(
    { works: 'schedules' },
    {
      // Each tick is one job.
      'repeated-tick-is-not-looked-for': {
        faults: 'kill,cut',
        file: ticker,
        text: 'repeated.has(name) || madeAt !== dueAt',
        by: 'name === dueAt.toString()',
      },
      'tick-is-looked-for-in-the-last-topic-alone': {
        faults: 'kill,cut',
        file: ticker,
        text: 'const topics = [topicName, ...earlier.map((one) => one.topic)];',
        by: 'const topics = [topicName];',
      },
      'changed-schedule-frees-its-claim-as-new': {
        faults: 'kill,cut',
        file: table('schedules'),
        text: ".set({ claim_until: 0, claims: 1 })\n      .where('name', 'in', names)",
        by: ".set({ claim_until: 0, claims: 0 })\n      .where('name', 'in', names)",
      },
      'end-of-a-tick-is-not-recorded': {
        file: ticker,
        text: 'if (ended.ends.length > 0) await this.#ctx.registry.endTicks(ended.ends);',
        by: '',
      },
      'full-disk-forgets-ends-of-ticks': {
        faults: 'diskFull',
        file: engine('history'),
        text: 'if (endedAt >= ticksSince && isTickId',
        by: 'if (endedAt < 0 && isTickId',
      },
      'ends-of-ticks-are-old-at-once-on-a-full-disk': {
        faults: 'diskFull',
        file: engine('engine'),
        text: 'this.#removableBefore(limits.tickHistoryMs) ?? Number.NEGATIVE_INFINITY',
        by: 'this.#removableBefore(0) ?? Number.NEGATIVE_INFINITY',
      },
      'tick-that-ends-on-a-full-disk-leaves-no-entry': {
        faults: 'diskFull',
        file: engine('job-rows'),
        text: 'if (this.keepsHistory || isTickId(row.id)) {',
        by: 'if (this.keepsHistory) {',
      },
      // A tick is one of the times in force.
      'change-keeps-the-next-instant': {
        file: table('schedules'),
        text: '...(times.isKept ? {} : { next_at: times.nextAt, claim_until: 0, claims: 1, made_at: madeAt }),',
        by: '',
      },
      'paused-schedule-has-a-next-instant': {
        file: useCase('change-schedule'),
        text: 'return record.isPaused ? null : nextTick(record, now);',
        by: 'return nextTick(record, now);',
      },
      'change-forgets-the-earlier-times': {
        faults: 'storeDown,kill',
        file: schedule,
        text: 'earlier: [...earlier, replaced], isKept: true',
        by: 'earlier, isKept: true',
      },
      // A tick has the settings of one version.
      'tick-goes-to-its-earlier-topic': {
        faults: 'kill,cut',
        file: ticker,
        text: 'const topic = this.#ctx.topics.get(topicName);',
        by: 'const topic = this.#ctx.topics.get(earlier[0]?.topic ?? topicName);',
      },
      'tick-has-no-body': {
        file: ticker,
        text: "Buffer.from(body, isBase64 ? 'base64' : 'utf8'),",
        by: 'Buffer.alloc(body.length),',
      },
      // No tick is early.
      'instants-are-due-2-s-early': {
        file: ticker,
        text: 'const now = await clock.known();',
        by: 'const now = (await clock.known()) + 2_000;',
      },
      'next-instant-is-made-with-the-due-one': {
        file: schedule,
        text: 'return { make: dueAt, nextAt: nextOf(parts, dueAt) };',
        by: 'return { make: nextOf(parts, dueAt), nextAt: nextOf(parts, nextOf(parts, dueAt) ?? dueAt) };',
      },
      // No instant is left out.
      'instants-that-wait-are-left-out': {
        faults: 'kill,storeDown',
        file: schedule,
        text: 'return { make: dueAt, nextAt: nextOf(parts, dueAt) };',
        by: 'return { make: dueAt, nextAt: nextOf(parts, now) };',
      },
      'every-second-instant-is-left-out': {
        file: schedule,
        text: 'return { make: dueAt, nextAt: nextOf(parts, dueAt) };',
        by: 'return { make: dueAt, nextAt: nextOf(parts, nextOf(parts, dueAt) ?? dueAt) };',
      },
      // An instant counts as made when its job is stored.
      'unanswered-push-counts-as-made': {
        faults: 'cut,storeKill,lateReply',
        file: ticker,
        text: "if (kind === 'stored' || kind === 'kept' || kind === 'ended') return [end];",
        by: "if (kind === 'stored' || kind === 'kept' || kind === 'ended' || kind === 'unknown') return [end];",
      },
      'rejected-push-counts-as-made': {
        faults: 'diskFull',
        file: ticker,
        text: "if (kind === 'stored' || kind === 'kept' || kind === 'ended') return [end];",
        by: "if (kind === 'stored' || kind === 'kept' || kind === 'ended' || kind === 'not_stored') return [end];",
      },
      // An instant is missed after a minute, and a known topic takes the ticks.
      'instants-are-missed-after-6-s': {
        faults: 'kill,storeDown',
        file: schedule,
        text: 'if (now - dueAt <= limits.tickLateMs) return',
        by: 'if (now - dueAt <= limits.tickLateMs / 10) return',
      },
      'missed-instants-are-those-of-10-s': {
        faults: 'kill,storeDown',
        file: schedule,
        text: '  if (dueAt > now) return { make: null, nextAt: dueAt };\n  const parts',
        by: '  if (dueAt > now) return { make: null, nextAt: dueAt };\n  if (now - dueAt > 10_000) return { make: null, nextAt: nextTick(times, now) };\n  const parts',
      },
      'jobs-of-ticks-are-rejected': {
        faults: 'topicOff',
        file: ticker,
        text: 'at: String(make),',
        by: "at: 'never',",
      },
      'topics-of-ticks-are-unknown': {
        faults: 'topicOff',
        file: ticker,
        text: 'if (topic === undefined) throw',
        by: 'if (topic !== undefined) throw',
      },
      // A tick is late by seconds at most.
      'ticker-makes-one-instant-in-each-turn': {
        faults: 'kill,storeDown',
        file: ticker,
        text: 'return ends.some(({ dueAt, nextAt }) => nextAt !== dueAt) ? 0 : tickEveryMs;',
        by: 'return tickEveryMs;',
      },
      'claim-of-a-dead-process-holds-for-a-minute': {
        faults: 'kill',
        file: 'src/upkeep/limits.ts',
        text: 'tickClaimMs: 15_000,',
        by: 'tickClaimMs: 60_000,',
      },
    },
  ),
  ...sharing(
    { works: 'operations' },
    {
      // An operation moves only what matched when it was requested, and only jobs of its list.
      'operation-names-no-version': {
        file: operation('operation-jobs'),
        text: 'const jobs = keys.map(([topic, id, version]) => ({ topic, id, version }));',
        by: 'const jobs = keys.map(([topic, id]) => ({ topic, id }));',
      },
      'operation-lists-later-jobs': {
        file: operation('operation-jobs'),
        text: '...storedFilter(record), before: record.moment }',
        by: '...storedFilter(record) }',
      },
      'bulk-call-names-no-moment': {
        file: operation('operation-jobs'),
        text: 'const filter = { topic, ids: its.map(([, id]) => id), before: record.moment };',
        by: 'const filter = { topic, ids: its.map(([, id]) => id) };',
      },
      'step-is-stored-after-its-move': {
        file: operation('operation-run'),
        text: '...(await this.#list()) };\n      this.#isNew = true;',
        by: '...(await this.#list()) };',
      },
      // Done is what was moved.
      'examined-step-counts-nothing': {
        file: operation('operation-run'),
        text: 'this.#add({ done: step.length - rest.length, skipped: 0, failures: [] });',
        by: '',
      },
      'step-of-a-dead-process-is-not-examined': {
        file: operation('operation-run'),
        text: 'this.#isUnsure = !lease.wasReleased;',
        by: 'this.#isUnsure = false;',
      },
      'a-result-counts-twice': {
        file: operation('operation-run'),
        text: '      done: record.done + done,',
        by: '      done: record.done + 2 * done,',
      },
      // Each one ends.
      'claimed-operation-is-never-free': {
        file: table('operations'),
        text: '(row.lease_until <= now ||\n        row.lease_until > leaseUntil + (leaseUntil - now) ||\n        (row.holder !== holder && row.holder?.startsWith(instance))),',
        by: 'row.holder === null || row.holder === instance,',
      },
      'paced-operation-never-ends': {
        file: operation('operation-run'),
        text: 'if (this.#work.step.length === 0 && this.#work.isListed)',
        by: 'if (this.#work.step.length === 0 && this.#work.isListed && this.#record.rate === null)',
      },
      // A stopped one moves nothing.
      'stop-is-not-noticed': {
        file: operation('operation-run'),
        text: "if (outcome === 'stopped') this.#isStopped = true;",
        by: '',
      },
      'stop-is-noticed-after-10-s': {
        file: operation('operation-run'),
        text: 'monotonicNow() - this.#storedAt >= upkeepLimits.operationCheckpointMs',
        by: 'monotonicNow() - this.#storedAt >= 10 * upkeepLimits.operationCheckpointMs',
      },
      // A requeue keeps its spread.
      'spread-of-half-its-time': {
        file: operation('operation-run'),
        text: 'Math.floor(part * matched) + 1 -',
        by: 'Math.floor(2 * part * matched) + 1 -',
      },
      'spread-begins-at-its-middle': {
        file: operation('operation-run'),
        text: 'const part = (now - (movingAt ?? now)) / spreadMs;',
        by: 'const part = (now - (movingAt ?? now)) / spreadMs + 0.5;',
      },
      'spread-takes-twice-its-time': {
        faults: 'topicOff',
        file: operation('operation-run'),
        text: 'if (part >= 1) return allowed;',
        by: 'if (part >= 3) return allowed;\n    if (part >= 0.5) return 0;',
      },
      // An operation moves each job that matched.
      'moment-of-a-request-is-empty': {
        file: useCase('request-operation'),
        text: "requested.kind === 'restore' ? {} : await admin.moment();",
        by: '{};',
      },
      'moment-is-the-clock': {
        faults: 'wallStep',
        file: 'src/store/sqlite/engine/engine.ts',
        text: '[partitionName]: this.#tx.counters.nextNumber(this.#tx.now)',
        by: '[partitionName]: this.#tx.now * 1_000',
      },
      'clear-ends-ready-jobs-alone': {
        file: operation('operation-jobs'),
        text: "(kind === 'cancel' || kind === 'clear' ? undefined : 'delayed')",
        by: "(kind === 'cancel' ? undefined : kind === 'clear' ? 'ready' : 'delayed')",
      },
      'rest-of-a-step-is-dropped': {
        file: operation('operation-run'),
        text: 'step: [...unsure, ...this.#work.step.slice(keys.length)] };',
        by: 'step: unsure };',
      },
    },
  ),
  ...sharing(
    { works: 'removals' },
    {
      // A removed topic has no jobs.
      'removal-purges-nothing': {
        faults: 'topicEdit',
        file: useCase('remove-topic'),
        text: 'const purged = await purgeAll(admin, name, purgeMs);\n  const jobs = await jobsOf(admin, name);',
        by: 'const purged = purgeMs > 0 ? 0 : await purgeAll(admin, name, purgeMs);\n  const jobs = 0;',
      },
      // A removal counts the jobs that it purged.
      'removal-counts-each-purged-job-twice': {
        faults: 'topicEdit',
        file: useCase('remove-topic'),
        text: 'total += purged;',
        by: 'total += 2 * purged;',
      },
    },
  ),
};
