import { expect, it } from 'vitest';
import { type ReloadOutcome, ReloadQueue, type Report } from '../../src/master/reload-queue.ts';
import { until } from '../support/until.ts';

/** Reloads that last until end() is called. */
function heldReloads() {
  const running: { readonly say: Report; end(outcome: ReloadOutcome): void }[] = [];
  let begun = 0;
  const queue = new ReloadQueue((say) => {
    begun += 1;
    return new Promise((resolve) => {
      running.push({
        say,
        end: (outcome) => {
          running.splice(0, 1);
          resolve(outcome);
        },
      });
    });
  });
  return { queue, running, begun: () => begun };
}

const outcome = (flaw: string): ReloadOutcome => ({ kind: 'reloaded', flaws: [flaw] });

it('reload queue: requests during a reload share the next one', async () => {
  const { queue, running, begun } = heldReloads();
  const progress: string[] = [];
  const first = queue.request((line) => progress.push(`first ${line}`));
  await until('it runs', () => running.length === 1);
  const others = Array.from({ length: 50 }, (_, n) => queue.request((line) => progress.push(`${n} ${line}`)));
  running[0]?.say('a');
  running[0]?.end(outcome('1'));
  expect(await first).toEqual(outcome('1'));
  await until('the next runs', () => running.length === 1);
  expect(begun()).toBe(2);
  running[0]?.say('b');
  running[0]?.end(outcome('2'));
  expect(await Promise.all(others)).toEqual(others.map(() => outcome('2')));
  expect(begun()).toBe(2);
  expect(progress).toEqual(['first a', ...others.map((_, n) => `${n} b`)]);
});

it('reload queue: simultaneous requests share one reload', async () => {
  const { queue, running, begun } = heldReloads();
  const both = [queue.request(() => {}), queue.request(() => {})];
  await until('it runs', () => running.length === 1);
  running[0]?.end(outcome('1'));
  await Promise.all(both);
  expect(begun()).toBe(1);
});
