// Tests what a process closes at its end.
import { describe, expect, it } from 'vitest';
import { Resources } from '../../src/runtime/service.ts';

describe('resources', () => {
  it('close in reverse order, each after the next one is closed', async () => {
    const opened = new Resources();
    const closed: string[] = [];
    for (const name of ['first', 'second'])
      opened.add(name, async (own) => {
        await Promise.resolve();
        closed.push(own);
      });
    await opened.close();
    expect(closed).toEqual(['second', 'first']);
  });

  it('close although one fails, and the failure is known', async () => {
    const opened = new Resources();
    const closed: string[] = [];
    opened.add('first', (own) => closed.push(own));
    opened.add('second', () => {
      throw new Error('stuck');
    });
    opened.add('third', (own) => closed.push(own));
    await expect(opened.close()).rejects.toThrow('stuck');
    expect(closed).toEqual(['third', 'first']);
  });

  it('each knows how the process ends; a start that fails ends at once', async () => {
    for (const [ending, expected] of [
      [
        { deadlineMs: 500, isLast: true },
        { deadlineMs: 500, isLast: true },
      ],
      [undefined, { deadlineMs: 0, isLast: false }],
    ] as const) {
      const opened = new Resources();
      const seen: unknown[] = [];
      opened.add(null, (_, its) => seen.push(its));
      opened.add(null, (_, its) => seen.push(its));
      await opened.close(ending);
      expect(seen).toEqual([expected, expected]);
    }
  });

  it('close once', async () => {
    const opened = new Resources();
    let closed = 0;
    opened.add(null, () => {
      closed += 1;
    });
    await Promise.all([opened.close(), opened.close()]);
    expect(closed).toBe(1);
  });
});
