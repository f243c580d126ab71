// What each request does at the owner: read from its frame, run on the engine, written as its answer. One entry per kind.
// Owns no transaction: `needs` says what kind of one the request must run in (group.ts).

import type { JobKey } from '../../../core/job.ts';
import type {
  CancelOutcome,
  DeadLetter,
  PushJob,
  PushOutcome,
  StoreFailure,
} from '../../../ports/job-store.ts';
import type { Engine } from '../engine/engine.ts';
import { RoomsKnown } from '../wire/capacity-delta.ts';
import {
  readAck,
  readBury,
  readKey,
  readLease,
  readPush,
  readReschedule,
  readReserveRequest,
  readRetry,
  writeCancelOutcome,
  writeFinish,
  writePushOutcome,
  writeReserved,
  writeSnapshot,
} from '../wire/messages.ts';
import { kinds, ProtocolError, type Reader, type Writer } from '../wire/protocol.ts';

/** `read`: none · `normal`: undone by a power cut at the cost of a duplicate · `full`: fsynced before the answer. */
export type Needs = 'read' | 'normal' | 'full';

/** Runs items one by one; in a careful transaction each by itself, so that a failure is that item's alone. */
export type Each = <I, O>(items: readonly I[], one: (item: I) => O) => (O | StoreFailure)[];

/** One request, read and not yet run. */
export interface Work {
  readonly needs: Needs;
  /** of a list, its length; else 1 */
  readonly items: number;
  /** a list: run() writes through `each` alone, so that every item may have a transaction of its own */
  readonly isList: boolean;
  /** Makes the store larger: refused while the disk is full. */
  readonly isPush: boolean;
  /** A step of bulk work: a transaction of its own, so that no other answer waits for its pages to be written. */
  readonly isBulk: boolean;
  /** It would change nothing and can answer from memory, outside any transaction. */
  quiet(engine: Engine): boolean;
  /** Answers a function that writes the answer, once it may be told. */
  run(engine: Engine, each: Each): (w: Writer) => void;
}

/** `rooms`: of the connection on which the request came. */
type Read = (r: Reader, rooms: RoomsKnown) => Pick<Work, 'items' | 'isList' | 'run'>;
const one = (run: Work['run']) => ({ items: 1, isList: false, run });
interface Operation {
  readonly needs: Needs;
  readonly isPush?: boolean;
  readonly isBulk?: boolean;
  readonly quiet?: (engine: Engine) => boolean;
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

const noBody = Buffer.alloc(0);

/** Outcomes of rare calls. */
const writeJson = (w: Writer, outcome: unknown) => void w.json(outcome);

function readArgs<A extends readonly unknown[]>(r: Reader): A {
  const args = r.json();
  if (!Array.isArray(args)) throw new ProtocolError('arguments are no list');
  // What is in it is judged by what uses it: a wrong value fails its own request, as any other mistake of a caller does.
  return args as unknown as A;
}

/** Cold calls: arguments and result as JSON. */
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

/** A client of an earlier version sends a moment of its own clock and no age: nothing is removed for it. */
type AgeArgs = [moment: unknown, max: number, olderThanMs?: number];

const operations: Readonly<Record<number, Operation>> = {
  [kinds.push]: {
    needs: 'full',
    isPush: true,
    read: (r) => list<PushJob, PushOutcome>(r, readPush, (engine) => engine.push, writePushOutcome),
  },
  [kinds.cancel]: {
    needs: 'full',
    read: (r) => list<JobKey, CancelOutcome>(r, readKey, (engine) => engine.cancel, writeCancelOutcome),
  },
  [kinds.run]: {
    needs: 'full',
    read: (r) => list(r, readKey, (engine) => engine.run, writeJson),
  },
  [kinds.reschedule]: {
    needs: 'full',
    read: (r) => list(r, readReschedule, (engine) => engine.reschedule, writeJson),
  },
  [kinds.requeue]: {
    needs: 'full',
    read: (r) => list(r, readKey, (engine) => engine.requeue, writeJson),
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
    quiet: (engine) => engine.moves.nothingIsDue(),
    read: (r) => {
      const max = r.u32();
      return one((engine) => {
        const moved = engine.moves.promote(max);
        // Counted when the answer leaves: a commit may have taken its time.
        return (w) => w.u32(moved).f64(engine.waitMs() ?? -1);
      });
    },
  },
  [kinds.reserve]: {
    needs: 'normal',
    quiet: (engine) => engine.moves.nothingIsReady(),
    read: (r, rooms) => {
      const { changes, ...request } = readReserveRequest(r);
      // Where it runs, not where it is read: another one of this connection may wait before it.
      return one((engine) => {
        const topics = rooms.with(changes);
        const views = () => engine.moves.ringViews();
        const reserved =
          topics === null ? null : engine.moves.reserve({ ...request, topics }, rooms.views(views));
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
    read: (r) => list(r, readLease, (engine) => engine.release, writeFinish),
  },
  [kinds.recover]: {
    needs: 'full',
    quiet: (engine) => engine.recovery.nothingIsReserved(),
    read: cold((engine, ...args: Args<Engine['recovery']['expired']>) => engine.recovery.expired(...args)),
  },
  [kinds.recoverOwners]: {
    needs: 'full',
    quiet: (engine) => engine.recovery.nothingIsReserved(),
    read: cold((engine, ...args: Args<Engine['recovery']['ofOwners']>) => engine.recovery.ofOwners(...args)),
  },
  [kinds.releaseUnheld]: {
    needs: 'normal',
    quiet: (engine) => engine.recovery.nothingIsReserved(),
    read: cold((engine, ...args: Args<Engine['recovery']['releaseUnheld']>) =>
      engine.recovery.releaseUnheld(...args),
    ),
  },
  [kinds.deadList]: {
    needs: 'read',
    read: (r) => {
      const [filter, limit, cursor] = readArgs<Args<Engine['dead']['list']>>(r);
      return one((engine) => {
        const page = engine.dead.list(filter, limit, cursor);
        // With an empty body: a client of the previous revision, in a reload, reads one.
        const withBody = (letter: DeadLetter) => ({ ...letter, body: noBody });
        return (w) => w.text(page.nextCursor).list(page.items.map(withBody), writeSnapshot);
      });
    },
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
    read: cold((engine, ...[, max, olderThanMs]: AgeArgs) => engine.expire(olderThanMs, max)),
  },
  [kinds.endedGet]: {
    needs: 'read',
    read: cold((engine, ...args: Args<Engine['history']['get']>) => engine.history.get(...args)),
  },
  // A power cut that undoes it leaves what the next round removes.
  [kinds.endedForget]: {
    needs: 'normal',
    isBulk: true,
    read: cold((engine, ...[, max, olderThanMs]: AgeArgs) => engine.forget(olderThanMs, max)),
  },
  [kinds.alertClaim]: {
    needs: 'full',
    quiet: (engine) => !engine.alerts.anyOwed(),
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
  [kinds.counts]: {
    needs: 'read',
    read: cold((engine, ...args: Args<Engine['census']['counts']>) => engine.census.counts(...args)),
  },
  [kinds.purgeTopic]: {
    needs: 'full',
    isBulk: true,
    read: cold((engine, ...args: Args<Engine['census']['purgeTopic']>) => engine.census.purgeTopic(...args)),
  },
};

/** Reads a request. Throws ProtocolError for one that is not whole or that nobody serves. */
export function readWork(kind: number, payload: Reader, rooms = new RoomsKnown()): Work {
  const operation = operations[kind];
  if (operation === undefined) throw new ProtocolError(`nobody serves kind ${kind}`);
  const { items, isList, run } = operation.read(payload, rooms);
  payload.end();
  const { needs, isPush = false, isBulk = false, quiet = () => false } = operation;
  return { needs, items, isList, isPush, isBulk, quiet, run };
}
