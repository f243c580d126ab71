import { defineConfig } from 'vitest/config';

export default defineConfig({
  // As the build does: a script is the text of its file.
  plugins: [
    {
      name: 'lua-as-text',
      transform: (code, id) => (id.endsWith('.lua') ? `export default ${JSON.stringify(code)}` : null),
    },
  ],
  test: {
    include: ['test/**/*.test.ts'],
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
});
