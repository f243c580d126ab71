// pullForClient pulls jobs for a client that waits on a connection: it keeps the connection open for so long,
// and releases the jobs of a client that has left.

import type { Socket } from 'node:net';
import { apiLimits } from '../../api/limits.ts';
import type { PulledJob, Puller, PullRequest } from './puller.ts';

/** Empty where the client has left. Rejects with DqError unavailable. */
export async function pullForClient(
  puller: Puller,
  socket: Socket,
  request: PullRequest,
): Promise<readonly PulledJob[]> {
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
