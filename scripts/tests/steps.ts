// Runs programs of a test run, several at once. The output of each stands together, and a failed one has a
// line.

import { spawn } from 'node:child_process';
import { once } from 'node:events';

export interface Step {
  readonly name: string;
  /** program and arguments, with spaces between them */
  readonly command: string;
}

/** Names the file that gets the report of vitest (test/support/summary-reporter.ts). */
export const reportVariable = 'DQ_TEST_REPORT';

/** What vitest counts. */
export interface Counts {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
}

const countsLine = /^(\d+) passed, (\d+) failed, (\d+) skipped$/;

export const printCounts = ({ passed, failed, skipped }: Counts): string =>
  `${passed} passed, ${failed} failed, ${skipped} skipped\n`;

/** The report of the tests with these failed steps: their lines, and they count in its last line. A report
 *  without such a line is of tests that did not end: one more failure. */
export function withFailed(report: string, failed: readonly string[]): string {
  const lines = report.split('\n').filter((line) => line !== '');
  const counts = countsLine
    .exec(lines.at(-1) ?? '')
    ?.slice(1)
    .map(Number);
  const others = counts === undefined ? lines : lines.slice(0, -1);
  const [passed = 0, its = 1, skipped = 0] = counts ?? [];
  const text = [...others, ...failed].map((line) => `${line}\n`).join('');
  return text + printCounts({ passed, failed: its + failed.length, skipped });
}

/** Each lane runs one step after another, all to their ends. Returns the lines of those that failed.
 *  @param print - gets the output of each step that ended */
export async function runSteps(
  steps: readonly Step[],
  lanes: number,
  print: (text: string) => void,
): Promise<readonly string[]> {
  const left = [...steps];
  const failed: string[] = [];
  const lane = async () => {
    for (let step = left.shift(); step !== undefined; step = left.shift()) {
      const began = performance.now();
      const { output, why } = await run(step);
      if (why !== null) failed.push(`failed: ${step.name}: ${step.command}: ${why}`);
      const seconds = ((performance.now() - began) / 1_000).toFixed(1);
      print(`${output}${step.name}: ${why ?? 'passed'}, ${seconds} s\n`);
    }
  };
  await Promise.all(Array.from({ length: lanes }, lane));
  return failed;
}

/** `why`: null when it succeeded. */
async function run({ command }: Step): Promise<{ readonly output: string; readonly why: string | null }> {
  const [program = '', ...args] = command.split(' ');
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
  try {
    const [code, signal] = (await once(child, 'close')) as [number | null, string | null];
    return { output, why: code === 0 ? null : `exit code ${code ?? signal}` };
  } catch (error) {
    return { output, why: String(error) };
  }
}
