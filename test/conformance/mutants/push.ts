// Mistakes of push and cancel.

import { change, type Mutant, mutant } from './mutant.ts';

export const pushMutants: readonly Mutant[] = [
  mutant(
    'replace leaves the old lease in force',
    'push replace: puts a new version in the place of a reserved job',
    (m) =>
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
  mutant('a dead job counts as live', 'push keep: takes a dead job as ended and leaves its alert owed', (m) =>
    change(m, 'push', (right) => (pushed) => {
      const dead = m.inState('dead').find((job) => m.nameOf(job) === m.nameOf(pushed));
      return dead === undefined || pushed.mode === 'replace'
        ? right(pushed)
        : { kind: 'kept', version: dead.version, dueAt: dead.dueAt, state: 'dead' };
    }),
  ),
  mutant(
    'a dead job counts as replaced',
    'push replace: takes a dead job as ended and leaves its alert owed',
    (m) =>
      change(m, 'push', (right) => (pushed) => {
        const known = m.jobs.has(m.nameOf(pushed));
        const outcome = right(pushed);
        return outcome.kind === 'stored' ? { ...outcome, replaced: known } : outcome;
      }),
  ),
  mutant('an instant in the past stays in the past', 'push: takes an instant in the past as now', (m) =>
    change(m, 'push', (right) => (pushed) => {
      const outcome = right(pushed);
      return outcome.kind === 'stored' && 'at' in pushed.when
        ? { ...outcome, dueAt: pushed.when.at }
        : outcome;
    }),
  ),
  mutant(
    'bodies are text',
    'bounds: a body of 0 bytes, of every byte, and of 256 KiB comes back as it was pushed',
    (m) =>
      change(
        m,
        'push',
        (right) => (pushed) => right({ ...pushed, body: Buffer.from(pushed.body.toString()) }),
      ),
  ),
  mutant(
    'no content type becomes an empty one',
    'bounds: the content type is kept as given, and none stays none',
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
