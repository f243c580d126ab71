// Defines each verb of the socket: read from its frame, run on the engine, written as its answer. Owns no
// transaction: `changes` tells group.ts which kind the verb needs.

import type { LeavingJobs, LeavingState } from '../../../ports/leaving.ts';
import { leavingFailure, StoreError, type StoreFailure } from '../../../ports/store-error.ts';
import {
  ruleOf,
  type StoreVerb,
  type StoreVerbRule,
  storeVerbs,
  type VerbsWith,
} from '../../../ports/store-verbs.ts';
import type { Engine } from '../engine/engine.ts';
import { KnownCapacities } from '../wire/capacity-delta.ts';
import {
  type ItemFrames,
  itemFrames,
  keyCodec,
  reservedCodec,
  reserveRequestCodec,
  snapshotCodec,
} from '../wire/messages.ts';
import {
  kinds,
  type LeavingCall,
  leavingChanges,
  leavingReads,
  ProtocolError,
  type Reader,
  type Writer,
  writeJsonWithBytes,
} from '../wire/protocol.ts';

/** Runs items one by one; a careful transaction gives each a savepoint, so that a failure concerns one
 *  item. */
export type Each = <I, O>(items: readonly I[], one: (item: I) => O) => (O | StoreFailure)[];

/** One decoded request. */
export interface Work {
  readonly changes: StoreVerbRule['changes'];
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
interface Act {
  readonly read: Read;
  readonly isNoop?: Work['isNoop'];
}

const one = (run: Work['run']) => ({ items: 1, isList: false, run });

/** A verb with items. `act`: what the engine does with one */
const items = <I, O, R>(
  { item, outcome }: ItemFrames<I, O | StoreFailure, R>,
  act: (engine: Engine) => (item: R) => O | StoreFailure,
): Act => ({
  read(r) {
    const list = r.list(item.read);
    return {
      items: list.length,
      isList: true,
      run(engine, each) {
        const outcomes = each(list, act(engine));
        return (w) => w.list(outcomes, outcome.write);
      },
    };
  },
});

/** A verb whose arguments and result travel as JSON. */
const json = (act: (engine: Engine, ...args: never[]) => unknown): Act => ({
  read(r) {
    const args = r.json();
    if (!Array.isArray(args)) throw new ProtocolError('the arguments are not a list');
    return one((engine) => {
      // Elements are checked where they are used: a wrong one fails only its own request.
      const result = act(engine, ...(args as never[]));
      return (w) => w.json(result ?? null);
    });
  },
});

const unlessNoneReserved = (act: Act): Act => ({
  ...act,
  isNoop: ({ recovery }) => recovery.nothingIsReserved(),
});

/** Verbs that the owner answers outside groups: from memory, or later. */
type OutsideVerb =
  | VerbsWith<{ kind: 'survey' }>
  | 'admin.health'
  | 'admin.startBackup'
  | 'admin.backup'
  | 'admin.startFsck'
  | 'admin.fsck';

const acts: Readonly<Record<Exclude<StoreVerb, OutsideVerb>, Act>> = {
  'jobs.push': items(itemFrames.push, (engine) => engine.push),
  'jobs.cancel': items(itemFrames.cancel, (engine) => engine.cancel),
  'jobs.run': items(itemFrames.run, (engine) => engine.run),
  'jobs.reschedule': items(itemFrames.reschedule, (engine) => engine.reschedule),
  'jobs.requeue': items(itemFrames.requeue, (engine) => engine.requeue),
  'jobs.edit': items(itemFrames.edit, (engine) => engine.edit),
  'jobs.ack': items(itemFrames.ack, (engine) => engine.ack),
  'jobs.retry': items(itemFrames.retry, (engine) => engine.retry),
  'jobs.bury': items(itemFrames.bury, (engine) => engine.bury),
  'jobs.release': items(itemFrames.release, (engine) => engine.release),
  'jobs.extend': items(itemFrames.extend, (engine) => engine.extend),
  'jobs.get': {
    read(r) {
      const key = keyCodec.read(r);
      const how = r.u8() === 1 ? 'bodiless' : undefined;
      return one((engine) => {
        const job = engine.snapshots.get(key, how);
        return (w) => (job === null ? w.u8(0) : snapshotCodec.write(w.u8(1), job));
      });
    },
  },
  'jobs.search': json(({ search }, filter, limit, cursor) => search.run(filter, limit, cursor)),
  'jobs.promote': {
    isNoop: ({ moves }) => moves.nothingIsDue(),
    read(r) {
      const max = r.u32();
      return one((engine) => {
        const moved = engine.moves.promote(max);
        // Computed when the answer is written: a commit may take long.
        return (w) => w.u32(moved).f64(engine.waitMs() ?? -1);
      });
    },
  },
  'jobs.reserve': {
    isNoop: ({ moves }) => moves.nothingIsReady(),
    read(r, capacities) {
      const { delta, ...request } = reserveRequestCodec.read(r);
      // Applied when it runs, not when it is read: an earlier reserve of this connection may still wait.
      return one((engine) => {
        const topics = capacities.with(delta);
        const views = () => engine.moves.ringViews();
        const reserved =
          topics === null ? null : engine.moves.reserve({ ...request, topics }, capacities.views(views));
        return (w) => reservedCodec.write(w, reserved);
      });
    },
  },
  'jobs.recover': unlessNoneReserved(json(({ recovery }, max) => recovery.expired(max))),
  'jobs.recoverOwners': unlessNoneReserved(
    json(({ recovery }, instance, which, max) => recovery.ofOwners(instance, which, max)),
  ),
  'jobs.releaseUnheld': unlessNoneReserved(
    json(({ recovery }, owner, held, upTo) => recovery.releaseUnheld(owner, held, upTo)),
  ),
  'dead.list': json(({ dead }, filter, limit, cursor) => dead.list(filter, limit, cursor)),
  'dead.requeue': json(({ dead }, filter, max) => dead.requeue(filter, max)),
  'dead.purge': json(({ dead }, filter, max) => dead.purge(filter, max)),
  'dead.expire': json((engine, olderThanMs, max) => engine.expire(olderThanMs, max)),
  'alerts.due': json(({ alerts }, windowMs) => alerts.due(windowMs)),
  'alerts.claim': {
    ...json(({ alerts }, topic, claimMs, max) => alerts.claim(topic, claimMs, max)),
    isNoop: ({ alerts }) => !alerts.anyOwed(),
  },
  'alerts.settle': json(({ alerts }, versions, as) => alerts.settle(versions, as)),
  'alerts.list': json(({ alerts }, limit, cursor) => alerts.list(limit, cursor)),
  'alerts.stateOf': json(({ alerts }, job) => alerts.stateOf(job)),
  'history.get': json(({ history }, key) => history.get(key)),
  'history.forget': json((engine, olderThanMs, max) => engine.forget(olderThanMs, max)),
  'admin.counts': json(({ jobCounts }, held, pulled, after) => jobCounts.counts(held, pulled, after)),
  'admin.countsOf': json(({ jobCounts }, topics, place) => jobCounts.countsOf(topics, place)),
  'admin.purgeTopic': json(({ jobCounts }, topic, max) => jobCounts.purgeTopic(topic, max)),
  'admin.moment': json((engine) => engine.moment()),
  'surveys.position': json(({ survey }, key) => survey.position(key)),
};

/** Verbs that would deliver jobs of a file that is left, move many of them, or remove what a late caller
 *  needs. */
const notWhileLeaving: ReadonlySet<StoreVerb> = new Set([
  'jobs.promote',
  'jobs.reserve',
  'dead.requeue',
  'dead.purge',
  'dead.expire',
  'history.forget',
  'admin.purgeTopic',
] satisfies StoreVerb[]);

type Operation = Omit<Work, 'items' | 'isList' | 'run'> & Pick<Act, 'read'>;

function operationOf(verb: StoreVerb, { read, isNoop = () => false }: Act): Operation {
  const { changes, kind } = ruleOf(verb);
  const isRejected = notWhileLeaving.has(verb);
  return {
    changes,
    isPush: verb === 'jobs.push' || verb === 'jobs.edit',
    isBulk: kind === 'stepped',
    isNoop: (engine) => (isRejected && engine.isLeaving) || isNoop(engine),
    read(...given) {
      const { run, ...its } = read(...given);
      return {
        ...its,
        run(engine, each) {
          if (isRejected && engine.isLeaving) throw new StoreError(leavingFailure);
          return run(engine, each);
        },
      };
    },
  };
}

/** Of a file in force nothing is left. */
const inForce: LeavingState = {
  jobs: 0,
  owesAlerts: false,
  isFrozen: false,
  lastEndAt: null,
  move: null,
  startedAt: null,
  total: null,
  ended: null,
};

/** The calls of a file that is left; a change of a file in force is a mistake of the program. */
const leavingCalls = (changes: Operation['changes'], methods: readonly (keyof LeavingJobs)[]): Operation => ({
  changes,
  isPush: false,
  isBulk: changes === 'full',
  isNoop: () => false,
  read(r) {
    const { method, args } = r.json() as LeavingCall;
    if (!methods.includes(method)) throw new ProtocolError(`unknown method ${method}`);
    return one(({ leaving, isLeaving }) => {
      if (!isLeaving && method !== 'state') throw new StoreError({ kind: 'not_stored', code: 'not_leaving' });
      if (!isLeaving) return (w) => writeJsonWithBytes(w, inForce);
      const result = (leaving[method] as (...given: readonly unknown[]) => unknown)(...args);
      return (w) => writeJsonWithBytes(w, result);
    });
  },
});

/** by the kind of the frame */
const operations: Readonly<Record<number, Operation>> = {
  ...Object.fromEntries(
    (Object.keys(acts) as (keyof typeof acts)[]).map((verb) => [
      storeVerbs[verb].frame,
      operationOf(verb, acts[verb]),
    ]),
  ),
  [kinds.finishById]: operationOf(
    'jobs.cancel',
    items(itemFrames.cancel, (engine) => engine.finishById),
  ),
  [kinds.leavingRead]: leavingCalls('nothing', leavingReads),
  [kinds.leaving]: leavingCalls('full', leavingChanges),
};

/** Decodes a request. Throws ProtocolError for an incomplete or unknown one. */
export function readWork(kind: number, payload: Reader, capacities = new KnownCapacities()): Work {
  const operation = operations[kind];
  if (operation === undefined) throw new ProtocolError(`unknown kind ${kind}`);
  const { items, isList, run } = operation.read(payload, capacities);
  payload.end();
  const { changes, isPush, isBulk, isNoop } = operation;
  return { changes, items, isList, isPush, isBulk, isNoop, run };
}
