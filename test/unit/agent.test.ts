// Agents with real loops; waits are one ms.

import { expect, it, onTestFinished } from 'vitest';
import { Agent, type AgentOptions } from '../../src/runtime/loop.ts';
import { turn } from '../../src/runtime/time.ts';
import { until } from '../support/until.ts';

/** Started; its lines in the order in which they were logged. */
async function started(
  options: (answers: Iterator<Error | null>, rest: () => void) => Partial<AgentOptions> & object,
  answers: readonly (Error | null)[],
) {
  const lines: string[] = [];
  let isOver = false;
  const log = {
    error: (message: string) => void lines.push(message),
    notice: (message: string) => void lines.push(message),
  };
  const common = { log, failure: 'cannot work', end: 'works again', failureWaitMs: 1 };
  const left = answers[Symbol.iterator]();
  const agent = new Agent({
    ...common,
    ...options(left, () => {
      isOver = true;
    }),
  } as AgentOptions);
  await agent.start();
  onTestFinished(() => agent.drain(1_000));
  await until('all answers are used', () => isOver);
  return { agent, lines };
}

/** Does the next answer; without one, nothing. */
function answer(answers: Iterator<Error | null>, rest: () => void): void {
  const { value, done } = answers.next();
  if (done === true) rest();
  else if (value instanceof Error) throw value;
}

it('a failure is logged once for each reason, and its end once', async () => {
  const [a, b] = [new Error('a'), new Error('b')];
  const { agent, lines } = await started(
    (answers, rest) => ({
      async step() {
        answer(answers, rest);
        return 1;
      },
    }),
    [null, a, a, b, null, null, a, null],
  );
  expect(lines).toEqual(['cannot work', 'cannot work', 'works again', 'cannot work', 'works again']);
  expect(agent.isFailing).toBe(false);
});

it('a turn before the work is due again ends no failure', async () => {
  const called: string[] = [];
  const { agent, lines } = await started(
    (_, rest) => ({
      async work() {
        called.push('work');
        throw new Error('a');
      },
      everyMs: 600_000,
      onFailure() {
        called.push('failure');
        rest();
      },
    }),
    [],
  );
  for (let turns = 0; turns < 5; turns += 1) {
    agent.wake();
    await turn();
  }
  expect([called, lines]).toEqual([['work', 'failure'], ['cannot work']]);
});

it('a turn reports its success itself', async () => {
  const { agent, lines } = await started(
    (answers, rest) => ({
      async turn() {
        answer(answers, rest);
        return 1;
      },
    }),
    [new Error('a'), null],
  );
  expect([lines, agent.isFailing]).toEqual([['cannot work'], true]);
});
