// Mistakes of push and cancel.

import { change, type Mutant, mutant } from './mutant.ts';

export const pushMutants: readonly Mutant[] = [
  mutant(
    'push stores a number that no record holds',
    'push: an item with a number that no store can keep fails alone',
    (m) =>
      change(m, 'push', (right) => (job) => {
        const isBad = !Number.isFinite(m.dueWhen(job.when));
        return right(isBad ? { ...job, when: { delayMs: 0 } } : job);
      }),
  ),
  mutant('replace leaves the old lease in force', 'push replace: replaces a reserved job', (m) =>
    change(m, 'push', (right) => (pushed) => {
      const old = m.jobs.get(m.nameOf(pushed));
      const outcome = right(pushed);
      const job = m.jobs.get(m.nameOf(pushed));
      if (old?.state === 'reserved' && job !== undefined)
        Object.assign(job, { state: old.state, lease: old.lease, version: old.version });
      return outcome;
    }),
  ),
  ...(['keep', 'reject'] as const).map((mode) =>
    mutant(`${mode} replaces`, `push ${mode}: leaves a delayed job as it was`, (m) =>
      change(
        m,
        'push',
        (right) => (pushed) => (pushed.mode === mode ? right({ ...pushed, mode: 'replace' }) : right(pushed)),
      ),
    ),
  ),
  mutant('a dead job counts as live', 'push keep: replaces a dead job; its alert stays owed', (m) =>
    change(m, 'push', (right) => (pushed) => {
      const dead = m.inState('dead').find((job) => m.nameOf(job) === m.nameOf(pushed));
      return dead === undefined || pushed.mode === 'replace'
        ? right(pushed)
        : { kind: 'kept', version: dead.version, dueAt: dead.dueAt, state: 'dead' };
    }),
  ),
  mutant('a dead job counts as replaced', 'push replace: replaces a dead job; its alert stays owed', (m) =>
    change(m, 'push', (right) => (pushed) => {
      const known = m.jobs.has(m.nameOf(pushed));
      const outcome = right(pushed);
      return outcome.kind === 'stored' ? { ...outcome, replaced: known } : outcome;
    }),
  ),
  mutant(
    'an id of the shape of generated ones counts as new',
    'push replace: replaces jobs with ids of the shape of generated ones',
    (m) =>
      change(m, 'push', (right) => (pushed) => {
        const outcome = right(pushed);
        const isGenerated = pushed.id.length === 36 && pushed.id[14] === '7';
        return isGenerated && outcome.kind === 'stored' ? { ...outcome, replaced: false } : outcome;
      }),
  ),
  mutant('an instant in the past stays in the past', 'push: clamps a past instant to now', (m) =>
    change(m, 'push', (right) => (pushed) => {
      const outcome = right(pushed);
      return outcome.kind === 'stored' && 'at' in pushed.when
        ? { ...outcome, dueAt: pushed.when.at }
        : outcome;
    }),
  ),
  mutant('bodies are text', 'bounds: bodies of 0 bytes, all bytes and 256 KiB stay unchanged', (m) =>
    change(m, 'push', (right) => (pushed) => right({ ...pushed, body: Buffer.from(pushed.body.toString()) })),
  ),
  mutant(
    'an absent content type becomes an empty one',
    'bounds: content types stay unchanged, also an absent one',
    (m) =>
      change(m, 'push', (right) => (pushed) => right({ ...pushed, contentType: pushed.contentType ?? '' })),
  ),
  mutant('a delay is kept in 31 bits', 'bounds: the longest delay is kept', (m) =>
    change(
      m,
      'push',
      (right) => (pushed) =>
        right(
          'at' in pushed.when ? pushed : { ...pushed, when: { delayMs: pushed.when.delayMs & 0x7fff_ffff } },
        ),
    ),
  ),
  mutant('cancel leaves the lease', 'cancel: removes a reserved job', (m) =>
    change(m, 'cancel', (right) => (key) => {
      const job = m.jobs.get(m.nameOf(key));
      return job?.state === 'reserved' ? { kind: 'cancelled', inFlight: true } : right(key);
    }),
  ),
  mutant('cancel spares the dead', 'cancel: removes a dead job', (m) =>
    change(
      m,
      'cancel',
      (right) => (key) => (m.jobs.get(m.nameOf(key))?.state === 'dead' ? { kind: 'absent' } : right(key)),
    ),
  ),
];
