// Wake-up hints. They may come late over a socket, so the next hint proves silence, never a wait.

import { expect } from 'vitest';
import type { Hint } from '../../../src/ports/job-store.ts';
import { until } from '../../support/until.ts';
import { type Case, dueAfter, fact, farOffMs, request, type Trial, waitOf } from '../trial.ts';

/** The hints of this call. */
class HintListener {
  readonly #hints: Hint[] = [];
  readonly stop: () => void;
  constructor(trial: Trial) {
    this.stop = trial.jobs.onHint((hint) => this.#hints.push(hint));
  }
  /** Without those of earlier calls, which may still be pending: the hint of a job that is due first comes
   *  after them. */
  static async afterEarlier(trial: Trial): Promise<HintListener> {
    const earlier: Hint[] = [];
    const stop = trial.jobs.onHint((hint) => earlier.push(hint));
    const mark = due(markMs);
    await trial.push('mark', { when: { delayMs: markMs } });
    await until('the last earlier hint', () =>
      earlier.some((hint) => hint.kind === 'due' && hint.waitMs === mark.waitMs),
    );
    await trial.cancel({ topic: 't', id: 'mark' });
    stop();
    return new HintListener(trial);
  }
  async expectNext(kind: Hint['kind']): Promise<Hint> {
    await until(`a hint ${kind}`, () => this.#hints.length > 0);
    expect(this.#hints.map((hint) => hint.kind)).toEqual([kind]);
    return this.#hints.shift() as Hint;
  }
}
const markMs = 10;
/** The hint of a job with this delay, while the clock stands still. */
const due = (delayMs: number) => ({ kind: 'due', partition: 0, waitMs: dueAfter(0, delayMs) });

export const hintCases: readonly Case[] = [
  fact('hint due: sent only when a push becomes the earliest delayed job', async (trial) => {
    const listener = new HintListener(trial);
    await trial.push('1', { when: { delayMs: 3 * farOffMs } });
    expect(await listener.expectNext('due')).toEqual(due(3 * farOffMs));
    await trial.push('2', { when: { delayMs: 4 * farOffMs } });
    await trial.push('3', { topic: 'u', when: { delayMs: 5 * farOffMs }, priority: 'high' });
    await trial.push('4', { when: { delayMs: 2 * farOffMs } });
    expect(await listener.expectNext('due')).toEqual(due(2 * farOffMs));
  }),

  ...(
    [
      ['cancelled', (trial) => trial.cancel({ topic: 't', id: 'head' })],
      ['replaced by a later one', (trial) => trial.push('head', { when: { delayMs: 5 * farOffMs } })],
      ['replaced by a ready one', (trial) => trial.push('head'), 'ready'],
      ['purged', (trial) => trial.admin.purgeTopic('t', 10)],
    ] as readonly (readonly [string, (trial: Trial) => Promise<unknown>, Hint['kind']?])[]
  ).map(([end, call, hint]) =>
    fact(`hint due: forgets an earliest job that was ${end}, and so does promote`, async (trial) => {
      await trial.push('later', { topic: 'u', when: { delayMs: 4 * farOffMs } });
      await trial.push('head', { when: { delayMs: farOffMs } });
      const listener = await HintListener.afterEarlier(trial);
      await call(trial);
      if (hint !== undefined) await listener.expectNext(hint);
      const waitMs = waitOf(dueAfter(0, 4 * farOffMs));
      expect(await trial.promote()).toEqual({ moved: 0, waitMs });
      await trial.push('next', { topic: 'u', when: { delayMs: 2 * farOffMs } });
      expect(await listener.expectNext('due')).toEqual(due(2 * farOffMs));
    }),
  ),

  fact('hint due: sent when a retry becomes the earliest delayed job', async (trial) => {
    await trial.push('1');
    await trial.push('2', { when: { delayMs: 2 * farOffMs } });
    const job = await trial.lease();
    const listener = await HintListener.afterEarlier(trial);
    await trial.retry(job, farOffMs);
    expect(await listener.expectNext('due')).toEqual(due(farOffMs));
  }),

  fact('hint ready: sent for each topic and priority, whatever others hold', async (trial) => {
    const listener = new HintListener(trial);
    await trial.push('1', { topic: 'paused' });
    await listener.expectNext('ready');
    await trial.push('2', { topic: 'active' });
    await listener.expectNext('ready');
    await trial.push('3', { topic: 'active', priority: 'high' });
    await listener.expectNext('ready');
    const { dueAt } = await trial.push('4', { topic: 'later', when: { delayMs: 20 } });
    await listener.expectNext('due');
    await trial.reach(dueAt);
    await trial.promote();
    await listener.expectNext('ready');
  }),

  fact('hint ready: sent only when the ready queue stops being empty', async (trial) => {
    const listener = new HintListener(trial);
    await trial.push('1');
    await listener.expectNext('ready');
    await trial.push('2');
    await trial.push('3');
    await trial.reserve(request(2));
    await trial.push('4');
    await trial.reserve(request(10));
    await trial.push('5');
    await listener.expectNext('ready');
    await trial.push('6', { when: { delayMs: farOffMs } });
    await listener.expectNext('due');
  }),

  ...(
    [
      [
        'release',
        async (trial) => {
          const job = await trial.reserved('1');
          return () => trial.release(job);
        },
      ],
      [
        'retry at once',
        async (trial) => {
          const job = await trial.reserved('1');
          return () => trial.retry(job, 0);
        },
      ],
      [
        'requeue',
        async (trial) => {
          await trial.buried('1');
          return () => trial.dead.requeue({}, 10);
        },
      ],
      [
        'recoverOwners',
        async (trial) => {
          await trial.reserved('1', {}, { instance: 1, incarnation: 1 });
          return () => trial.jobs.recoverOwners(trial.partition, 1, { living: [] }, 10);
        },
      ],
      [
        'releaseUnheld',
        async (trial) => {
          await trial.reserved('1', {}, { instance: 1, incarnation: 1 });
          return () =>
            trial.jobs.releaseUnheld(
              ...([trial.partition, { instance: 1, incarnation: 1 }, [], Number.MAX_SAFE_INTEGER] as const),
            );
        },
      ],
    ] as readonly (readonly [string, (trial: Trial) => Promise<() => Promise<unknown>>])[]
  ).map(([name, prepare]) =>
    fact(`hint ready: sent by ${name}`, async (trial) => {
      const call = await prepare(trial);
      const listener = await HintListener.afterEarlier(trial);
      await call();
      await listener.expectNext('ready');
    }),
  ),

  fact('hint ready: sent by promote', async (trial) => {
    const listener = new HintListener(trial);
    const { dueAt } = await trial.push('1', { when: { delayMs: 20 } });
    await listener.expectNext('due');
    await trial.reach(dueAt);
    await trial.promote();
    await listener.expectNext('ready');
  }),

  fact('hint: reaches every listener until it unsubscribes', async (trial) => {
    const listener = new HintListener(trial);
    const gone: Hint[] = [];
    trial.jobs.onHint((hint) => gone.push(hint))();
    const other = new HintListener(trial);
    await trial.push('1');
    await listener.expectNext('ready');
    await other.expectNext('ready');
    expect(gone).toEqual([]);
  }),
];
