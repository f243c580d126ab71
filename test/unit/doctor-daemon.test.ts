// Tests what dq doctor says about the work of a running daemon: each fact once, under its own name.
import { expect, it } from 'vitest';
import type { HeldTopic } from '../../src/core/capacity-reasons.ts';
import { helpOf } from '../../src/core/incident.ts';
import { checkWork } from '../../src/doctor/daemon.ts';

const noneHeld = { topics: 0, jobs: 0, most: [] };
const rowsOf = async (warnings: readonly string[], held: Parameters<typeof heldOf>[0] = []) =>
  (
    await checkWork(
      {
        ready: async () => ({ durability: 'on disk', warnings }),
        held: async () => heldOf(held),
      },
      'data',
    )
  ).map(({ check, state, about }) => `${check} ${state} ${about}`);
const heldOf = (most: readonly HeldTopic[]) =>
  most.length === 0 ? noneHeld : { topics: most.length, jobs: most.length, most };

it('a sound daemon: its durability, and no held jobs', async () => {
  expect(await rowsOf([])).toEqual(['store ok on disk', 'topics ok no waiting jobs are held']);
});

it('warnings of /readyz: a row each, without dq doctor as their help', async () => {
  const incident = (kind: 'store' | 'journal') => {
    const { command, does } = helpOf({ kind, about: '' });
    return `it fails; since noon (reported at 12:00); ${command} ${does}`;
  };
  expect(await rowsOf([incident('store'), incident('journal')])).toEqual([
    'store ok on disk',
    'readyz warning it fails; since noon (reported at 12:00)',
    `readyz warning ${incident('journal')}`,
    'topics ok no waiting jobs are held',
  ]);
});

it('held topics: those that /readyz names are not repeated', async () => {
  const brokerless = { topic: 'b', why: 'unknown_broker', jobs: 1 } as const;
  const unreadable = { topic: 'u', why: 'unreadable', jobs: 1 } as const;
  const paused = { topic: 'p', why: 'paused', jobs: 1 } as const;
  expect(await rowsOf([], [brokerless, unreadable])).toEqual(['store ok on disk']);
  expect(await rowsOf([], [brokerless, paused, unreadable])).toEqual([
    'store ok on disk',
    'topics warning dq calls no job of these topics: p (paused, 1 waiting); dq explain TOPIC says what to do',
  ]);
});

it('a store that is unavailable: one row', async () => {
  const away = () => Promise.reject(new Error('store: unavailable'));
  expect(await checkWork({ ready: away, held: away }, 'data')).toEqual([
    {
      ...{ check: 'store', state: 'failed', about: 'store: unavailable' },
      ...{ code: 'store_failed', values: { why: 'store: unavailable' } },
    },
  ]);
});
