// The entry of every worker process. Its first statements are the signal handlers, and everything else is imported after
// them: a worker killed by a signal that was meant for the master is a worker lost for nothing, and while SIGUSR1 has no
// handler Node answers it by opening its debugger. (What arrives before these lines kills; the master forks again.)

const hooks = { terminated: false, onTerm: (): void => {}, onReopen: (): void => {} };
for (const name of ['SIGUSR2', 'SIGHUP', 'SIGINT', 'SIGQUIT', 'SIGPIPE']) process.on(name, () => {});
process.on('SIGUSR1', () => hooks.onReopen());
process.on('SIGTERM', () => {
  hooks.terminated = true;
  hooks.onTerm();
});

const [{ runWorker }, { compose, importAll }] = await Promise.all([
  import('./process/worker-life.ts'),
  import('./compose/compose.ts'),
]);
// Of a restart, which asks whether the workers of this build begin at all before it ends those that work.
if (process.argv[2] === '--check') await importAll();
else await runWorker(compose, hooks);

export {};
