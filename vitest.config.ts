import { configDefaults, defineConfig } from 'vitest/config';

/** Not part of `npm test`: faults, failovers, kills, long random runs, and system tests that wait for real time limits. */
const slow = [
  'test/fault/*.test.ts',
  'test/conformance/{mutants,random-operations,redis-groups,redis-random,redis-shards}.test.ts',
  'test/system/{bench,clocks,copied-directory,crash-loop,dead-requeue,fuzz-http,hung-names,instances}.test.ts',
  'test/system/{many-topics,mysql,neighbours,process-death,reload,reload-*,restart,secrets,shards}.test.ts',
  'test/system/{signals,silent-workers,standing-still,stop}.test.ts',
];
const all = ['test/**/*.test.ts'];

// Without --mode every test can be named: `npx vitest run test/fault/kill.test.ts`.
export default defineConfig(({ mode }) => ({
  // As the build does: a script is the text of its file.
  plugins: [
    {
      name: 'lua-as-text',
      transform: (code, id) => (id.endsWith('.lua') ? `export default ${JSON.stringify(code)}` : null),
    },
  ],
  test: {
    include: mode === 'slow' ? slow : all,
    exclude: mode === 'main' ? [...configDefaults.exclude, ...slow] : configDefaults.exclude,
    globalSetup: ['./test/support/services-setup.ts'],
    // Each file in a process of its own: tests start daemons, and a crash of one file must not take others along.
    pool: 'forks',
    // Twice the cores of a small machine: most of what tests do is waiting for processes, sockets and leases.
    maxWorkers: 4,
    // Deadlines, and no measure of anything: a machine that is slow, or has other work, takes many times what a quiet one does.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    reporters: ['default', './test/support/summary-reporter.ts'],
  },
}));
