// The steps of a test run: what they print, and how failed ones count.
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { runSteps, type Step, withFailed } from '../../scripts/tests/steps.ts';
import { testDirectory } from '../support/directory.ts';

const prints = (text: string, code = 0): Step => ({
  name: text,
  command: `node -e console.log("${text}");process.exit(${code})`,
});

async function outputOf(...steps: readonly Step[]) {
  const printed: string[] = [];
  const failed = await runSteps(steps, 1, (text) => printed.push(text.replace(/[\d.]+ s$/m, 'N s')));
  return { printed, failed };
}

describe('steps', () => {
  it('a failed one has its output and a line, and the others run, too', async () => {
    const steps = [prints('style', 3), { name: 'types', command: 'no-such-program' }, prints('build')];
    expect(await outputOf(...steps)).toEqual({
      printed: [
        'style\nstyle: exit code 3, N s\n',
        'types: Error: spawn no-such-program ENOENT, N s\n',
        'build\nbuild: passed, N s\n',
      ],
      failed: [
        `failed: style: ${steps[0]?.command}: exit code 3`,
        'failed: types: no-such-program: Error: spawn no-such-program ENOENT',
      ],
    });
  });

  it('two lanes run two at once', async () => {
    // Each end of a pipe waits for the other.
    const pipe = join(testDirectory(), 'pipe');
    execFileSync('mkfifo', [pipe]);
    const steps = [
      { name: 'reader', command: `timeout 60 cat ${pipe}` },
      { name: 'writer', command: `timeout 60 cp /dev/null ${pipe}` },
    ];
    expect(await runSteps(steps, 2, () => {})).toEqual([]);
  });
});

describe('report', () => {
  it.each([
    ['a\n3 passed, 1 failed, 2 skipped\n', [], 'a\n3 passed, 1 failed, 2 skipped\n'],
    [
      '3 passed, 0 failed, 2 skipped\n',
      ['failed: worlds'],
      'failed: worlds\n3 passed, 1 failed, 2 skipped\n',
    ],
    // vitest did not end.
    ['', ['failed: worlds'], 'failed: worlds\n0 passed, 2 failed, 0 skipped\n'],
  ])('%j with %j', (report, failed, text) => expect(withFailed(report, failed)).toBe(text));
});
