// pullForClient pulls jobs for a client that waits on a connection: it keeps the connection open for so long,
// and releases the jobs of a client that has left.
// Invariants: one request of a connection waits at a time. Those that the client sent behind it take no
// place. Jobs are released when their answer cannot be made, or their connection closes before the system has
// taken all of it: no client knows their leases. Later only the lease tells that a client has left.
// Rejected: to read nothing more until it is answered. A socket that is not read does not report its end, and
// the next job would go to a client that has left.

import type { ServerResponse } from 'node:http';
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

/** What `answerOf` makes of the jobs; of none where the client has left. Rejects as that does, and with
 *  DqError unavailable. */
export async function pullForClient<T>(
  puller: Puller,
  response: ServerResponse,
  request: PullRequest,
  answerOf: (pulled: readonly PulledJob[]) => T | Promise<T>,
): Promise<T> {
  const { socket } = response.req;
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
    if (!socket.readable) return await answerOf([]);
    const pulled = await pullNow(puller, socket, request);
    if (pulled.length > 0) releaseUnsent(puller, pulled, response);
    return await puller.answer(pulled, answerOf);
  } finally {
    line.length -= 1;
    end.now();
  }
}

async function pullNow(puller: Puller, socket: Socket, request: PullRequest): Promise<readonly PulledJob[]> {
  const asked = puller.pull(request);
  // The limit for connections without traffic would cut a request that waits.
  socket.setTimeout(request.waitMs + apiLimits.pullSpareMs);
  const { cancel } = asked;
  socket.once('end', cancel).once('close', cancel);
  try {
    return await asked.jobs;
  } finally {
    socket.off('end', cancel).off('close', cancel);
    socket.setTimeout(apiLimits.connectionTimeoutMs);
  }
}

function releaseUnsent(puller: Puller, pulled: readonly PulledJob[], response: ServerResponse): void {
  const { socket } = response.req;
  const release = (): void => puller.release(pulled);
  socket.once('close', release);
  response.once('finish', () => {
    // Node also reports a failed write so.
    if (!socket.destroyed && socket.errored === null) socket.off('close', release);
  });
}
