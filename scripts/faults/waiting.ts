// Waits for conditions with a deadline.
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

const pollMs = 20;

/** Resolves to the first value that is not null or false, or to null after the deadline. An exception counts
 *  as not yet. */
export async function waitFor<T>(
  condition: () => T | null | false | Promise<T | null | false>,
  deadlineMs: number,
): Promise<T | null> {
  const end = performance.now() + deadlineMs;
  for (;;) {
    try {
      const value = await condition();
      if (value !== null && value !== false) return value;
    } catch {
      // Not yet.
    }
    if (performance.now() > end) return null;
    await sleep(pollMs);
  }
}

/** No process listens on the port of this machine. */
export function isPortClosed(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => {
      socket.destroy();
      resolve(false);
    });
    socket.once('error', (error: NodeJS.ErrnoException) => resolve(error.code === 'ECONNREFUSED'));
  });
}
