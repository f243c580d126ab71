// pullForClient pulls jobs for a client that waits on a connection: it keeps the connection open for so long,
// and releases the jobs of a client that has left.
// Invariant: one request of a connection waits at a time. Those that the client sent behind it take no place.
// Rejected: to read nothing more until it is answered. A socket that is not read does not report its end, and
// the next job would go to a client that has left.

import type { Socket } from 'node:net';
import { apiLimits } from '../../api/limits.ts';
import { DqError } from '../../core/errors.ts';
import { pullLimits } from './limits.ts';
import type { PulledJob, Puller, PullRequest } from './puller.ts';

/** The pulls of a connection, in order. */
interface Line {
  length: number;
  /** resolves with the end of the last one */
  end: Promise<void>;
}

const lines = new WeakMap<Socket, Line>();

/** Empty where the client has left. Rejects with DqError unavailable. */
export async function pullForClient(
  puller: Puller,
  socket: Socket,
  request: PullRequest,
): Promise<readonly PulledJob[]> {
  const line = lines.get(socket) ?? { length: 0, end: Promise.resolve() };
  lines.set(socket, line);
  if (line.length > pullLimits.pipelinedMax)
    throw new DqError(
      'unavailable',
      `pull: ${line.length} requests of this connection wait already; send one after the other`,
    );
  line.length += 1;
  const before = line.end;
  const end = { now: () => {} };
  line.end = new Promise((resolve) => {
    end.now = resolve;
  });
  try {
    if (line.length > 1) await before;
    return socket.destroyed ? [] : await pullNow(puller, socket, request);
  } finally {
    line.length -= 1;
    end.now();
  }
}

async function pullNow(puller: Puller, socket: Socket, request: PullRequest): Promise<readonly PulledJob[]> {
  const asked = puller.pull(request);
  // The limit for connections without traffic would cut a request that waits.
  socket.setTimeout(request.waitMs + apiLimits.pullSpareMs);
  const onClose = (): void => asked.cancel();
  socket.once('close', onClose);
  try {
    const pulled = await asked.jobs;
    if (!socket.destroyed) return pulled;
    puller.release(pulled);
    return [];
  } finally {
    socket.removeListener('close', onClose);
    socket.setTimeout(apiLimits.connectionTimeoutMs);
  }
}
