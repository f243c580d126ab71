// The entry of every worker process. Installs the signal handlers first and imports everything else after
// them: without a handler a signal meant for the master kills a worker, and at SIGUSR1 Node opens its
// debugger. A signal that arrives before these lines kills the process; the master starts another one.

const hooks = { terminated: false, onTerm: (): void => {}, onReopen: (): void => {} };
for (const name of ['SIGUSR2', 'SIGHUP', 'SIGINT', 'SIGQUIT', 'SIGPIPE']) process.on(name, () => {});
process.on('SIGUSR1', () => hooks.onReopen());
process.on('SIGTERM', () => {
  hooks.terminated = true;
  hooks.onTerm();
});

async function main(): Promise<void> {
  const [{ runWorker }, { compose, importAll }] = await Promise.all([
    import('./process/worker-life.ts'),
    import('./compose/compose.ts'),
  ]);
  // --check: `dq restart` checks that the workers of this build can start before it ends the running ones.
  if (process.argv[2] === '--check') await importAll();
  else await runWorker(compose, hooks);
}

// No await: the bundle is CommonJS. A rejection ends the process as an exception does.
void main();

export {};
