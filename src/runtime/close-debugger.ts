// Closes the debugger that Node opens at a SIGUSR1 while nobody has a handler for it yet: in the first 30 to 60 ms of a process,
// which no line of ours precedes. Whoever on this machine reaches its port may do what dq may do.

/** Once handlers are there and before others rely on this process. One that was asked for by name stays. */
export async function closeDebugger(): Promise<void> {
  const asked = [...process.execArgv, process.env['NODE_OPTIONS'] ?? ''].some((text) =>
    text.includes('--inspect'),
  );
  if (asked || !process.features.inspector) return;
  const { close, url } = await import('node:inspector');
  if (url() !== undefined) close();
}
