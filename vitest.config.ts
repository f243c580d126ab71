import { configDefaults, defineConfig } from 'vitest/config';

/** Not part of `npm test`: what a newcomer's change seldom breaks, or what takes minutes. */
const slow = [
  // Kills, full disks, broken networks
  'test/fault/*.test.ts',
  'test/role/{endpoints-broken,endpoints-kept,intake-failures,notifier-neighbours,store-death,store-outage}.test.ts',
  // The suite again on further stores, mutants and long random runs
  'test/conformance/{mutants,random-operations,redis-groups,redis-random,redis-shards}.test.ts',
  'test/role/{intake-bad-input,registry-mysql}.test.ts',
  // Daemons that wait for real limits, that reload, or that share servers
  'test/system/{bench,clocks,copied-directory,crash-loop,dead-requeue,first-start,fuzz-http,hung-names}.test.ts',
  'test/system/{instances,many-topics,mysql,neighbours,package,process-death,reload,reload-*,restart}.test.ts',
  'test/system/{secrets,service,shards,signals,silent-workers,standing-still,stop,systemd}.test.ts',
];
const all = ['test/**/*.test.ts'];

// Without --mode every test can be named: `npx vitest run test/fault/kill.test.ts`.
export default defineConfig(({ mode }) => ({
  // As in the build: a script is the text of its file.
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
    // Deadlines, not measurements: a slow or busy machine takes many times as long as a quiet one.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    reporters: ['default', './test/support/summary-reporter.ts'],
  },
}));
