// Ends every run with one line for scripts: "N passed, N failed, N skipped"; before it, one with the tests
// that had no server, and the reason.
import type { Reporter, TestModule } from 'vitest/node';
import { skippedLine } from './services-setup.ts';

export default class SummaryReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly unknown[]): void {
    const count = { passed: 0, failed: unhandled.length, skipped: 0 };
    for (const module of modules) {
      const before = count.failed;
      for (const test of module.children.allTests()) {
        const { state } = test.result();
        if (state === 'passed' || state === 'failed' || state === 'skipped') count[state] += 1;
      }
      // A file that failed to load has no tests to count.
      if (module.state() === 'failed' && count.failed === before) count.failed += 1;
    }
    const skipped = skippedLine();
    // After the default reporter's own summary, which it writes in the same turn.
    process.once('exit', () => {
      if (skipped !== null) process.stdout.write(`${skipped}\n`);
      process.stdout.write(`${count.passed} passed, ${count.failed} failed, ${count.skipped} skipped\n`);
    });
  }
}
