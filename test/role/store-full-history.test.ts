// Tests what is left of ended jobs on a full disk. The space of the file is scripted: the disk is full from
// the first call on. Full disks under a whole store are in test/fault/store-full-disk.test.ts.

import { expect, it, onTestFinished } from 'vitest';
import { tickId } from '../../src/core/job-id.ts';
import { limits } from '../../src/core/limits.ts';
import { type EngineOptions, type EngineSpace, openEngine } from '../../src/store/sqlite/engine/engine.ts';
import { sqliteLimits } from '../../src/store/sqlite/limits.ts';
import { attemptOf, jobOf, leaseOf, request } from '../conformance/trial.ts';
import { numbers } from '../support/producing.ts';
import { memoryDirectory, ownerPaths } from '../support/sqlite-store.ts';

const space: EngineSpace = {
  wal: { allocate() {}, checkpoint() {}, freeze: () => () => {}, close() {} },
  reserve: { missing: 1, fits: () => false, add() {}, free() {} },
};
const tick = (n: number) => tickId('s', Date.UTC(2030, 0, 1) + n * 1_000);

function opened(more: EngineOptions = {}) {
  const directory = memoryDirectory();
  const clock = { ms: Date.UTC(2030, 0, 1), monotonic: 0 };
  const engine = openEngine(ownerPaths(directory.path).path, {
    ...{ space, clock: () => clock.ms, monotonic: () => clock.monotonic, clockHoldMs: 0 },
    ...more,
  });
  onTestFinished(() => {
    engine.close();
    directory.remove();
  });
  const write = <T>(step: () => T): T => {
    engine.begin('normal');
    const result = step();
    engine.commit();
    return result;
  };
  return {
    engine,
    write,
    jump: (ms: number) => {
      clock.ms += ms;
    },
    pass: (ms: number) => {
      clock.ms += ms;
      clock.monotonic += ms;
    },
    push: (...ids: readonly string[]) => write(() => ids.map((id) => engine.push(jobOf(id)))),
    /** as DiskReserveKeeper does each second */
    restore: () => engine.restoreDiskReserve(),
    cancel: (...ids: readonly string[]) => write(() => ids.map((id) => engine.cancel({ topic: 't', id }))),
    ended: () =>
      engine.db
        .prepare(
          'SELECT CAST(id AS TEXT) AS id FROM job WHERE ended_at IS NOT NULL ORDER BY ended_at, version',
        )
        .all()
        .map((row) => (row as { id: string }).id),
  };
}

it('full disk: forgets history entries, not ends of schedules that are younger than 10 minutes', () => {
  const { push, pass, cancel, restore, ended } = opened();
  push('old', 'young', tick(1), tick(2), tick(3));
  cancel('old', tick(1));
  pass(1);
  cancel(tick(2));
  pass(limits.tickHistoryMs);
  cancel('young', tick(3));
  restore();
  expect(ended()).toEqual([tick(2), tick(3)]);
});

it('full disk: forgets what follows many ends of schedules', () => {
  const { push, cancel, restore, ended } = opened();
  const { diskFullForgetSteps, diskFullStepMax } = sqliteLimits;
  const ticks = numbers(diskFullForgetSteps * diskFullStepMax).map(tick);
  push(...ticks, 'last', 'later');
  cancel(...ticks, 'last');
  restore();
  restore();
  expect(ended()).toEqual(ticks);
  // From the beginning again.
  cancel('later');
  restore();
  restore();
  expect(ended()).toEqual(ticks);
});

it('full disk: forgets no end of a schedule after a jump of the clock', () => {
  const { push, jump, cancel, restore, ended } = opened({ clockHoldMs: sqliteLimits.clockHoldMs });
  push('1', tick(1));
  cancel('1', tick(1));
  jump(2 * sqliteLimits.clockJumpMs);
  restore();
  expect(ended()).toEqual([tick(1)]);
});

it('full disk: ended jobs leave no entry, those of schedules one without its attempt', () => {
  const { engine, write, push, ended } = opened();
  push('1', tick(1));
  engine.freeDiskReserve();
  const { jobs } = write(() => engine.moves.reserve(request(2)));
  write(() => jobs.map((job) => engine.ack({ ...leaseOf(job), attempt: attemptOf(job) })));
  expect(ended()).toEqual([tick(1)]);
  expect(engine.history.get({ topic: 't', id: tick(1) })).toMatchObject({ state: 'done', attempts: [] });
});
