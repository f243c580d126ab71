// The wait of dq start -d and dq restart for a daemon that is not ready at once.

import { expect, it, onTestFinished, vi } from 'vitest';
import { untilReady } from '../../src/cli/daemon/readiness.ts';
import { exitCodes } from '../../src/cli/exit.ts';
import { useJumpingTime } from '../support/jumping-time.ts';

/** A daemon that gives these reasons, then the last answer for ever; null: it is ready. */
async function daemonThatSays(reasons: readonly (string | null)[]) {
  const time = useJumpingTime();
  const left = [...reasons];
  const look = async () => {
    const why = (left.length > 1 ? left.shift() : left[0]) ?? null;
    return { why, warnings: why === null ? ['careful'] : [] };
  };
  const lines: string[] = [];
  vi.spyOn(process.stderr, 'write').mockImplementation((text) => lines.push(String(text)) > 0);
  onTestFinished(() => void vi.restoreAllMocks());
  const end = await time.outlast(untilReady('http://127.0.0.1:1', '/nowhere', look));
  return { end, lines: lines.join('') };
}

it('waits while the daemon reads its registry, and prints each reason once', async () => {
  expect(await daemonThatSays(['registry: no answer', 'registry: no answer', 'store: starts', null])).toEqual(
    {
      end: null,
      lines:
        'dq: not ready yet: registry: no answer\ndq: not ready yet: store: starts\ndq: warning: careful\n',
    },
  );
});

it('ends with the last reason', async () => {
  const { end } = await daemonThatSays(['registry: no answer', 'store: ECONNREFUSED']);
  expect(end).toMatchObject({
    exitCode: exitCodes.notReady,
    message: 'the daemon runs, and is not ready: store: ECONNREFUSED',
  });
});
