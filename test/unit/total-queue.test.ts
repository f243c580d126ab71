// The checker of the total-queue run: one written history for each verdict, and for each reason to reject a
// run that shows nothing.
import { describe, expect, it } from 'vitest';
import { Dice } from '../../scripts/dice.ts';
import { check, type Verdict } from '../../scripts/faults/check.ts';
import type { VerdictName } from '../../scripts/faults/check-job.ts';
import {
  type Event,
  type EventBody,
  type EventOf,
  parseHistory,
  type Run,
} from '../../scripts/faults/history.ts';
import { grownRoles } from '../../scripts/faults/memory.ts';
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
    const usual = { op: '1', id: 'j', tag: 'j.1', mode: 'replace', delayMs: 0, fate: 'done' } as const;
    return this.add(at, { kind: 'push', ...usual, maxAttempts: 3, sha: 'x', ...more });
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
    const usual = { id: 'j', tag: 'j.1', attempt: 1, webhookId: 'w', dueAt: 0, sha: 'x' };
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
    };
    const events = parseHistory(this.events.map((event) => JSON.stringify(event)).join('\n'));
    return check(events, run, promiseOf(storage));
  }
}

const story = () => new Story();
/** Pushed, called and answered by 200 between 0 and 30 ms. */
const delivered = () => story().push(0).pushed(10).call(20, 'a').answer(30, 'a');

/** Exactly these verdicts, each once. */
function expectVerdicts(verdict: Verdict, ...names: readonly VerdictName[]): void {
  expect(verdict.findings.map((finding) => finding.verdict)).toEqual(names);
}

describe('total queue, jobs', () => {
  it('delivered once: no finding', () => {
    expectVerdicts(delivered().check());
    expect(delivered().check()).toMatchObject({ pushed: 1, accepted: 1, delivered: 1, violations: 0 });
  });

  it('lost: accepted and never called', () => {
    expectVerdicts(story().push(0).pushed(10).check(), 'lost');
  });

  it('lost: called, and its receiver died before it answered', () => {
    const one = story().push(0).pushed(10).call(20, 'a').fault(25, 40, 'receiver-a');
    expectVerdicts(one.check(), 'lost');
  });

  it('lost: a dead letter whose receiver would have accepted it', () => {
    expectVerdicts(
      story().push(0).pushed(10).add(90, { kind: 'dead', id: 'j', reason: 'gone' }).check(),
      'lost',
    );
  });

  it('lost: a cancel found it absent before it was called', () => {
    expectVerdicts(story().push(0).pushed(10).cancel(20).cancelled(30, { absent: true }).check(), 'lost');
  });

  it('lost: a later push replaced nothing', () => {
    const one = story()
      .push(0)
      .pushed(10)
      .push(20, { op: '2', tag: 'j.2' })
      .pushed(30, { op: '2', dueAt: 20 });
    expectVerdicts(one.call(40, 'a', { tag: 'j.2' }).answer(50, 'a').check(), 'lost');
  });

  it('replaced before it was back: no finding, with a journal only', () => {
    const one = () => story().push(0).pushed(10).fault(20, 25, 'redis-0').push(30, { op: '2', tag: 'j.2' });
    const again = () =>
      one().pushed(40, { op: '2', dueAt: 30 }).call(50, 'a', { tag: 'j.2' }).answer(60, 'a');
    expectVerdicts(again().check(journal));
    expectVerdicts(again().check({ ...everysec, fsync: 'always' }), 'lost');
  });

  it('a dead letter, as its receiver wanted: no finding', () => {
    const one = story().push(0, { fate: 'gone' }).pushed(10).call(20, 'a').answer(30, 'a', 410, true);
    const verdict = one.add(90, { kind: 'dead', id: 'j', reason: 'gone' }).check();
    expectVerdicts(verdict);
    expect(verdict.dead).toBe(1);
  });

  it('poisoned by five faults of its notifiers: explained, by four: lost', () => {
    const dead = (faults: number) => {
      const one = story().push(0).pushed(10).add(900, { kind: 'dead', id: 'j', reason: 'poison' });
      for (let n = 0; n < faults; n++) one.fault(100 * n, 100 * n + 50, 'dq-notifier-0');
      return one;
    };
    expectVerdicts(dead(5).check(), 'poisonedByFault');
    expectVerdicts(dead(4).check(), 'lost');
  });

  it('lost within the promise: accepted within 2 s before a kill of Redis, everysec', () => {
    const one = (at: number) =>
      story()
        .push(0)
        .pushed(10)
        .fault(at, at + 500, 'redis-0');
    expectVerdicts(one(1_500).check(everysec), 'lostByFault');
    expectVerdicts(one(2_500).check(everysec), 'lost');
    expectVerdicts(one(1_500).check({ ...everysec, fsync: 'always' }), 'lost');
    expectVerdicts(one(1_500).check(journal), 'lost');
  });

  it('recovered: a push without an answer has arrived', () => {
    const one = story()
      .fault(0, 50, 'dq-server-0')
      .push(10)
      .add(40, { kind: 'unknown', op: '1', why: 'reset' });
    expectVerdicts(one.call(60, 'a').answer(70, 'a').check(), 'recovered');
  });

  it('duplicated: called again after 2xx, and only a reload ran', () => {
    const again = () => delivered().call(500, 'b').answer(510, 'b');
    expectVerdicts(again().check(), 'duplicated');
    expectVerdicts(again().fault(20, 400, 'dq-master', 'reload').check(), 'duplicated');
    expectVerdicts(again().fault(20, 400, 'dq-timer-0').check(), 'duplicated');
  });

  it('duplicated: called again after its receiver had ended it by 410', () => {
    const one = story().push(0, { fate: 'gone' }).pushed(10).call(20, 'a').answer(30, 'a', 410, true);
    one.call(900, 'b', { attempt: 2 }).answer(910, 'b', 410, true);
    expectVerdicts(one.add(990, { kind: 'dead', id: 'j', reason: 'gone' }).check(), 'duplicated');
  });

  it('duplicated within the promise: a notifier was killed before the outcome was written', () => {
    const one = (at: number) =>
      delivered()
        .call(9_000, 'b')
        .answer(9_010, 'b')
        .fault(at, at + 100, 'dq-notifier-0');
    expectVerdicts(one(40).check(), 'duplicatedByFault');
    // Long after the outcome: that fault does not explain it.
    expectVerdicts(one(3_000).check(), 'duplicated');
  });

  it('duplicated within the promise: dq gave up a slow answer', () => {
    const one = story().push(0).pushed(10).call(20, 'a').answer(5_100, 'a');
    expectVerdicts(one.call(5_600, 'b', { attempt: 2 }).answer(5_610, 'b').check(), 'duplicatedByFault');
  });

  it('duplicated within the promise: a receiver logs what it got while it was frozen', () => {
    const one = (target: string) =>
      story().push(0).pushed(10).fault(12, 9_900, target, 'freeze').call(9_960, 'a').broken(9_960, 'a');
    for (const [target, verdict] of [
      ['receiver-a', 'duplicatedByFault'],
      ['dq-upkeep', 'duplicated'],
    ] as const)
      expectVerdicts(one(target).call(12_500, 'b', { attempt: 2 }).answer(12_510, 'b').check(), verdict);
  });

  it('a retry after its wait: no finding', () => {
    const one = story().push(0).pushed(10).call(20, 'a').answer(30, 'a', 500);
    expectVerdicts(one.call(330, 'b', { attempt: 2 }).answer(340, 'b').check());
  });

  it('early: a call before its due time', () => {
    const one = (at: number) => story().push(0, { delayMs: 100 }).pushed(10, { dueAt: 105 }).call(at, 'a');
    expectVerdicts(one(104).answer(200, 'a').check(), 'early');
    expectVerdicts(one(105).answer(200, 'a').check());
  });

  it('early: a due time before the delay of the push', () => {
    const one = story().push(0, { delayMs: 100 }).pushed(10, { dueAt: 99 });
    expectVerdicts(one.call(120, 'a').answer(130, 'a').check(), 'early');
  });

  it('early: a retry before its wait', () => {
    const one = story().push(0).pushed(10).call(20, 'a').answer(30, 'a', 500);
    expectVerdicts(one.call(329, 'b', { attempt: 2 }).answer(340, 'b').check(), 'early');
  });

  it('called after its end: a cancel with inFlight false', () => {
    const one = story().push(0).pushed(10).cancel(20).cancelled(30).call(40, 'a').answer(50, 'a');
    expectVerdicts(one.check(), 'afterEnd');
  });

  it('called after its end: a killed notifier explains only bytes that are on their way', () => {
    const one = (at: number) =>
      story().push(0).pushed(10).fault(12, 15, 'dq-notifier-0').cancel(20).cancelled(30).call(at, 'a');
    expectVerdicts(one(200).check(), 'undoneByFault');
    expectVerdicts(one(700).check(), 'afterEnd');
    const frozen = story().push(0).pushed(10).fault(12, 900, 'dq-notifier-0', 'freeze');
    expectVerdicts(frozen.cancel(20).cancelled(30).call(700, 'a').check(), 'afterEnd');
  });

  it('called after its end: a frozen receiver may have had the bytes before', () => {
    const one = (target: string, what: 'freeze' | 'kill') =>
      story().push(0).pushed(10).fault(12, 800, target, what).cancel(20).cancelled(30).call(900, 'a');
    expectVerdicts(one('receiver-a', 'freeze').check(), 'undoneByFault');
    expectVerdicts(one('receiver-a', 'kill').check(), 'afterEnd');
    expectVerdicts(one('dq-upkeep', 'freeze').check(), 'afterEnd');
  });

  it('called after its end: two calls after inFlight true', () => {
    const one = () => story().push(0).pushed(10).cancel(20).cancelled(30, { inFlight: true }).call(40, 'a');
    expectVerdicts(one().answer(50, 'a', 500).check());
    expectVerdicts(one().answer(50, 'a', 500).call(400, 'b', { attempt: 2 }).check(), 'afterEnd');
  });

  it('called after its end: the old version after a replacing push', () => {
    const one = story().push(0, { delayMs: 5 }).pushed(10, { dueAt: 5 });
    one.push(20, { op: '2', tag: 'j.2' }).pushed(30, { op: '2', dueAt: 20, replaced: true });
    one.call(40, 'a', { tag: 'j.2' }).answer(50, 'a').call(60, 'b').answer(70, 'b');
    expectVerdicts(one.check(), 'afterEnd');
  });

  it('called after its end: an attempt beyond the last', () => {
    const one = delivered().fault(20, 40, 'dq-notifier-0').call(400, 'b', { attempt: 4 }).answer(410, 'b');
    expectVerdicts(one.check(), 'afterEnd', 'duplicatedByFault');
  });

  it('undone within the promise: one forgotten attempt after a healing, and no second one', () => {
    const one = () =>
      story().fault(0, 5, 'redis-0').push(6).pushed(10, { dueAt: 6 }).cancel(20).cancelled(30).call(900, 'a');
    expectVerdicts(one().check(journal), 'undoneByFault');
    expectVerdicts(one().check({ ...journal, journal: false, fsync: 'always' }), 'afterEnd');
    const two = one().answer(910, 'a', 500).call(2_000, 'b', { attempt: 2 });
    expectVerdicts(two.check(journal), 'afterEnd', 'afterEnd');
  });

  it('unexpected: a call that was never pushed', () => {
    expectVerdicts(delivered().call(50, 'b', { id: 'k', tag: 'k.1' }).answer(60, 'b').check(), 'unexpected');
  });

  it('unexpected: a call of a rejected push', () => {
    const one = story().fault(0, 20, 'dq-store').push(5);
    one.add(10, { kind: 'rejected', op: '1', status: 503, why: 'status 503 not_stored' });
    expectVerdicts(one.call(50, 'a').answer(60, 'a').check(), 'unexpected');
  });

  it('unexpected: a call of a push that kept the stored job', () => {
    const one = delivered().push(100, { op: '2', tag: 'j.2', mode: 'keep' });
    one.pushed(110, { op: '2', duplicate: true }).call(120, 'b', { tag: 'j.2' }).answer(130, 'b');
    expectVerdicts(one.check(), 'unexpected');
  });

  it('corrupt: other bytes, or another webhook-id', () => {
    expectVerdicts(story().push(0).pushed(10).call(20, 'a', { sha: 'y' }).answer(30, 'a').check(), 'corrupt');
    const one = delivered().fault(20, 40, 'daemon').call(400, 'b', { webhookId: 'v' }).answer(410, 'b');
    expectVerdicts(one.check(), 'duplicatedByFault', 'corrupt');
  });

  it('refused: no fault that may refuse a push was active', () => {
    const one = (target: string) =>
      story()
        .fault(0, 20, target)
        .push(5)
        .add(10, { kind: 'rejected', op: '1', status: 0, why: 'ECONNREFUSED' });
    expectVerdicts(one('dq-server-0').check());
    expectVerdicts(one('dq-notifier-0').check(), 'refused');
    const reload = story().fault(0, 20, 'dq-master', 'reload').push(5);
    expectVerdicts(reload.add(10, { kind: 'unknown', op: '1', why: 'ECONNRESET' }).check(), 'refused');
  });

  it('refused: restoring, unless a journal puts back what Redis lost', () => {
    const one = (target: string) => {
      const push = story().fault(0, 20, target).push(50_000, { mode: 'keep' });
      return push.add(50_010, { kind: 'rejected', op: '1', status: 503, why: 'status 503 restoring' });
    };
    expectVerdicts(one('redis-0').check(journal));
    expectVerdicts(one('redis-0').check(everysec), 'refused');
    expectVerdicts(one('daemon').check(journal), 'refused');
  });

  it('refused: unknown during a healing, unless the push keeps the stored job', () => {
    const one = (mode: 'keep' | 'replace') => {
      const push = story().fault(0, 20, 'redis-0').push(50_000, { mode });
      return push.add(50_010, { kind: 'unknown', op: '1', why: 'status 503 unknown' });
    };
    expectVerdicts(one('keep').check(journal));
    expectVerdicts(one('keep').check(everysec), 'refused');
    expectVerdicts(one('replace').check(journal), 'refused');
  });

  it('refused: 4xx, also in a fault', () => {
    const one = story().fault(0, 20, 'daemon').push(5);
    one.add(10, { kind: 'rejected', op: '1', status: 404, why: 'status 404 topic_not_found' });
    expectVerdicts(one.check(), 'refused');
  });
});

describe('total queue, run', () => {
  it('stuck: jobs are left', () => {
    expectVerdicts(delivered().add(90, { kind: 'drained', left: 2 }).check(), 'stuck');
    expectVerdicts(delivered().add(90, { kind: 'drained', left: 0 }).check());
  });

  it('stuck: the store gave no number', () => {
    expectVerdicts(delivered().add(90, { kind: 'drained', left: -1 }).check(), 'stuck');
  });

  it('fsck: a problem', () => {
    expectVerdicts(delivered().add(90, { kind: 'fsck', problem: 'I1' }).check(), 'fsck');
  });

  it('memory: a role that grows', () => {
    const samples = (grown: number) =>
      Array.from({ length: 80 }, (_, n) => ({ store: (100 + (n * grown) / 80) * 2 ** 20 }));
    const grow = (grown: number) =>
      samples(grown).reduce((one, bytes, n) => one.add(n, { kind: 'memory', bytes }), delivered());
    expectVerdicts(grow(400).check(), 'memory');
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

describe('total queue, runs that show nothing', () => {
  const good = () => delivered().fault(15, 40, 'dq-notifier-0');

  it('accepts a run with a fault during a call', () => {
    expect(good().check(sqlite, 1).vacuous).toEqual([]);
  });

  it('rejects a run without faults', () => {
    expect(delivered().check(sqlite, 1).vacuous).toEqual(['no fault was made']);
  });

  it('rejects a fault without effect', () => {
    const one = good();
    const fault = {
      kind: 'fault',
      fault: 9,
      what: 'kill',
      target: 'dq-store',
      phase: 'begun',
      seen: '',
    } as const;
    expect(one.add(20, fault).check(sqlite, 1).vacuous).toEqual(['the fault kill dq-store had no effect']);
  });

  it('rejects a run with too few deliveries', () => {
    expect(good().check(sqlite, 2).vacuous).toEqual(['1 jobs were delivered, fewer than 2']);
  });

  it('rejects a run whose faults met no call', () => {
    const one = delivered().fault(100, 140, 'dq-notifier-0');
    expect(one.check(sqlite, 1).vacuous).toEqual(['no fault overlapped a call']);
  });
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
