// The checker of the total-queue run: one written history for each verdict, and for each reason to reject a
// run that shows nothing.
import { describe, expect, it } from 'vitest';
import { Dice } from '../../scripts/dice.ts';
import { check, grownRoles, type Verdict } from '../../scripts/faults/check.ts';
import type { VerdictName } from '../../scripts/faults/check-job.ts';
import {
  type Event,
  type EventBody,
  type EventOf,
  parseHistory,
  type Run,
} from '../../scripts/faults/history.ts';
import { planFaults } from '../../scripts/faults/plan.ts';
import { promiseOf, type Storage } from '../../scripts/faults/promise.ts';
import { timelineOf } from '../../scripts/faults/report.ts';

const sqlite: Storage = { store: 'sqlite', journal: false, fsync: 'always' };
const everysec: Storage = { store: 'redis', journal: false, fsync: 'everysec' };
const journal: Storage = { store: 'redis', journal: true, fsync: 'no' };

/** Events of job `j`, whose push has the tag `j.1`. Times are ms; the wall clock begins at 0, too. */
class Story {
  readonly events: Event[] = [];
  #faults = 0;

  add(at: number, body: EventBody): this {
    this.events.push({ at, wall: at, ...body });
    return this;
  }

  push(at: number, more: Partial<EventOf<'push'>> = {}): this {
    const usual = { op: '1', topic: 'b', id: 'j', tag: 'j.1', mode: 'replace', delayMs: 0 } as const;
    return this.add(at, { kind: 'push', ...usual, fate: 'done', maxAttempts: 3, sha: 'x', ...more });
  }

  pushed(at: number, more: Partial<EventOf<'pushed'>> = {}): this {
    const flags = { replaced: false, duplicate: false, inFlight: false };
    return this.add(at, { kind: 'pushed', op: '1', dueAt: 0, ...flags, ...more });
  }

  cancel(at: number): this {
    return this.add(at, { kind: 'cancel', op: 'c', id: 'j' });
  }

  cancelled(at: number, more: Partial<EventOf<'cancelled'>> = {}): this {
    return this.add(at, { kind: 'cancelled', op: 'c', absent: false, inFlight: false, ...more });
  }

  call(at: number, call: string, more: Partial<EventOf<'call'>> = {}): this {
    const usual = { topic: 'b', id: 'j', tag: 'j.1', attempt: 1, webhookId: 'w', dueAt: 0, sha: 'x' };
    return this.add(at, { kind: 'call', call, ...usual, ...more });
  }

  answer(at: number, call: string, status = 200, final = false): this {
    return this.add(at, { kind: 'answer', call, status, final });
  }

  broken(at: number, call: string): this {
    return this.add(at, { kind: 'broken', call });
  }

  fault(from: number, to: number, target: string, what: 'kill' | 'freeze' | 'reload' = 'kill'): this {
    this.#faults += 1;
    const fault = { kind: 'fault', fault: this.#faults, what, target, seen: '' } as const;
    return this.add(from, { ...fault, phase: 'begun' })
      .add(from, { ...fault, phase: 'effective' })
      .add(to, { ...fault, phase: 'ended' });
  }

  check(storage: Storage = sqlite, deliveredMin = 0): Verdict {
    const run: Run = {
      kind: 'run',
      seed: 1,
      ...storage,
      timeoutMs: 5_000,
      backoffMs: [300, 600],
      deliveredMin,
      outcomes: { a: 'after', after: 'last' },
    };
    const events = parseHistory(this.events.map((event) => JSON.stringify(event)).join('\n'));
    return check(events, run, promiseOf(storage));
  }
}

const story = () => new Story();
/** The push has its answer after 10 ms. */
const accepted = () => story().push(0).pushed(10);
/** Called and answered by 200 between 20 and 30 ms. */
const delivered = () => accepted().call(20, 'a').answer(30, 'a');
/** Its receiver answers 410. */
const gone = (topic = 'b') =>
  story().push(0, { topic, fate: 'gone' }).pushed(10).call(20, 'a').answer(30, 'a', 410, true);
const cancelled = (one: Story, more: Partial<EventOf<'cancelled'>> = {}) =>
  one.cancel(20).cancelled(30, more);
const dead = (one: Story, at: number, reason: EventOf<'dead'>['reason'] = 'gone') =>
  one.add(at, { kind: 'dead', id: 'j', reason });
const rejected = (one: Story, at: number, status: number, why: string) =>
  one.add(at, { kind: 'rejected', op: '1', status, why });
const unknown = (one: Story, at: number, why: string) => one.add(at, { kind: 'unknown', op: '1', why });

const always: Storage = { ...everysec, fsync: 'always' };
const second = { op: '2', tag: 'j.2' } as const;
const again = () => delivered().call(500, 'b').answer(510, 'b');
/** Replaced while Redis was killed. */
const replacedInAKill = () =>
  accepted().fault(20, 25, 'redis-0').push(30, second).pushed(40, { op: '2', dueAt: 30 });
const poisonedAfter = (faults: number) => {
  const one = dead(accepted(), 900, 'poison');
  for (let n = 0; n < faults; n++) one.fault(100 * n, 100 * n + 50, 'dq-notifier-0');
  return one;
};
const redisKilledAt = (at: number) => accepted().fault(at, at + 500, 'redis-0');
const calledAgainAfterAKill = (at: number) =>
  delivered()
    .call(9_000, 'b')
    .answer(9_010, 'b')
    .fault(at, at + 100, 'dq-notifier-0');
const frozenDuringTheCall = (target: string) =>
  accepted()
    .fault(12, 9_900, target, 'freeze')
    .call(9_960, 'a')
    .broken(9_960, 'a')
    .call(12_500, 'b', { attempt: 2 })
    .answer(12_510, 'b');
const retriedAt = (at: number) =>
  accepted()
    .call(20, 'a')
    .answer(30, 'a', 500)
    .call(at, 'b', { attempt: 2 })
    .answer(at + 10, 'b');
const delayedCallAt = (at: number) =>
  story().push(0, { delayMs: 100 }).pushed(10, { dueAt: 105 }).call(at, 'a').answer(200, 'a');
const cancelledAfter = (target: string, what: 'freeze' | 'kill', to: number, callAt: number) =>
  cancelled(accepted().fault(12, to, target, what)).call(callAt, 'a');
const cancelledInFlight = () => cancelled(accepted(), { inFlight: true }).call(40, 'a').answer(50, 'a', 500);
const cancelledAfterALoss = () =>
  cancelled(story().fault(0, 5, 'redis-0').push(6).pushed(10, { dueAt: 6 })).call(900, 'a');
const keptDuring = (target: string, mode: 'keep' | 'replace' = 'keep') =>
  story().fault(0, 20, target).push(50_000, { mode });
const refusedIn = (target: string) => rejected(story().fault(0, 20, target).push(5), 10, 0, 'ECONNREFUSED');
const restoringIn = (target: string) => rejected(keptDuring(target), 50_010, 503, 'status 503 restoring');
const unknownIn = (mode: 'keep' | 'replace') =>
  unknown(keptDuring('redis-0', mode), 50_010, 'status 503 unknown');

const calledIn = (topic: string) =>
  story().push(0, { topic }).pushed(10).call(20, 'a', { topic }).answer(35, 'a');
/** Pushed by the end of `tag`, called and answered by 200 within 10 ms. */
const outcome =
  (at: number, topic: string, webhookId: string, tag = 'j.1', isDead = false) =>
  (one: Story) =>
    one
      .call(at, `${webhookId}-${at}`, {
        topic,
        id: `${tag}:1`,
        webhookId,
        tag: webhookId,
        follows: { tag, isDead },
      })
      .answer(at + 10, `${webhookId}-${at}`);
/** Delivered in a topic whose ends push jobs. */
const chain = (...outcomes: readonly ((one: Story) => Story)[]) =>
  outcomes.reduce((one, add) => add(one), calledIn('a'));
const afterwards = (at: number) => outcome(at, 'last', 'v2', 'v1');
const repeatedOutcome = (killedAt: number) =>
  afterwards(9_000)(
    chain(outcome(60, 'after', 'v1'), afterwards(80)).fault(killedAt, killedAt + 10, 'dq-notifier-0'),
  );

/** A story, exactly the verdicts that it gets, each once, and the storage; default sqlite. */
type Row = readonly [title: string, one: Story, verdicts: readonly VerdictName[], storage?: Storage];

const replacing = story().push(0, { delayMs: 5 }).pushed(10, { dueAt: 5 }).push(20, second);
const laterPush = accepted().push(20, second).pushed(30, { op: '2', dueAt: 20 });
const jobs: readonly Row[] = [
  ['delivered once: no finding', delivered(), []],
  ['lost: accepted and never called', accepted(), ['lost']],
  [
    'lost: called, and its receiver died before it answered',
    accepted().call(20, 'a').fault(25, 40, 'receiver-a'),
    ['lost'],
  ],
  ['lost: a dead letter whose receiver would have accepted it', dead(accepted(), 90), ['lost']],
  ['lost: a cancel found it absent before it was called', cancelled(accepted(), { absent: true }), ['lost']],
  ['lost: a later push replaced nothing', laterPush.call(40, 'a', { tag: 'j.2' }).answer(50, 'a'), ['lost']],
  ...([journal, always] as const).map((storage): Row => {
    const one = replacedInAKill().call(50, 'a', { tag: 'j.2' }).answer(60, 'a');
    return [
      'replaced before it was back, fine with a journal',
      one,
      storage.journal ? [] : ['lost'],
      storage,
    ];
  }),
  ['a dead letter, as its receiver wanted: no finding', dead(gone(), 90), []],
  ['poisoned by five faults of its notifiers: explained', poisonedAfter(5), ['poisonedByFault']],
  ['poisoned by four faults of its notifiers', poisonedAfter(4), ['lost']],
  ['lost within 2 s before a kill, everysec', redisKilledAt(1_500), ['lostByFault'], everysec],
  ['lost more than 2 s before a kill, everysec', redisKilledAt(2_500), ['lost'], everysec],
  ['lost in a kill, always', redisKilledAt(1_500), ['lost'], always],
  ['lost in a kill, with a journal', redisKilledAt(1_500), ['lost'], journal],
  [
    'recovered: a push without an answer has arrived',
    unknown(story().fault(0, 50, 'dq-server-0').push(10), 40, 'reset')
      .call(60, 'a')
      .answer(70, 'a'),
    ['recovered'],
  ],
  ['duplicated: called again after 2xx', again(), ['duplicated']],
  ['duplicated: only a reload ran', again().fault(20, 400, 'dq-master', 'reload'), ['duplicated']],
  ['duplicated: only a timer was killed', again().fault(20, 400, 'dq-timer-0'), ['duplicated']],
  [
    'duplicated: called again after its receiver had ended it by 410',
    dead(gone().call(900, 'b', { attempt: 2 }).answer(910, 'b', 410, true), 990),
    ['duplicated'],
  ],
  [
    'duplicated within the promise: a notifier was killed before the outcome was written',
    calledAgainAfterAKill(40),
    ['duplicatedByFault'],
  ],
  ['duplicated: long after the outcome no fault explains it', calledAgainAfterAKill(3_000), ['duplicated']],
  [
    'duplicated within the promise: dq gave up a slow answer',
    accepted().call(20, 'a').answer(5_100, 'a').call(5_600, 'b', { attempt: 2 }).answer(5_610, 'b'),
    ['duplicatedByFault'],
  ],
  [
    'duplicated within the promise: a receiver logs what it got while it was frozen',
    frozenDuringTheCall('receiver-a'),
    ['duplicatedByFault'],
  ],
  ['duplicated: another process was frozen', frozenDuringTheCall('dq-upkeep'), ['duplicated']],
  ['a retry after its wait: no finding', retriedAt(330), []],
  ['early: a retry before its wait', retriedAt(329), ['early']],
  ['early: a call before its due time', delayedCallAt(104), ['early']],
  ['a call at its due time: no finding', delayedCallAt(105), []],
  [
    'early: a due time before the delay of the push',
    story().push(0, { delayMs: 100 }).pushed(10, { dueAt: 99 }).call(120, 'a').answer(130, 'a'),
    ['early'],
  ],
  [
    'called after its end: a cancel with inFlight false',
    cancelled(accepted()).call(40, 'a').answer(50, 'a'),
    ['afterEnd'],
  ],
  [
    'a killed notifier explains bytes that are on their way',
    cancelledAfter('dq-notifier-0', 'kill', 15, 200),
    ['undoneByFault'],
  ],
  [
    'a killed notifier explains no later bytes',
    cancelledAfter('dq-notifier-0', 'kill', 15, 700),
    ['afterEnd'],
  ],
  ['a frozen notifier explains none', cancelledAfter('dq-notifier-0', 'freeze', 900, 700), ['afterEnd']],
  [
    'a frozen receiver may have had the bytes before',
    cancelledAfter('receiver-a', 'freeze', 800, 900),
    ['undoneByFault'],
  ],
  ['a killed receiver had none', cancelledAfter('receiver-a', 'kill', 800, 900), ['afterEnd']],
  ['a frozen dq-upkeep explains none', cancelledAfter('dq-upkeep', 'freeze', 800, 900), ['afterEnd']],
  ['one call after inFlight true: no finding', cancelledInFlight(), []],
  [
    'called after its end: two calls after inFlight true',
    cancelledInFlight().call(400, 'b', { attempt: 2 }),
    ['afterEnd'],
  ],
  [
    'called after its end: the old version after a replacing push',
    replacing
      .pushed(30, { op: '2', dueAt: 20, replaced: true })
      .call(40, 'a', { tag: 'j.2' })
      .answer(50, 'a')
      .call(60, 'b')
      .answer(70, 'b'),
    ['afterEnd'],
  ],
  [
    'called after its end: an attempt beyond the last',
    delivered().fault(20, 40, 'dq-notifier-0').call(400, 'b', { attempt: 4 }).answer(410, 'b'),
    ['afterEnd', 'duplicatedByFault'],
  ],
  ['undone within the promise: one forgotten attempt', cancelledAfterALoss(), ['undoneByFault'], journal],
  ['called after its end: without a healing', cancelledAfterALoss(), ['afterEnd'], always],
  [
    'called after its end: a second forgotten attempt',
    cancelledAfterALoss().answer(910, 'a', 500).call(2_000, 'b', { attempt: 2 }),
    ['afterEnd', 'afterEnd'],
    journal,
  ],
  [
    'unexpected: a call that was never pushed',
    delivered().call(50, 'b', { id: 'k', tag: 'k.1' }).answer(60, 'b'),
    ['unexpected'],
  ],
  [
    'unexpected: a call of a rejected push',
    rejected(story().fault(0, 20, 'dq-store').push(5), 10, 503, 'status 503 not_stored')
      .call(50, 'a')
      .answer(60, 'a'),
    ['unexpected'],
  ],
  [
    'unexpected: a call of a push that kept the stored job',
    delivered()
      .push(100, { ...second, mode: 'keep' })
      .pushed(110, { op: '2', duplicate: true })
      .call(120, 'b', { tag: 'j.2' })
      .answer(130, 'b'),
    ['unexpected'],
  ],
  ['corrupt: other bytes', accepted().call(20, 'a', { sha: 'y' }).answer(30, 'a'), ['corrupt']],
  [
    'corrupt: another webhook-id',
    delivered().fault(20, 40, 'daemon').call(400, 'b', { webhookId: 'v' }).answer(410, 'b'),
    ['duplicatedByFault', 'corrupt'],
  ],
  ['refused while its server was killed: no finding', refusedIn('dq-server-0'), []],
  ['refused: no fault that may refuse a push was active', refusedIn('dq-notifier-0'), ['refused']],
  [
    'refused: in a reload',
    unknown(story().fault(0, 20, 'dq-master', 'reload').push(5), 10, 'ECONNRESET'),
    ['refused'],
  ],
  ['restoring while a journal puts back what Redis lost: no finding', restoringIn('redis-0'), [], journal],
  ['refused: restoring without a journal', restoringIn('redis-0'), ['refused'], everysec],
  ['refused: restoring where Redis lost nothing', restoringIn('daemon'), ['refused'], journal],
  ['unknown during a healing of a push that keeps: no finding', unknownIn('keep'), [], journal],
  ['refused: unknown without a journal', unknownIn('keep'), ['refused'], everysec],
  ['refused: unknown of a push that replaces', unknownIn('replace'), ['refused'], journal],
  [
    'refused: 4xx, also in a fault',
    rejected(story().fault(0, 20, 'daemon').push(5), 10, 404, 'status 404 topic_not_found'),
    ['refused'],
  ],
  ['each end pushed one job: no finding', chain(outcome(60, 'after', 'v1'), afterwards(80)), []],
  ['an outcome job without a body: no finding', chain(outcome(60, 'after', 'v1', 'w'), afterwards(80)), []],
  ['an outcome job called again after a kill: explained', repeatedOutcome(92), ['duplicatedByFault']],
  ['duplicated: an outcome job called again without a fault', repeatedOutcome(3_000), ['duplicated']],
  ['lost: the second end pushed no job', chain(outcome(60, 'after', 'v1')), ['lost']],
  ['lost: a dead letter pushed no job', dead(gone('a'), 90), ['lost']],
  ['a cancelled job need not push one: no finding', cancelled(calledIn('a'), { inFlight: true }), []],
  [
    'duplicated: one end pushed two jobs',
    chain(outcome(60, 'after', 'v1'), afterwards(80), outcome(90, 'last', 'v3', 'v1')),
    ['duplicated'],
  ],
  [
    'unexpected: an outcome job before the end',
    chain(outcome(25, 'after', 'v1'), afterwards(80)),
    ['unexpected'],
  ],
  [
    'unexpected: an outcome job of another end',
    chain(outcome(60, 'after', 'v1', 'j.1', true), afterwards(80)),
    ['unexpected'],
  ],
  [
    'unexpected: an outcome job of an end that was never seen',
    chain(outcome(60, 'last', 'v1', 'j.9')),
    ['lost', 'unexpected'],
  ],
  [
    'unexpected: an outcome job in a topic that was not named',
    outcome(60, 'last', 'v1')(delivered()),
    ['unexpected'],
  ],
  ['stuck: jobs are left', delivered().add(90, { kind: 'drained', left: 2 }), ['stuck']],
  ['no job is left: no finding', delivered().add(90, { kind: 'drained', left: 0 }), []],
  ['stuck: the store gave no number', delivered().add(90, { kind: 'drained', left: -1 }), ['stuck']],
  ['fsck: a problem', delivered().add(90, { kind: 'fsck', problem: 'I1' }), ['fsck']],
];

for (const [title, one, verdicts, storage] of jobs)
  it(`total queue, ${title}`, () => {
    expect(one.check(storage).findings.map(({ verdict }) => verdict)).toEqual(verdicts);
  });

describe('total queue, run', () => {
  it('counts the jobs by their ends', () => {
    expect(delivered().check()).toMatchObject({ pushed: 1, accepted: 1, delivered: 1, violations: 0 });
    expect(dead(gone(), 90).check().dead).toBe(1);
  });

  it('memory: a role that grows', () => {
    const samples = (grown: number) =>
      Array.from({ length: 80 }, (_, n) => ({ store: (100 + (n * grown) / 80) * 2 ** 20 }));
    const grow = (grown: number) =>
      samples(grown).reduce((one, bytes, n) => one.add(n, { kind: 'memory', bytes }), delivered());
    expect(grow(400).check().findings).toMatchObject([{ verdict: 'memory' }]);
    expect(grownRoles(grow(20).events)).toEqual([]);
  });

  it('availability: share of the jobs accepted at once, and the longest gap', () => {
    const one = story().push(0).pushed(10).push(20, { op: '2', id: 'k', tag: 'k.1' }).fault(20, 60, 'daemon');
    one.add(30, { kind: 'rejected', op: '2', status: 0, why: 'ECONNREFUSED' });
    one.push(70, { op: '3', id: 'l', tag: 'l.1' }).pushed(80, { op: '3' });
    one.push(80, { op: '4', id: 'k', tag: 'k.2' }).pushed(85, { op: '4' });
    expect(one.check()).toMatchObject({ availability: 2 / 3, gapMs: 70 });
  });

  it('rejects a torn line', () => {
    expect(() => parseHistory('{"kind":"drai')).toThrow();
  });
});

const killed = () => delivered().fault(15, 40, 'dq-notifier-0');
const effectless = { fault: 9, what: 'kill', target: 'dq-store', phase: 'begun', seen: '' } as const;
it.each<[string, Story, number, string[]]>([
  ['accepts a run with a fault during a call', killed(), 1, []],
  ['rejects a run without faults', delivered(), 1, ['no fault was made']],
  [
    'rejects a fault without effect',
    killed().add(20, { kind: 'fault', ...effectless }),
    1,
    ['the fault kill dq-store had no effect'],
  ],
  ['rejects a run with too few deliveries', killed(), 2, ['1 jobs were delivered, fewer than 2']],
  [
    'rejects a run whose faults met no call',
    delivered().fault(100, 140, 'dq-notifier-0'),
    1,
    ['no fault overlapped a call'],
  ],
])('total queue: %s', (_, one, deliveredMin, vacuous) => {
  expect(one.check(sqlite, deliveredMin).vacuous).toEqual(vacuous);
});

describe('total queue, plan', () => {
  const options = {
    targets: ['dq-store', 'receiver-a'],
    ...{ lengthMs: 60_000, everyMs: 1_000, holdMsMax: 500, longHoldMs: 9_000 },
  };
  const plan = (seed: number) => planFaults(new Dice(seed), options);

  it('is the same for the same seed', () => {
    expect(plan(1)).toEqual(plan(1));
    expect(plan(1)).not.toEqual(plan(2));
  });

  it('makes every fault before it repeats one', () => {
    const names = plan(3).map(({ what, target }) => `${what} ${target}`);
    const all = ['reload dq-master', 'kill daemon', 'kill dq-store', 'freeze dq-store'];
    all.push('kill receiver-a', 'freeze receiver-a');
    expect(names.slice(0, 6).sort()).toEqual(all.sort());
    expect(names.slice(6, 12).sort()).toEqual(all.sort());
  });

  it('a server whose data comes back loses all of it, and returns with an older snapshot', () => {
    const losing = planFaults(new Dice(3), { ...options, targets: ['redis-0'], losing: ['redis-0'] });
    const kinds = losing.slice(0, 6).flatMap(({ what, target }) => (target === 'redis-0' ? what : []));
    expect(kinds.sort()).toEqual(['empty', 'freeze', 'kill', 'rollback']);
  });
});

describe('total queue, timeline', () => {
  it('shows the events of one job, and the faults that were active', () => {
    const one = delivered().fault(15, 40, 'dq-store').fault(30_000, 30_010, 'daemon');
    one.push(50, { op: '9', id: 'k', tag: 'k.1' });
    const text = timelineOf('j', one.events).join('\n');
    for (const shown of ['"push"', '"pushed"', '"call"', '"answer"', 'dq-store'])
      expect(text).toContain(shown);
    for (const other of ['k.1', 'daemon']) expect(text).not.toContain(other);
  });
});
