// The alert outbox: due, claim, settle, and the lifetime of an alert.

import { expect } from 'vitest';
import { type Case, fact, farOffMs, idsOf, type Trial } from '../trial.ts';

async function dying(trial: Trial, ids: readonly string[]): Promise<number[]> {
  const versions: number[] = [];
  for (const id of ids) {
    versions.push((await trial.buried(id)).version);
    await trial.tick();
  }
  return versions;
}
const states = async (trial: Trial) =>
  Object.fromEntries((await trial.dump()).alerts.map((entry) => [entry.id, entry.state]));

const endsOfDeadLetters: readonly (readonly [string, (trial: Trial) => Promise<unknown>])[] = [
  ['cancel', (trial) => trial.cancel({ topic: 't', id: '1' })],
  ['push', (trial) => trial.push('1')],
  ['requeue', (trial) => trial.dead.requeue({ topic: 't' }, 10)],
  ['purge', (trial) => trial.dead.purge({ topic: 't' }, 10)],
  ['purgeTopic', (trial) => trial.admin.purgeTopic('t', 10)],
];

export const alertCases: readonly Case[] = [
  fact('alerts claim: owed alerts go to one claimer, oldest first, at most max', async (trial) => {
    await dying(trial, ['1', '2', '3']);
    const [first, second] = await Promise.all([
      trial.alerts.claim('t', farOffMs, 2),
      trial.alerts.claim('t', farOffMs, 2),
    ]);
    expect([idsOf(first), idsOf(second)].sort((a, b) => b.length - a.length)).toEqual([['1', '2'], ['3']]);
    expect(first[0]).toMatchObject({ state: 'claimed', reason: 'attempts_exhausted', failures: 1 });
    expect(await trial.unchanged(() => trial.alerts.claim('t', farOffMs, 2))).toEqual([]);
    expect(await states(trial)).toEqual({ 1: 'claimed', 2: 'claimed', 3: 'claimed' });
  }),

  fact('alerts claim: changes only the state of the claimed alerts', async (trial) => {
    await trial.bystanders();
    const [version] = await dying(trial, ['1']);
    await trial.changes(
      () => trial.alerts.claim('t', farOffMs, 10),
      (claimed) => {
        expect(claimed.map((entry) => entry.version)).toEqual([version]);
        return { alerts: { [String(version)]: { state: 'claimed' } } };
      },
    );
  }),

  fact('alerts claim: expires, and the alert is owed again', async (trial) => {
    await dying(trial, ['1', '2']);
    expect(idsOf(await trial.alerts.claim('t', farOffMs, 1))).toEqual(['1']);
    const claim = () => trial.alerts.claim('t', farOffMs, 5);
    expect(idsOf(await trial.alerts.claim('t', 60, 1))).toEqual(['2']);
    expect(await trial.justBefore(trial.now + 60, claim)).toEqual([]);
    expect(await states(trial)).toEqual({ 1: 'claimed', 2: 'owed' });
    expect(idsOf(await claim())).toEqual(['2']);
  }),

  fact('alerts stateOf: reads the state of one alert', async (trial) => {
    await trial.bystanders();
    const [version = 0, other = 0] = await dying(trial, ['1', '2']);
    const job = { topic: 't', id: '1', version };
    const state = () => trial.unchanged(() => trial.alerts.stateOf(job));
    expect(await state()).toBe('owed');
    await trial.alerts.claim('t', farOffMs, 10);
    expect(await state()).toBe('claimed');
    await trial.alerts.settle([version], 'sent');
    expect(await state()).toBe('sent');
    for (const none of [{ version: other }, { version: version + 1 }, { id: '2' }, { topic: 'u' }])
      expect(await trial.alerts.stateOf({ ...job, ...none })).toBeNull();
  }),

  fact('alerts due: names topics with owed alerts, the longest owed first', async (trial) => {
    expect(await trial.alerts.due(0)).toEqual([]);
    for (const [topic, id] of [
      ['b', '1'],
      ['a', '1'],
      ['b', '2'],
      ['c', '1'],
    ] as const) {
      await trial.buried(id, { topic });
      await trial.tick();
    }
    expect(await trial.unchanged(() => trial.alerts.due(farOffMs))).toEqual(['b', 'a', 'c']);
    const [first] = await trial.alerts.claim('b', farOffMs, 1);
    expect(await trial.alerts.due(farOffMs)).toEqual(['a', 'b', 'c']);
    await trial.alerts.claim('a', farOffMs, 1);
    expect(await trial.alerts.due(farOffMs)).toEqual(['b', 'c']);
    await trial.alerts.settle([first?.version ?? 0], 'owed');
    expect(await trial.alerts.due(farOffMs)).toEqual(['b', 'c']);
  }),

  fact('alerts due: leaves out only topics within windowMs of their last mail', async (trial) => {
    await dying(trial, ['1', '2']);
    await trial.buried('1', { topic: 'other' });
    const [first] = await trial.alerts.claim('t', farOffMs, 1);
    await trial.alerts.settle([first?.version ?? 0], 'sent');
    expect(await trial.alerts.due(farOffMs)).toEqual(['other']);
    expect(await trial.alerts.due(0)).toEqual(['t', 'other']);
    expect(await trial.justBefore(trial.now + 60, () => trial.alerts.due(60))).toEqual(['other']);
    expect(await trial.alerts.due(60)).toEqual(['t', 'other']);
  }),

  fact('alerts due: the window of a topic outlives the mailed dead letter', async (trial) => {
    const versions = await dying(trial, ['1']);
    await trial.alerts.settle(versions, 'sent');
    await trial.admin.purgeTopic('t', 10);
    await dying(trial, ['2']);
    expect(await trial.alerts.due(farOffMs)).toEqual([]);
  }),

  fact('alerts due: only a sent alert begins a window', async (trial) => {
    const [first = 0, second = 0] = await dying(trial, ['1', '2', '3']);
    await trial.alerts.claim('t', farOffMs, 2);
    await trial.alerts.settle([first], 'nobody');
    await trial.alerts.settle([second], 'owed');
    expect(await trial.alerts.due(farOffMs)).toEqual(['t']);
    await trial.alerts.settle([first], 'sent');
    expect(await trial.alerts.due(farOffMs)).toEqual(['t']);
  }),

  ...(['sent', 'nobody'] as const).map((ending) =>
    fact(`alerts settle ${ending}: settles the alert and keeps it with its dead letter`, async (trial) => {
      await trial.bystanders();
      const [version = 0] = await dying(trial, ['1']);
      await trial.alerts.claim('t', farOffMs, 10);
      await trial.changes(
        () => trial.alerts.settle([version, 12_345], ending),
        () => ({ alerts: { [version]: { state: ending } } }),
      );
      expect(await trial.unchanged(() => trial.alerts.claim('t', farOffMs, 10))).toEqual([]);
    }),
  ),

  fact('alerts settle owed: returns a claim at once', async (trial) => {
    const [version = 0] = await dying(trial, ['1', '2']);
    await trial.alerts.claim('t', farOffMs, 10);
    await trial.changes(
      () => trial.alerts.settle([version], 'owed'),
      () => ({ alerts: { [version]: { state: 'owed' } } }),
    );
    expect(idsOf(await trial.alerts.claim('t', farOffMs, 10))).toEqual(['1']);
  }),

  fact('alerts settle: a late call changes no settled alert', async (trial) => {
    const versions = await dying(trial, ['1', '2']);
    await trial.alerts.claim('t', farOffMs, 10);
    await trial.alerts.settle(versions.slice(0, 1), 'sent');
    await trial.alerts.settle(versions.slice(1), 'nobody');
    await trial.unchanged(() => trial.alerts.settle(versions, 'owed'));
    await trial.unchanged(() => trial.alerts.settle(versions.slice(0, 1), 'nobody'));
    await trial.unchanged(() => trial.alerts.settle(versions.slice(1), 'sent'));
  }),

  ...endsOfDeadLetters.flatMap(([name, end]) => [
    fact(`alerts: an owed alert outlives its dead letter (${name}) until it is settled`, async (trial) => {
      await trial.bystanders();
      const [version = 0] = await dying(trial, ['1']);
      const { alerts } = await trial.dump();
      await end(trial);
      expect((await trial.dump()).alerts).toEqual(alerts);
      const claimed = await trial.alerts.claim('t', farOffMs, 10);
      expect(claimed.map((entry) => entry.version)).toContain(version);
      await trial.changes(
        () => trial.alerts.settle([version], 'sent'),
        () => ({ alerts: { [version]: null } }),
      );
    }),

    fact(`alerts: a claimed alert outlives its dead letter (${name}) and can be returned`, async (trial) => {
      const [version = 0] = await dying(trial, ['1']);
      await trial.alerts.claim('t', farOffMs, 10);
      const { alerts } = await trial.dump();
      await end(trial);
      expect((await trial.dump()).alerts).toEqual(alerts);
      await trial.alerts.settle([version], 'owed');
      expect(idsOf(await trial.alerts.claim('t', farOffMs, 10))).toEqual(['1']);
      await trial.alerts.settle([version], 'nobody');
      expect((await trial.dump()).alerts).toEqual([]);
    }),

    fact(`alerts: a sent alert goes with its dead letter (${name})`, async (trial) => {
      await trial.bystanders();
      const [version = 0] = await dying(trial, ['1']);
      await trial.alerts.settle([version], 'sent');
      const { alerts } = await trial.dump();
      await end(trial);
      expect((await trial.dump()).alerts).toEqual(alerts.filter((entry) => entry.version !== version));
    }),
  ]),

  fact('alerts list: lists every alert, newest death first, in pages', async (trial) => {
    const [sent = 0] = await dying(trial, ['1', '2', '3', '4', '5']);
    await trial.alerts.settle([sent], 'sent');
    await trial.alerts.claim('t', farOffMs, 1);
    const first = await trial.alerts.list(2, null);
    await dying(trial, ['newer']);
    const second = await trial.alerts.list(2, first.nextCursor);
    const third = await trial.alerts.list(2, second.nextCursor);
    const seen = [...first.items, ...second.items, ...third.items];
    expect(seen.map((entry) => [entry.id, entry.state])).toEqual([
      ['5', 'owed'],
      ['4', 'owed'],
      ['3', 'owed'],
      ['2', 'claimed'],
      ['1', 'sent'],
    ]);
    expect(third.nextCursor).toBeNull();
    expect([first.total, second.total, third.total]).toEqual([5, 6, 6]);
    const { alerts } = await trial.dump();
    expect([...seen].sort((a, b) => a.version - b.version)).toEqual(
      alerts.filter((entry) => entry.id !== 'newer'),
    );
  }),
];
