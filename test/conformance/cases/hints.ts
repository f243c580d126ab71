// Wake-up hints. They may come late over a socket, so the next hint proves silence, never a wait.

import { expect } from 'vitest';
import type { Hint } from '../../../src/ports/job-store.ts';
import { until } from '../../support/until.ts';
import { type Case, fact, farOffMs, request, type Trial, within } from '../trial.ts';

/** The hints of this call. */
class Ear {
  readonly #heard: Hint[] = [];
  readonly stop: () => void;
  constructor(trial: Trial) {
    this.stop = trial.jobs.onHint((hint) => this.#heard.push(hint));
  }
  async hears(kind: Hint['kind']): Promise<Hint> {
    await until(`a hint ${kind}`, () => this.#heard.length > 0);
    expect(this.#heard.map((hint) => hint.kind)).toEqual([kind]);
    return this.#heard.shift() as Hint;
  }
}
const due = (waitMs: number) => ({ kind: 'due', partition: 0, waitMs: within(waitMs - 60_000, waitMs + 1) });

export const hintCases: readonly Case[] = [
  fact('hint due: sent only when a push becomes the earliest delayed job', async (trial) => {
    const ear = new Ear(trial);
    await trial.push('1', { when: { delayMs: 3 * farOffMs } });
    expect(await ear.hears('due')).toEqual(due(3 * farOffMs));
    await trial.push('2', { when: { delayMs: 4 * farOffMs } });
    await trial.push('3', { topic: 'u', when: { delayMs: 5 * farOffMs }, priority: 'high' });
    await trial.push('4', { when: { delayMs: 2 * farOffMs } });
    expect(await ear.hears('due')).toEqual(due(2 * farOffMs));
  }),

  ...(
    [
      ['cancelled', (trial) => trial.cancel({ topic: 't', id: 'head' })],
      ['replaced by a later one', (trial) => trial.push('head', { when: { delayMs: 5 * farOffMs } })],
      ['replaced by a ready one', (trial) => trial.push('head')],
      ['purged', (trial) => trial.admin.purgeTopic('t', 10)],
    ] as readonly (readonly [string, (trial: Trial) => Promise<unknown>])[]
  ).map(([end, call]) =>
    fact(`hint due: forgets an earliest job that was ${end}, and so does promote`, async (trial) => {
      await trial.push('later', { topic: 'u', when: { delayMs: 4 * farOffMs } });
      await trial.push('head', { when: { delayMs: farOffMs } });
      await call(trial);
      const waitMs = within(4 * farOffMs - 60_000, 4 * farOffMs + 1);
      expect(await trial.promote()).toEqual({ moved: 0, waitMs });
      const ear = new Ear(trial);
      await trial.push('next', { topic: 'u', when: { delayMs: 2 * farOffMs } });
      expect(await ear.hears('due')).toEqual(due(2 * farOffMs));
    }),
  ),

  fact('hint due: sent when a retry becomes the earliest delayed job', async (trial) => {
    await trial.push('1');
    await trial.push('2', { when: { delayMs: 2 * farOffMs } });
    const job = await trial.lease();
    const ear = new Ear(trial);
    await trial.retry(job, farOffMs);
    expect(await ear.hears('due')).toEqual(due(farOffMs));
  }),

  fact('hint ready: sent for each topic and priority, whatever others hold', async (trial) => {
    const ear = new Ear(trial);
    await trial.push('1', { topic: 'paused' });
    await ear.hears('ready');
    await trial.push('2', { topic: 'active' });
    await ear.hears('ready');
    await trial.push('3', { topic: 'active', priority: 'high' });
    await ear.hears('ready');
    const { dueAt } = await trial.push('4', { topic: 'later', when: { delayMs: 20 } });
    await ear.hears('due');
    await until('it to be due', () => Date.now() > dueAt + 1);
    await trial.promote();
    await ear.hears('ready');
  }),

  fact('hint ready: sent only when the ready queue stops being empty', async (trial) => {
    const ear = new Ear(trial);
    await trial.push('1');
    await ear.hears('ready');
    await trial.push('2');
    await trial.push('3');
    await trial.reserve(request(2));
    await trial.push('4');
    await trial.reserve(request(10));
    await trial.push('5');
    await ear.hears('ready');
    await trial.push('6', { when: { delayMs: farOffMs } });
    await ear.hears('due');
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
          return () => trial.jobs.releaseUnheld(trial.partition, { instance: 1, incarnation: 1 }, []);
        },
      ],
    ] as readonly (readonly [string, (trial: Trial) => Promise<() => Promise<unknown>>])[]
  ).map(([name, prepare]) =>
    fact(`hint ready: sent by ${name}`, async (trial) => {
      const call = await prepare(trial);
      // A hint of the seed may still be pending: this one comes after it, and later ones belong to the call.
      const seeded: Hint[] = [];
      const stop = trial.jobs.onHint((hint) => seeded.push(hint));
      await trial.push('mark', { when: { delayMs: 10 } });
      await until('the mark', () => seeded.some((hint) => hint.kind === 'due'));
      await trial.cancel({ topic: 't', id: 'mark' });
      stop();
      const ear = new Ear(trial);
      await call();
      await ear.hears('ready');
    }),
  ),

  fact('hint ready: sent by promote', async (trial) => {
    const ear = new Ear(trial);
    const { dueAt } = await trial.push('1', { when: { delayMs: 20 } });
    await ear.hears('due');
    await until('it to be due', () => Date.now() > dueAt + 1);
    await trial.promote();
    await ear.hears('ready');
  }),

  fact('hint: reaches every listener until it unsubscribes', async (trial) => {
    const ear = new Ear(trial);
    const gone: Hint[] = [];
    trial.jobs.onHint((hint) => gone.push(hint))();
    const other = new Ear(trial);
    await trial.push('1');
    await ear.hears('ready');
    await other.hears('ready');
    expect(gone).toEqual([]);
  }),
];
