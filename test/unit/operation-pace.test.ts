import { describe, expect, it, vi } from 'vitest';
import type { OperationRecord } from '../../src/core/operation.ts';
import { Pace } from '../../src/upkeep/operations/operation-run.ts';

const record = (given: Partial<OperationRecord>) =>
  ({
    rate: null,
    spreadMs: null,
    matched: 1_000,
    movingAt: 0,
    done: 0,
    skipped: 0,
    failed: 0,
    ...given,
  }) as OperationRecord;

describe('pace of an operation', () => {
  it('a spread of 100 s over 1,000 jobs makes up for a pause of 60 s at twice its pace', () => {
    vi.useFakeTimers({ now: 0 });
    try {
      const pace = new Pace();
      let done = 0;
      const moved: number[] = [];
      for (let s = 0; s <= 100; s += 1) {
        // Away from second 10 to 70.
        if (s <= 10 || s > 70) {
          const allowed = pace.allowed(record({ spreadMs: 100_000, done }), s * 1_000);
          pace.used(allowed);
          done += allowed;
          if (s > 70) moved.push(allowed);
        }
        vi.advanceTimersByTime(1_000);
      }
      expect(Math.max(...moved)).toBeLessThanOrEqual(20);
      expect(done).toBeGreaterThan(600);
    } finally {
      vi.useRealTimers();
    }
  });

  it('a spread moves the remaining jobs when its time is over', () => {
    const pace = new Pace();
    expect(pace.allowed(record({ spreadMs: 1_000, matched: 1 }), 5_000)).toBeGreaterThan(0);
  });
});
