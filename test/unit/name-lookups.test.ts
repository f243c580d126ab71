// The order of look-ups, with a resolver and a probe whose answers the test gives.
import type { LookupAddress } from 'node:dns';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { notifierLimits } from '../../src/notifier/limits.ts';
import { NameLookups } from '../../src/notifier/name-lookups.ts';
import type { NameProbe, ProbeResult } from '../../src/notifier/name-probe.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
});
afterEach(() => {
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

const address = (last: number): LookupAddress => ({ address: `192.0.2.${last}`, family: 4 });
const absent = Object.assign(new Error('no such name'), { code: 'ENOTFOUND' });
const unreachable = Object.assign(new Error('try again'), { code: 'EAI_AGAIN' });
const silent: ProbeResult = { kind: 'silent' };
const answered = (...addresses: LookupAddress[]): ProbeResult => ({ kind: 'answered', addresses });

type Answer = readonly LookupAddress[] | Error;

function createTrial({ probesMax = 100, isLocal = (_name: string): boolean => false } = {}) {
  const asked = new Map<string, ((answer: Answer) => void)[]>();
  const probed = new Map<string, (result: ProbeResult) => void>();
  const cancelled: string[] = [];
  const asks: string[] = [];
  const probe: NameProbe = {
    isLocal,
    probe(name, done) {
      probed.set(name, done);
      return () => void cancelled.push(name);
    },
  };
  const lookups = new NameLookups({
    probe,
    probesMax,
    lookup(name, _options, found) {
      asks.push(name);
      const list = asked.get(name) ?? [];
      asked.set(name, list);
      list.push((answer) => {
        if (answer instanceof Error) found(answer, []);
        else found(null, [...answer]);
      });
    },
  });
  const ends: string[] = [];
  return {
    lookups,
    ends,
    cancelled,
    /** all questions to the system's resolver so far */
    asks,
    find: (name: string) =>
      lookups.find(name, (error, found) => {
        const what =
          error === null
            ? found.map((one) => one.address).join()
            : String(Reflect.get(error, 'code') ?? error.name);
        ends.push(`${name}: ${what}`);
      }),
    probing: () => [...probed.keys()],
    probed(name: string, result: ProbeResult) {
      const done = probed.get(name);
      probed.delete(name);
      done?.(result);
    },
    /** Callers of the names come, and each probe ends so. */
    findProbed(result: ProbeResult, ...names: readonly string[]) {
      for (const name of names) {
        this.find(name);
        this.probed(name, result);
      }
    },
    asking: () => [...asked.keys()],
    /** of the system's resolver */
    async answer(name: string, answer: Answer) {
      const list = asked.get(name);
      asked.delete(name);
      for (const one of list ?? []) one(answer);
      await nextTick();
    },
  };
}

const ids = (letter: string, count: number) => Array.from({ length: count }, (_, n) => `${letter}${n}.test`);

/** Moves the clock without firing timers. */
function stall(ms: number): void {
  const now = performance.now.bind(performance);
  const clock = { ...performance, now: () => now() + ms };
  vi.stubGlobal('performance', clock);
}

const nextTick = () => new Promise<void>((resolve) => process.nextTick(resolve));

async function pass(ms: number): Promise<void> {
  await vi.advanceTimersByTimeAsync(ms);
  await nextTick();
}

it('asks for the addresses of both families, whatever addresses this machine has', async () => {
  const asked: object[] = [];
  const lookups = new NameLookups({
    lookup: (_name, options) => void asked.push(options),
    probe: null,
    probesMax: 1,
  });
  lookups.find('localhost', () => {});
  await nextTick();
  expect(asked).toEqual([{ all: true }]);
});

it('look-up: 2,000 silent names leave threads to a new name', async () => {
  const trial = createTrial({ probesMax: 5_000 });
  for (let n = 0; n < 2_000; n++) trial.find(`hung${n}.test`);
  for (const name of trial.probing()) trial.probed(name, silent);
  expect(trial.asking()).toEqual(['hung0.test', 'hung1.test']);
  trial.findProbed(answered(), 'new.test');
  expect(trial.asking()).toContain('new.test');
  await trial.answer('new.test', [address(1)]);
  expect(trial.ends).toEqual(['new.test: 192.0.2.1']);
});

it('look-up: names that hang after an answered probe leave threads to names in good standing', async () => {
  const trial = createTrial();
  trial.findProbed(answered(), 'good.test');
  await trial.answer('good.test', [address(1)]);
  await pass(notifierLimits.lookupFreshMs);
  trial.findProbed(answered(), ...ids('late', 20));
  expect(trial.asking()).toHaveLength(notifierLimits.lookupThreads.new);
  trial.findProbed(answered(), 'good.test');
  await trial.answer('good.test', [address(2)]);
  expect(trial.ends).toEqual(['good.test: 192.0.2.1', 'good.test: 192.0.2.2']);
});

it('look-up: a silent name fails after its deadline, then at once for seconds', async () => {
  const trial = createTrial();
  expect(trial.find('hung.test').hasStarted).toBe(true);
  trial.probed('hung.test', silent);
  await pass(notifierLimits.lookupMs);
  expect(trial.ends).toEqual(['hung.test: ETIMEOUT']);
  trial.find('hung.test');
  await nextTick();
  expect(trial.ends).toEqual(['hung.test: ETIMEOUT', 'hung.test: ETIMEOUT']);
  expect(trial.probing()).toEqual([]);
  await pass(notifierLimits.lookupSilentMs);
  trial.find('hung.test');
  expect(trial.probing()).toEqual(['hung.test']);
  await pass(notifierLimits.lookupAgainMs);
  expect(trial.ends).toHaveLength(3);
  await pass(notifierLimits.lookupSilentMs);
  trial.find('hung.test');
  // The thread of the first look-up is still in use, and its answer counts for the name.
  trial.probed('hung.test', silent);
  await trial.answer('hung.test', [address(3)]);
  expect(trial.ends.at(-1)).toBe('hung.test: 192.0.2.3');
  expect(trial.asking()).toEqual([]);
});

it('look-up: a name that was silent gets a thread without waiting for its probe, and only one', async () => {
  const trial = createTrial();
  trial.findProbed(silent, 'a.test', 'b.test', 'c.test');
  await pass(notifierLimits.lookupMs);
  expect(trial.asking()).toEqual(['a.test', 'b.test']);
  await trial.answer('a.test', unreachable);
  await pass(notifierLimits.lookupSilentMs);
  trial.find('c.test');
  expect(trial.asking()).toEqual(['b.test', 'c.test']);
  trial.probed('c.test', answered());
  await trial.answer('b.test', unreachable);
  await trial.answer('c.test', [address(1)]);
  expect(trial.ends.filter((end) => end.startsWith('c.test'))).toEqual([
    'c.test: ETIMEOUT',
    'c.test: 192.0.2.1',
  ]);
  expect(trial.asking()).toEqual([]);
});

it('look-up: without a turn it ends as not started, without a failure', async () => {
  const trial = createTrial();
  trial.findProbed(answered(), ...ids('late', notifierLimits.lookupThreads.new));
  const queued = trial.find('queued.test');
  expect(queued.hasStarted).toBe(true);
  trial.probed('queued.test', answered());
  expect(queued.hasStarted).toBe(false);
  await pass(notifierLimits.lookupMs);
  expect(trial.ends).toContain('queued.test: LookupNotStarted');
  trial.find('queued.test');
  expect(trial.probing()).toEqual(['queued.test']);
});

it('look-up: a queued name keeps its place after its callers have left', async () => {
  const trial = createTrial();
  const first = ids('first', notifierLimits.lookupThreads.new);
  trial.findProbed(answered(), ...first, 'queued.test', 'gone.test');
  await pass(notifierLimits.lookupMs);
  expect(trial.ends).toContain('queued.test: LookupNotStarted');
  expect(trial.lookups.isQueued('queued.test')).toBe(true);
  trial.findProbed(answered(), ...ids('later', 3));
  await trial.answer('first0.test', unreachable);
  expect(trial.asking()).toEqual([...first.slice(1), 'queued.test']);
  expect(trial.lookups.isQueued('queued.test')).toBe(false);
  await trial.answer('queued.test', [address(1)]);
  await trial.answer('gone.test', absent);
  trial.find('queued.test');
  trial.find('gone.test');
  await nextTick();
  expect(trial.ends.slice(-2)).toEqual(['queued.test: 192.0.2.1', 'gone.test: ENOTFOUND']);
});

it('look-up: a queued name without calls for minutes is dropped', async () => {
  const trial = createTrial();
  trial.findProbed(
    answered(),
    ...ids('first', notifierLimits.lookupThreads.new),
    'unused.test',
    'wanted.test',
  );
  await pass(notifierLimits.lookupOldMs);
  expect(trial.lookups.isQueued('wanted.test')).toBe(true);
  for (const name of trial.asking()) await trial.answer(name, unreachable);
  expect(trial.asking()).toEqual(['wanted.test']);
});

it('look-up: a slow name that was silent is queued and looked up once', async () => {
  const trial = createTrial();
  trial.findProbed(answered(), 'x.test');
  await pass(notifierLimits.lookupSlowMs);
  await trial.answer('x.test', unreachable);
  await pass(notifierLimits.lookupSilentMs);
  const hung = ids('hung', notifierLimits.lookupThreads.silent);
  trial.findProbed(silent, ...hung, 'x.test');
  await pass(notifierLimits.lookupMs + notifierLimits.lookupSilentMs);
  trial.findProbed(answered(), 'x.test');
  for (const name of hung) await trial.answer(name, unreachable);
  expect(trial.asks).toEqual(['x.test', ...hung, 'x.test']);
});

it('look-up: a stall of the process does not make a name slow', async () => {
  const trial = createTrial();
  trial.findProbed(silent, ...ids('hung', notifierLimits.lookupThreads.silent));
  trial.findProbed(answered(), 'good.test');
  stall(2 * notifierLimits.lookupSlowMs);
  await trial.answer('good.test', unreachable);
  await pass(notifierLimits.lookupSilentMs);
  trial.findProbed(answered(), 'good.test');
  expect(trial.asking()).toContain('good.test');
});

it('look-up: a local name is never ranked behind silent names', async () => {
  const trial = createTrial({ isLocal: (name) => name === 'local' });
  trial.findProbed(silent, ...ids('hung', notifierLimits.lookupThreads.silent));
  trial.find('local');
  await pass(2 * notifierLimits.lookupSlowMs);
  await trial.answer('local', unreachable);
  await pass(notifierLimits.lookupSilentMs);
  trial.find('local');
  expect(trial.asking()).toContain('local');
});

it('look-up: probes beyond their limit wait, and have not started', async () => {
  const trial = createTrial({ probesMax: 1 });
  trial.find('first.test');
  const second = trial.find('second.test');
  expect(second.hasStarted).toBe(false);
  trial.probed('first.test', answered());
  expect(second.hasStarted).toBe(true);
  expect(trial.probing()).toEqual(['second.test']);
  trial.lookups.close();
  expect(trial.cancelled).toEqual(['second.test']);
});

it('look-up: addresses of the probe are used where the system is slow', async () => {
  const trial = createTrial();
  const pending = trial.find('slow.test');
  trial.probed('slow.test', answered(address(1)));
  await pass(notifierLimits.lookupSlowMs);
  expect(trial.ends).toEqual(['slow.test: 192.0.2.1']);
  expect(pending.hasStarted).toBe(true);
  await trial.answer('slow.test', absent);
  trial.find('slow.test');
  await nextTick();
  expect(trial.ends.at(-1)).toBe('slow.test: ENOTFOUND');
});

it('look-up: uses an old answer until a newer one or the end of the name', async () => {
  const trial = createTrial();
  trial.findProbed(answered(), 'a.test');
  await trial.answer('a.test', [address(1)]);
  await pass(notifierLimits.lookupFreshMs);
  trial.find('a.test');
  expect(trial.ends).toHaveLength(1);
  await pass(notifierLimits.lookupPatienceMs);
  expect(trial.ends.at(-1)).toBe('a.test: 192.0.2.1');
  trial.find('a.test');
  await nextTick();
  expect(trial.ends).toHaveLength(3);
  trial.probed('a.test', answered());
  await trial.answer('a.test', unreachable);
  await pass(notifierLimits.lookupFailedMs);
  trial.findProbed(answered(), 'a.test');
  await trial.answer('a.test', absent);
  expect(trial.ends.at(-1)).toBe('a.test: ENOTFOUND');
});

it('look-up: local names are not probed; callers of one name share a look-up', async () => {
  const trial = createTrial({ isLocal: (name) => name === 'local' });
  trial.find('local');
  trial.find('local');
  expect(trial.probing()).toEqual([]);
  expect(trial.asking()).toEqual(['local']);
  await trial.answer('local', [address(1)]);
  trial.find('local');
  await nextTick();
  expect(trial.ends).toEqual(['local: 192.0.2.1', 'local: 192.0.2.1', 'local: 192.0.2.1']);
});
