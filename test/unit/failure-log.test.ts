import { expect, it } from 'vitest';
import { FailureLog } from '../../src/runtime/failure-log.ts';

it('FailureLog: one line when a failure starts, one when it ends', () => {
  const lines: unknown[][] = [];
  const log = {
    error: (...line: unknown[]) => lines.push(['error', ...line]),
    notice: (...line: unknown[]) => lines.push(['notice', ...line]),
  };
  const failures = new FailureLog(log, { failure: 'x: cannot y', end: 'x: can y again' }, { n: 1 });
  const reason = new Error('r');
  failures.succeeded();
  failures.failed(reason);
  failures.failed(new Error('other'));
  expect(failures.isFailing).toBe(true);
  failures.succeeded();
  failures.succeeded();
  expect(lines).toEqual([
    ['error', 'x: cannot y', reason, { n: 1 }],
    ['notice', 'x: can y again', { n: 1 }],
  ]);
});
