// Ends every run with one line for scripts: "N passed, N failed, N skipped". Before it: one line with the
// tests that had no server, and the reason; one per failure, "failed: FILE > TEST: MESSAGE (FILE:LINE)".
// Where a run has more than vitest (scripts/tests), it writes them to a file, and that run prints them last.
import { writeFileSync } from 'node:fs';
import { relative } from 'node:path';
import type { Reporter, TestModule } from 'vitest/node';
import { printCounts, reportVariable } from '../../scripts/tests/steps.ts';
import { skippedLine } from './services-setup.ts';

interface Failure {
  readonly message: string;
  readonly stacks?: readonly { readonly file: string; readonly line: number }[] | undefined;
}

function failedLine(place: string, errors: readonly Failure[] | undefined): string {
  const [error] = errors ?? [];
  const message = error?.message.split('\n').slice(0, 3).join(' ') ?? 'no error';
  const frames = (error?.stacks ?? []).map(({ file, line }) => `${relative('.', file)}:${line}`);
  const ours = frames.filter((frame) => !frame.startsWith('node_modules'));
  return `failed: ${place}: ${message}${ours.length === 0 ? '' : ` (${ours.join(', ')})`}\n`;
}

export default class SummaryReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly Failure[]): void {
    const count = { passed: 0, failed: unhandled.length, skipped: 0 };
    const failures = unhandled.map((error) => failedLine('outside of a test', [error]));
    for (const module of modules) {
      const before = count.failed;
      for (const test of module.children.allTests()) {
        const { state, errors } = test.result();
        if (state === 'passed' || state === 'failed' || state === 'skipped') count[state] += 1;
        if (state === 'failed')
          failures.push(failedLine(`${module.relativeModuleId} > ${test.fullName}`, errors));
      }
      // A file that failed to load has no tests to count; one whose afterAll failed has only passed ones.
      if (module.state() === 'failed' && count.failed === before) {
        count.failed += 1;
        failures.push(failedLine(module.relativeModuleId, module.errors()));
      }
    }
    const skipped = skippedLine();
    // After the default reporter's own summary, which it writes in the same turn.
    process.once('exit', () => {
      const first = skipped === null ? '' : `${skipped}\n`;
      const report = `${first}${failures.join('')}${printCounts(count)}`;
      const path = process.env[reportVariable];
      if (path === undefined) process.stdout.write(report);
      else writeFileSync(path, report);
    });
  }
}
