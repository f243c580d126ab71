// Defines each request of the socket: read from its frame, run on the engine, written as its answer. One
// entry per kind. Owns no transaction: `needs` tells group.ts which kind the request needs.

import type { VersionedKey } from '../../../core/job.ts';
import type {
  CancelOutcome,
  ExtendItem,
  ExtendOutcome,
  PushJob,
  PushOutcome,
  RequeueOutcome,
  RunOutcome,
} from '../../../ports/job-store.ts';
import type { StoreFailure } from '../../../ports/store-error.ts';
import type { Engine } from '../engine/engine.ts';
import { KnownCapacities } from '../wire/capacity-delta.ts';
import {
  readAck,
  readBury,
  readEndingLease,
  readExtend,
  readKey,
  readPush,
  readReschedule,
  readReserveRequest,
  readRetry,
  readVersionedKey,
  writeCancelOutcome,
  writeExtended,
  writeFinish,
  writePushOutcome,
  writeReserved,
  writeSnapshot,
} from '../wire/messages.ts';
import { kinds, ProtocolError, type Reader, type Writer } from '../wire/protocol.ts';

/** `read`: none · `normal`: a power cut may undo it, at the cost of a duplicate · `full`: synced before the
 *  answer. */
export type Needs = 'read' | 'normal' | 'full';

/** Runs items one by one; a careful transaction gives each a savepoint, so that a failure concerns one
 *  item. */
export type Each = <I, O>(items: readonly I[], one: (item: I) => O) => (O | StoreFailure)[];

/** One decoded request. */
export interface Work {
  readonly needs: Needs;
  /** length of a list; otherwise 1 */
  readonly items: number;
  /** a list: run() writes only through `each`, so that every item may have its own transaction */
  readonly isList: boolean;
  /** Grows the store: rejected while the disk is full. */
  readonly isPush: boolean;
  /** A step of bulk work: runs in its own transaction, so that other answers do not wait for its writes. */
  readonly isBulk: boolean;
  /** Whether it would change nothing and can answer from memory, without a transaction. */
  isNoop(engine: Engine): boolean;
  /** Returns a function that writes the answer, called after COMMIT. */
  run(engine: Engine, each: Each): (w: Writer) => void;
}

/** `capacities`: of the connection that received the request. */
type Read = (r: Reader, capacities: KnownCapacities) => Pick<Work, 'items' | 'isList' | 'run'>;
const one = (run: Work['run']) => ({ items: 1, isList: false, run });
interface Operation {
  readonly needs: Needs;
  readonly isPush?: boolean;
  readonly isBulk?: boolean;
  readonly isNoop?: (engine: Engine) => boolean;
  readonly read: Read;
}

const list = <I, O>(
  r: Reader,
  read: (r: Reader) => I,
  act: (engine: Engine) => (item: I) => O,
  write: (w: Writer, outcome: O | StoreFailure) => void,
): ReturnType<Read> => {
  const items = r.list(read);
  return {
    items: items.length,
    isList: true,
    run(engine, each) {
      const outcomes = each(items, act(engine));
      return (w) => w.list(outcomes, write);
    },
  };
};

/** Outcomes of rare calls. */
const writeJson = (w: Writer, outcome: unknown) => void w.json(outcome);

function readArgs<A extends readonly unknown[]>(r: Reader): A {
  const args = r.json();
  if (!Array.isArray(args)) throw new ProtocolError('the arguments are not a list');
  // Elements are checked where they are used: a wrong one fails only its own request.
  return args as unknown as A;
}

/** Rare calls: arguments and result as JSON. */
const cold =
  (call: (engine: Engine, ...args: never[]) => unknown): Read =>
  (r) => {
    const args = readArgs<never[]>(r);
    return one((engine) => {
      const result = call(engine, ...args);
      return (w) => w.json(result ?? null);
    });
  };

type Args<F> = F extends (...args: infer A) => unknown ? A : never;

const operations: Readonly<Record<number, Operation>> = {
  [kinds.push]: {
    needs: 'full',
    isPush: true,
    read: (r) => list<PushJob, PushOutcome>(r, readPush, (engine) => engine.push, writePushOutcome),
  },
  [kinds.cancel]: {
    needs: 'full',
    read: (r) =>
      list<VersionedKey, CancelOutcome>(r, readVersionedKey, (engine) => engine.cancel, writeCancelOutcome),
  },
  [kinds.finishById]: {
    needs: 'full',
    read: (r) =>
      list<VersionedKey, CancelOutcome>(
        r,
        readVersionedKey,
        (engine) => engine.finishById,
        writeCancelOutcome,
      ),
  },
  [kinds.run]: {
    needs: 'full',
    read: (r) => list<VersionedKey, RunOutcome>(r, readVersionedKey, (engine) => engine.run, writeJson),
  },
  [kinds.reschedule]: {
    needs: 'full',
    read: (r) => list(r, readReschedule, (engine) => engine.reschedule, writeJson),
  },
  [kinds.requeue]: {
    needs: 'full',
    read: (r) =>
      list<VersionedKey, RequeueOutcome>(r, readVersionedKey, (engine) => engine.requeue, writeJson),
  },
  [kinds.get]: {
    needs: 'read',
    read: (r) => {
      const key = readKey(r);
      return one((engine) => {
        const job = engine.snapshots.get(key);
        return (w) => (job === null ? w.u8(0) : writeSnapshot(w.u8(1), job));
      });
    },
  },
  [kinds.search]: {
    needs: 'read',
    read: cold((engine, ...args: Args<Engine['search']['run']>) => engine.search.run(...args)),
  },
  [kinds.promote]: {
    needs: 'normal',
    isNoop: (engine) => engine.moves.nothingIsDue(),
    read: (r) => {
      const max = r.u32();
      return one((engine) => {
        const moved = engine.moves.promote(max);
        // Computed when the answer is written: a commit may take long.
        return (w) => w.u32(moved).f64(engine.waitMs() ?? -1);
      });
    },
  },
  [kinds.reserve]: {
    needs: 'normal',
    isNoop: (engine) => engine.moves.nothingIsReady(),
    read: (r, capacities) => {
      const { delta, ...request } = readReserveRequest(r);
      // Applied when it runs, not when it is read: an earlier reserve of this connection may still wait.
      return one((engine) => {
        const topics = capacities.with(delta);
        const views = () => engine.moves.ringViews();
        const reserved =
          topics === null ? null : engine.moves.reserve({ ...request, topics }, capacities.views(views));
        return (w) => writeReserved(w, reserved);
      });
    },
  },
  [kinds.ack]: {
    needs: 'full',
    read: (r) => list(r, readAck, (engine) => engine.ack, writeFinish),
  },
  [kinds.retry]: {
    needs: 'full',
    read: (r) => list(r, readRetry, (engine) => engine.retry, writeFinish),
  },
  [kinds.bury]: {
    needs: 'full',
    read: (r) => list(r, readBury, (engine) => engine.bury, writeFinish),
  },
  [kinds.release]: {
    needs: 'normal',
    read: (r) => list(r, readEndingLease, (engine) => engine.release, writeFinish),
  },
  [kinds.extend]: {
    needs: 'normal',
    read: (r) => list<ExtendItem, ExtendOutcome>(r, readExtend, (engine) => engine.extend, writeExtended),
  },
  [kinds.recover]: {
    needs: 'full',
    isNoop: (engine) => engine.recovery.nothingIsReserved(),
    read: cold((engine, ...args: Args<Engine['recovery']['expired']>) => engine.recovery.expired(...args)),
  },
  [kinds.recoverOwners]: {
    needs: 'full',
    isNoop: (engine) => engine.recovery.nothingIsReserved(),
    read: cold((engine, ...args: Args<Engine['recovery']['ofOwners']>) => engine.recovery.ofOwners(...args)),
  },
  [kinds.releaseUnheld]: {
    needs: 'normal',
    isNoop: (engine) => engine.recovery.nothingIsReserved(),
    read: cold((engine, ...args: Args<Engine['recovery']['releaseUnheld']>) =>
      engine.recovery.releaseUnheld(...args),
    ),
  },
  [kinds.deadList]: {
    needs: 'read',
    read: cold((engine, ...args: Args<Engine['dead']['list']>) => engine.dead.list(...args)),
  },
  [kinds.deadRequeue]: {
    needs: 'full',
    isBulk: true,
    read: cold((engine, ...args: Args<Engine['dead']['requeue']>) => engine.dead.requeue(...args)),
  },
  [kinds.deadPurge]: {
    needs: 'full',
    isBulk: true,
    read: cold((engine, ...args: Args<Engine['dead']['purge']>) => engine.dead.purge(...args)),
  },
  [kinds.alertDue]: {
    needs: 'read',
    read: cold((engine, ...args: Args<Engine['alerts']['due']>) => engine.alerts.due(...args)),
  },
  [kinds.deadExpire]: {
    needs: 'full',
    isBulk: true,
    read: cold((engine, ...args: Args<Engine['expire']>) => engine.expire(...args)),
  },
  [kinds.endedGet]: {
    needs: 'read',
    read: cold((engine, ...args: Args<Engine['history']['get']>) => engine.history.get(...args)),
  },
  // After a power cut the next round removes the same entries again.
  [kinds.endedForget]: {
    needs: 'normal',
    isBulk: true,
    read: cold((engine, ...args: Args<Engine['forget']>) => engine.forget(...args)),
  },
  [kinds.alertClaim]: {
    needs: 'full',
    isNoop: (engine) => !engine.alerts.anyOwed(),
    read: cold((engine, ...args: Args<Engine['alerts']['claim']>) => engine.alerts.claim(...args)),
  },
  [kinds.alertSettle]: {
    needs: 'full',
    read: cold((engine, ...args: Args<Engine['alerts']['settle']>) => engine.alerts.settle(...args)),
  },
  [kinds.alertList]: {
    needs: 'read',
    read: cold((engine, ...args: Args<Engine['alerts']['list']>) => engine.alerts.list(...args)),
  },
  [kinds.alertState]: {
    needs: 'read',
    read: cold((engine, ...args: Args<Engine['alerts']['stateOf']>) => engine.alerts.stateOf(...args)),
  },
  [kinds.counts]: {
    needs: 'read',
    read: cold((engine, ...args: Args<Engine['jobCounts']['counts']>) => engine.jobCounts.counts(...args)),
  },
  // Synced: after a power cut its number would be drawn again.
  [kinds.moment]: {
    needs: 'full',
    read: cold((engine) => engine.moment()),
  },
  [kinds.position]: {
    needs: 'read',
    read: cold((engine, ...args: Args<Engine['survey']['position']>) => engine.survey.position(...args)),
  },
  [kinds.purgeTopic]: {
    needs: 'full',
    isBulk: true,
    read: cold((engine, ...args: Args<Engine['jobCounts']['purgeTopic']>) =>
      engine.jobCounts.purgeTopic(...args),
    ),
  },
};

/** Decodes a request. Throws ProtocolError for an incomplete or unknown one. */
export function readWork(kind: number, payload: Reader, capacities = new KnownCapacities()): Work {
  const operation = operations[kind];
  if (operation === undefined) throw new ProtocolError(`unknown kind ${kind}`);
  const { items, isList, run } = operation.read(payload, capacities);
  payload.end();
  const { needs, isPush = false, isBulk = false, isNoop = () => false } = operation;
  return { needs, items, isList, isPush, isBulk, isNoop, run };
}
