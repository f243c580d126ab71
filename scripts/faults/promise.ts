// What dq promises for each store (src/manual/guarantees.md), and what each fault may cause. The checker
// takes the promise as an input.
import type { Fsync, StoreKind } from './history.ts';

export interface StorePromise {
  readonly text: string;
  /** A change that was answered this long before a fault of a server of the jobs, or during it, may be
   *  undone. 0: no answered change is undone. */
  readonly lossMs: number;
  /** A server of the jobs that ends may return without its data, which the journal puts back. */
  readonly putsBack: boolean;
}

export interface Storage {
  readonly store: StoreKind;
  readonly journal: boolean;
  readonly fsync: Fsync;
}

/** The manual names 2 s. */
const everysecLossMs = 2_000;
/** The manual gives no bound for a failover. This one holds for servers of one machine, whose replicas lag by
 *  less. */
const failoverLossMs = 10_000;

export function promiseOf({ store, journal, fsync }: Storage): StorePromise {
  if (store === 'sqlite')
    return { text: 'jobs.db: kill -9 loses no acknowledged change', lossMs: 0, putsBack: false };
  if (journal) return { text: 'Redis with a journal: lost changes are put back', lossMs: 0, putsBack: true };
  if (store === 'sentinel' || store === 'cluster')
    return {
      text: `failover without a journal: changes up to ${failoverLossMs} ms before it can be lost`,
      lossMs: failoverLossMs,
      putsBack: false,
    };
  if (fsync === 'always')
    return { text: 'Redis, appendfsync always: no acknowledged change is lost', lossMs: 0, putsBack: false };
  if (fsync === 'everysec')
    return {
      text: `Redis, appendfsync everysec: changes up to ${everysecLossMs} ms before a kill can be lost`,
      lossMs: everysecLossMs,
      putsBack: false,
    };
  return {
    text: 'Redis without an append-only file: every change before a kill can be lost',
    lossMs: Number.POSITIVE_INFINITY,
    putsBack: false,
  };
}

/** Effects that a fault may have; any other effect is a violation. */
export interface Effects {
  /** An attempt that runs meanwhile may repeat. */
  readonly repeats: boolean;
  /** A push or cancel that runs meanwhile may be rejected, or have no answer. */
  readonly refuses: boolean;
  /** It concerns a server that has the jobs. */
  readonly loses: boolean;
}

const harmless: Effects = { repeats: false, refuses: false, loses: false };

/** A reload, and the deaths of dq-timer, of dq-upkeep and of MySQL, delay jobs at most. */
export function effectsOf(target: string, store: StoreKind): Effects {
  if (target === 'daemon') return { ...harmless, repeats: true, refuses: true };
  if (target.startsWith('dq-server')) return { ...harmless, refuses: true };
  if (target.startsWith('dq-notifier') || target.startsWith('receiver'))
    return { ...harmless, repeats: true };
  // On Redis it has the registry only.
  if (target === 'dq-store') return { ...harmless, refuses: true, repeats: store === 'sqlite' };
  if (target.startsWith('redis')) return { repeats: true, refuses: true, loses: true };
  return harmless;
}
