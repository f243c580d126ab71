// Mistakes of push and cancel.

import { change, type Mutant, mutant, mutants } from './mutant.ts';

export const pushMutants: readonly Mutant[] = [
  ...mutants({
    'push: an item with a number that no store can keep fails alone': {
      'push stores a number that no record holds': change('push', (right, m) => (job) => {
        const isBad = !Number.isFinite(m.dueWhen(job.when));
        return right(isBad ? { ...job, when: { delayMs: 0 } } : job);
      }),
    },
    'push replace: replaces a reserved job': {
      'replace leaves the old lease in force': change('push', (right, m) => (pushed) => {
        const old = m.jobs.get(m.nameOf(pushed));
        const outcome = right(pushed);
        const job = m.jobs.get(m.nameOf(pushed));
        if (old?.state === 'reserved' && job !== undefined)
          Object.assign(job, { state: old.state, lease: old.lease, version: old.version });
        return outcome;
      }),
    },
    'push keep: replaces a dead job; its alert stays owed': {
      'a dead job counts as live': change('push', (right, m) => (pushed) => {
        const dead = m.inState('dead').find((job) => m.nameOf(job) === m.nameOf(pushed));
        return dead === undefined || pushed.mode === 'replace'
          ? right(pushed)
          : { kind: 'kept', version: dead.version, dueAt: dead.dueAt, state: 'dead' };
      }),
    },
    'push replace: replaces a dead job; its alert stays owed': {
      'a dead job counts as replaced': change('push', (right, m) => (pushed) => {
        const known = m.jobs.has(m.nameOf(pushed));
        const outcome = right(pushed);
        return outcome.kind === 'stored' ? { ...outcome, replaced: known } : outcome;
      }),
    },
    'push replace: replaces jobs with ids of the shape of generated ones': {
      'an id of the shape of generated ones counts as new': change('push', (right) => (pushed) => {
        const outcome = right(pushed);
        const isGenerated = pushed.id.length === 36 && pushed.id[14] === '7';
        return isGenerated && outcome.kind === 'stored' ? { ...outcome, replaced: false } : outcome;
      }),
    },
    'push: clamps a past instant to now': {
      'an instant in the past stays in the past': change('push', (right) => (pushed) => {
        const outcome = right(pushed);
        return outcome.kind === 'stored' && 'at' in pushed.when
          ? { ...outcome, dueAt: pushed.when.at }
          : outcome;
      }),
    },
    'push with a window: a job that is done stays so, in every mode': {
      'the window holds for one mode': change(
        'push',
        (right) => (pushed) => right(pushed.mode === 'replace' ? { ...pushed, windowMs: 0 } : pushed),
      ),
      'the window counts from the due time': change('lastEnd', (right) => (key) => {
        const last = right(key);
        return last === null ? null : { ...last, endedAt: last.dueAt - 1 };
      }),
      'the window includes its last moment': change(
        'push',
        (right) => (pushed) => right({ ...pushed, windowMs: (pushed.windowMs ?? -1) + 1 }),
      ),
    },
    'push with a window: a job that is dead stays so, in every mode': {
      'a dead letter does not count as an end': change(
        'lastEnd',
        (right) => (key) => (right(key)?.state === 'dead' ? null : right(key)),
      ),
    },
    'push with a window: a job that is cancelled stays so, in every mode': {
      'a cancelled job may be pushed again': change(
        'lastEnd',
        (right) => (key) => (right(key)?.state === 'cancelled' ? null : right(key)),
      ),
    },
    'push with a window: an id that is purged is free': {
      'a purge counts as an end': change('lastEnd', (right) => (key) => {
        const last = right(key);
        return last?.state === 'purged' ? { ...last, state: 'done' } : last;
      }),
    },
    'push with a window: an id that is expired is free': {
      'the removal of a dead letter counts as an end': change('lastEnd', (right) => (key) => {
        const last = right(key);
        return last?.state === 'expired' ? { ...last, state: 'dead' } : last;
      }),
    },
    'push with a window: an end further ahead of the clock than the window does not count': {
      'an end ahead of the clock is one of now': change('lastEnd', (right, model) => (key) => {
        const last = right(key);
        return last === null ? null : { ...last, endedAt: Math.min(last.endedAt, model.now()) };
      }),
    },
    'push without a window: stores the job right after the end of its id': {
      'every push has a window': change(
        'push',
        (right) => (pushed) => right({ ...pushed, windowMs: pushed.windowMs ?? 1 }),
      ),
    },
    'bounds: bodies of 0 bytes, all bytes and 256 KiB stay unchanged': {
      'bodies are text': change(
        'push',
        (right) => (pushed) => right({ ...pushed, body: Buffer.from(pushed.body.toString()) }),
      ),
    },
    'bounds: content types stay unchanged, also an absent one': {
      'an absent content type becomes an empty one': change(
        'push',
        (right) => (pushed) => right({ ...pushed, contentType: pushed.contentType ?? '' }),
      ),
    },
    'bounds: the longest delay is kept': {
      'a delay is kept in 31 bits': change(
        'push',
        (right) => (pushed) =>
          right(
            'at' in pushed.when
              ? pushed
              : { ...pushed, when: { delayMs: pushed.when.delayMs & 0x7fff_ffff } },
          ),
      ),
    },
    'cancel: removes a reserved job': {
      'cancel leaves the lease': change('cancel', (right, m) => (key) => {
        const job = m.jobs.get(m.nameOf(key));
        return job?.state === 'reserved' ? { kind: 'cancelled', inFlight: true } : right(key);
      }),
    },
    'cancel: removes a dead job': {
      'cancel spares the dead': change(
        'cancel',
        (right, m) => (key) =>
          m.jobs.get(m.nameOf(key))?.state === 'dead' ? { kind: 'absent' } : right(key),
      ),
    },
  }),
  ...(['keep', 'reject'] as const).map((mode) =>
    mutant(
      `${mode} replaces`,
      `push ${mode}: leaves a delayed job as it was`,
      change(
        'push',
        (right) => (pushed) => (pushed.mode === mode ? right({ ...pushed, mode: 'replace' }) : right(pushed)),
      ),
    ),
  ),
];
