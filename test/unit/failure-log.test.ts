import { expect, it } from 'vitest';
import { FailureLog } from '../../src/runtime/failure-log.ts';

it('FailureLog: one line for each reason of a failure, one when it ends', () => {
  const lines: unknown[][] = [];
  const log = {
    error: (...line: unknown[]) => lines.push(['error', ...line]),
    notice: (...line: unknown[]) => lines.push(['notice', ...line]),
  };
  const failures = new FailureLog(log, { failure: 'x: cannot y', end: 'x: can y again' }, { n: 1 });
  const reason = new Error('r');
  failures.succeeded();
  failures.failed(reason);
  failures.failed(reason);
  failures.failed(new Error('r'));
  const other = new Error('r', { cause: new Error('Access denied') });
  failures.failed(other);
  failures.failed(reason);
  expect(failures.isFailing).toBe(true);
  failures.succeeded();
  failures.succeeded();
  expect(lines).toEqual([
    ['error', 'x: cannot y', reason, { n: 1 }],
    ['error', 'x: cannot y', other, { n: 1 }],
    ['notice', 'x: can y again', { n: 1 }],
  ]);
});

it('FailureLog: repeats no reason that differs in numbers only, and stops after four reasons', () => {
  const lines: string[] = [];
  const log = { error: (_message: string, error: unknown) => lines.push(String(error)), notice: () => {} };
  const failures = new FailureLog(log, { failure: 'x: cannot y', end: 'x: can y again' });
  for (const text of ['after 10 ms', 'after 12 ms', 'a', 'b', 'c', 'd', 'e'])
    failures.failed(new Error(text));
  expect(lines).toEqual(['Error: after 10 ms', 'Error: a', 'Error: b', 'Error: c']);
  failures.succeeded();
  failures.failed(new Error('a'));
  expect(lines.slice(4)).toEqual(['Error: a']);
});
