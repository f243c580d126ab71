// Closes the debugger that Node opens at a SIGUSR1 in the first 30 to 60 ms of a process, before dq can
// install a handler. Every local user who reaches its port has the rights of dq.

/** Called once after the handlers are installed. Keeps a debugger that --inspect requested. */
export async function closeDebugger(): Promise<void> {
  const asked = [...process.execArgv, process.env['NODE_OPTIONS'] ?? ''].some((text) =>
    text.includes('--inspect'),
  );
  if (asked || !process.features.inspector) return;
  const { close, url } = await import('node:inspector');
  if (url() !== undefined) close();
}
