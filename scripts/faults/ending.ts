// Waits at the end of a run until nothing is left to deliver, and adds the state of the store to the history.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Daemon } from './daemon.ts';
import type { Event, History } from './history.ts';
import { waitFor } from './waiting.ts';

const pageSize = 500;
const fsckMsMax = 300_000;
const pollMs = 500;
/** A change of a record that was not answered may be in Redis and not in the journal: invariant J1. */
const allowedProblem = 'J1';

/** Waits until no job is stored beside dead letters, and `isComplete` says that every job has its end. */
export async function drain(
  daemon: Daemon,
  history: History,
  deadlineMs: number,
  isComplete: (events: readonly Event[]) => boolean,
): Promise<void> {
  const end = performance.now() + deadlineMs;
  let left = Number.NaN;
  for (;;) {
    const isReady = await daemon.isReady().catch(() => false);
    left = await jobsLeft(daemon).catch(() => Number.NaN);
    if (isReady && left === 0 && isComplete([...history.read(), ...(await deadEvents(daemon))])) break;
    if (performance.now() > end) break;
    await sleep(pollMs);
  }
  history.add({ kind: 'drained', left: Number.isNaN(left) ? -1 : left });
  for (const { id, reason } of await deadLetters(daemon)) history.add({ kind: 'dead', id, reason });
  for (const problem of await fsck(daemon)) history.add({ kind: 'fsck', problem });
}

async function jobsLeft(daemon: Daemon): Promise<number> {
  const { body } = await daemon.api('GET', '/v1/stats');
  const { delayed, ready, reserved } = body.states as Record<string, number>;
  return (delayed ?? 0) + (ready ?? 0) + (reserved ?? 0);
}

interface DeadLetter {
  readonly id: string;
  readonly reason: string;
}

async function deadLetters(daemon: Daemon): Promise<readonly DeadLetter[]> {
  const found: DeadLetter[] = [];
  for (let cursor: string | null = ''; cursor !== null; ) {
    const page: string = cursor === '' ? '' : `&cursor=${encodeURIComponent(cursor)}`;
    const { status, body } = await daemon.api('GET', `/v1/dead?limit=${pageSize}${page}`);
    if (status !== 200) throw new Error(`GET /v1/dead: ${status} ${JSON.stringify(body)}`);
    found.push(...(body.items as readonly DeadLetter[]));
    cursor = body.nextCursor as string | null;
  }
  return found;
}

async function deadEvents(daemon: Daemon): Promise<readonly Event[]> {
  const letters = await deadLetters(daemon).catch(() => []);
  return letters.map(({ id, reason }) => ({ kind: 'dead', id, reason, at: 0, wall: 0 }));
}

async function fsck(daemon: Daemon): Promise<readonly string[]> {
  await daemon.api('POST', '/v1/fsck');
  const found = await waitFor(async () => {
    const { body } = await daemon.api('GET', '/v1/fsck');
    return body.state === 'running' ? null : body;
  }, fsckMsMax);
  if (found?.state !== 'done') return [`fsck did not end: ${JSON.stringify(found)}`];
  const problems = found.problems as readonly { readonly invariant: string }[];
  return problems
    .filter(({ invariant }) => invariant !== allowedProblem)
    .map((problem) => JSON.stringify(problem));
}
