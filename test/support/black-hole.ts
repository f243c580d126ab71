// A port that accepts no connection: the queue of a stopped process is full, so the kernel drops further
// ones. To a caller the machine looks unreachable.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { onTestFinished } from 'vitest';

const standStill = `
  require('node:net').createServer().listen({ port: 0, host: '127.0.0.1', backlog: 1 }, function () {
    require('node:fs').writeSync(1, String(this.address().port));
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
  });`;

/** Its URL. */
export async function startBlackHole(): Promise<string> {
  const child = spawn(process.execPath, ['-e', standStill], { stdio: ['ignore', 'pipe', 'inherit'] });
  onTestFinished(async () => {
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    await ended;
  });
  const [firstLine] = (await once(child.stdout, 'data')) as [Buffer];
  const port = Number(firstLine.toString());
  // Two fit; the kernel drops the others.
  const queued = Array.from({ length: 6 }, () => connect({ port, host: '127.0.0.1' }));
  onTestFinished(() => {
    for (const socket of queued) socket.destroy();
  });
  for (const socket of queued) socket.on('error', () => {});
  await Promise.all(queued.slice(0, 2).map((socket) => once(socket, 'connect')));
  return `http://127.0.0.1:${port}/`;
}
