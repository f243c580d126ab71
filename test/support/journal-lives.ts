// Random lives of one job, as the journal records them: with rollbacks of the store, so changes belong to
// several timelines, and with rows that a later push or survey found again.

import type { Dice } from '../../scripts/dice.ts';
import type { AttemptRecord } from '../../src/core/job.ts';
import type { Change, ChangedJob, PushedParts } from '../../src/core/job-change.ts';

/** What the store knows of the live job. */
interface Live {
  readonly version: number;
  readonly origin: number;
  readonly dueAt: number;
  readonly failures: number;
  readonly isDead: boolean;
}

const key = { topic: 't', id: '1', place: '5a:0' };
const attempt = {} as AttemptRecord;

/** A push decides them once: all rows of one origin have the same. */
export const pushedBy = (origin: number): PushedParts => ({
  acceptedAt: Math.floor(origin / 1_000),
  priority: 'normal',
  contentType: null,
  extension: null,
  body: bodyOf(origin),
});

const bodies = new Map<number, Buffer>();
function bodyOf(origin: number): Buffer {
  const body = bodies.get(origin) ?? Buffer.from(`body of ${origin}`);
  bodies.set(origin, body);
  return body;
}

/** All changes of a life, in the order of their numbers. */
export function randomLife(dice: Dice): readonly Change[] {
  const changes: Change[] = [];
  let number = 1_000_000;
  let job: Live | null = null;
  const earlier: (Live | null)[] = [null];
  const draw = () => {
    number += 1 + dice.below(3_000);
    return number;
  };
  const dueAt = () => Math.floor(number / 1_000) + dice.below(50);
  const changedOf = (live: Live, its: number): ChangedJob => {
    const { version, origin, dueAt: due, failures } = live;
    return { ...key, number: its, version, origin, dueAt: due, failures };
  };
  const add = (change: Change) => changes.push(change);
  const push = () => {
    const version = draw();
    job = { version, origin: version, dueAt: dueAt(), failures: 0, isDead: false };
    add({ kind: 'accepted', isOwn: true, ...changedOf(job, version), ...pushedBy(version) });
  };
  const find = (live: Live) =>
    add({ kind: 'accepted', isOwn: false, ...changedOf(live, live.version), ...pushedBy(live.origin) });
  const move = (live: Live) => {
    const version = draw();
    job = { ...live, version, dueAt: dueAt(), failures: live.isDead ? 0 : live.failures, isDead: false };
    add({ kind: 'moved', by: live.isDead ? 'requeue' : 'run', isOwn: true, ...changedOf(job, version) });
  };
  const edit = (live: Live) => {
    const origin = draw();
    const version = draw();
    const failures = live.isDead ? 0 : live.failures;
    job = { version, origin, dueAt: dueAt(), failures, isDead: false };
    add({ kind: 'accepted', isOwn: true, ...changedOf(job, version), ...pushedBy(origin) });
  };
  const retry = (live: Live) => {
    job = { ...live, failures: live.failures + 1, dueAt: dueAt() };
    add({ kind: 'retried', isOwn: true, attempt, ...changedOf(job, draw()) });
  };
  const bury = (live: Live) => {
    job = { ...live, failures: live.failures + dice.below(2), isDead: true };
    add({ kind: 'dead', reason: 'no_retry', isOwn: true, attempt, ...changedOf(job, draw()) });
  };
  const end = (live: Live, by: 'done' | 'expired') => {
    job = null;
    add({ kind: 'ended', end: by, isOwn: true, attempt: null, ...changedOf(live, draw()) });
  };
  const cancel = (live: Live, by: 'cancelled' | 'purged' | 'done') => {
    job = null;
    const its = draw();
    add({ kind: 'ended', end: by, isOwn: true, attempt: null, ...changedOf(live, its), version: its });
  };
  const settle = (live: Live) =>
    add({ kind: 'alert', isOwn: false, ...changedOf(live, live.version), place: '' });
  const restore = (live: Live) => {
    const deadAt = live.isDead ? dueAt() : null;
    const reason = live.isDead ? 'no_retry' : null;
    add({ kind: 'restored', isOwn: true, deadAt, reason, ...changedOf(live, draw()) });
  };
  const step = (live: Live) => {
    if (dice.chance(0.2)) return push();
    if (dice.chance(0.15)) return find(live);
    if (dice.chance(0.1)) return restore(live);
    if (dice.chance(0.1)) return cancel(live, dice.pick(['cancelled', 'purged', 'done']));
    if (dice.chance(0.2)) return dice.chance(0.3) ? edit(live) : move(live);
    if (live.isDead) return dice.chance(0.5) ? settle(live) : end(live, 'expired');
    return dice.pick([retry, bury, () => end(live, 'done')])(live);
  };
  for (let left = 1 + dice.below(10); left > 0; left -= 1) {
    // A rollback: the store is what it was some changes before.
    if (dice.chance(0.2)) job = dice.pick(earlier);
    if (job === null) push();
    else step(job);
    earlier.push(job);
  }
  return changes;
}
