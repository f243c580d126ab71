// The verbs of the job store, told once: one line each, from which dq-store, its clients and the journal's
// decorator take what they need. A verb is its duty and its method. The lines ascend by frame: a new verb has
// the number after the last one, and raises `protocolNumber` (store/sqlite/wire/protocol.ts).

import type { Store } from './job-store.ts';

export interface StoreVerbRule {
  /** its number on the socket of dq-store, never used again; surveys share `kinds.survey` */
  readonly frame?: number;
  /** hot: frequent, so dq-store's socket has frames for it that are written by hand · cold: rare, as JSON ·
   *  stepped: bulk work, as JSON, one bounded step per call and transaction · survey: piece by piece, between
   *  the calls of others */
  readonly kind: 'hot' | 'cold' | 'stepped' | 'survey';
  /** normal: a power cut may undo it, at the cost of a duplicate · full: on disk before the answer */
  readonly changes: 'nothing' | 'normal' | 'full';
  /** A repeat after a lost answer is harmless. */
  readonly again: boolean;
  /** A journal records its changes before the answer: written to the file, or synced to the disk. Absent: a
   *  job that is put back does not need them. */
  readonly record?: 'written' | 'synced';
  /** Its first argument is a partition. */
  readonly ofPartition?: true;
  /** Its first argument is a job. Only its key and version travel: with its body it may be longer than a
   *  frame. */
  readonly ofJob?: true;
  /** It returns nothing, which JSON would turn into null. */
  readonly isVoid?: true;
}

type Framed = StoreVerbRule & { readonly frame: number };
type Duty = Exclude<keyof Store, 'close' | 'healing' | 'arrivals'>;
/** Methods that never travel: clients answer them, admin.clock from the health of dq-store. */
type LocalMethod =
  | 'admin.clock'
  | `jobs.${'partitions' | 'partitionsOf' | 'nameOf' | 'whyUnknown' | 'onHint'}`;
type VerbName = Exclude<{ [D in Duty]: `${D}.${keyof Store[D] & string}` }[Duty], LocalMethod>;

export const storeVerbs = {
  'jobs.push': { frame: 16, kind: 'hot', changes: 'full', again: false, record: 'synced' },
  'jobs.get': { frame: 17, kind: 'hot', changes: 'nothing', again: true },
  // A repeat would see the moves of the first call: `absent` for jobs that it cancelled.
  'jobs.cancel': { frame: 18, kind: 'hot', changes: 'full', again: false, record: 'synced' },
  'jobs.promote': { frame: 19, kind: 'hot', changes: 'normal', again: true, ofPartition: true },
  'jobs.reserve': { frame: 20, kind: 'hot', changes: 'normal', again: false, ofPartition: true },
  'jobs.ack': { frame: 21, kind: 'hot', changes: 'full', again: true, record: 'written' },
  'jobs.retry': { frame: 22, kind: 'hot', changes: 'full', again: true, record: 'written' },
  'jobs.bury': { frame: 23, kind: 'hot', changes: 'full', again: true, record: 'written' },
  'jobs.release': { frame: 24, kind: 'hot', changes: 'normal', again: true },
  'jobs.recover': { frame: 25, kind: 'cold', changes: 'full', again: true, ofPartition: true },
  'jobs.recoverOwners': { frame: 26, kind: 'cold', changes: 'full', again: true, ofPartition: true },
  'jobs.releaseUnheld': { frame: 27, kind: 'cold', changes: 'normal', again: true, ofPartition: true },
  'jobs.run': { frame: 28, kind: 'hot', changes: 'full', again: false, record: 'synced' },
  'jobs.reschedule': { frame: 29, kind: 'hot', changes: 'full', again: false, record: 'synced' },
  'jobs.requeue': { frame: 30, kind: 'hot', changes: 'full', again: false, record: 'synced' },
  'jobs.search': { frame: 31, kind: 'cold', changes: 'nothing', again: true },
  'dead.list': { frame: 32, kind: 'cold', changes: 'nothing', again: true },
  'dead.requeue': { frame: 33, kind: 'stepped', changes: 'full', again: false, record: 'synced' },
  'dead.purge': { frame: 34, kind: 'stepped', changes: 'full', again: true, record: 'synced' },
  'dead.expire': { frame: 35, kind: 'stepped', changes: 'full', again: true, record: 'written' },
  'history.get': { frame: 36, kind: 'cold', changes: 'nothing', again: true, ofJob: true },
  // After a power cut the next round removes the same entries again.
  'history.forget': { frame: 37, kind: 'stepped', changes: 'normal', again: true },
  'jobs.extend': { frame: 39, kind: 'hot', changes: 'normal', again: true },
  // Alerts claimed by a lost answer are owed again after claimMs.
  'alerts.claim': { frame: 40, kind: 'cold', changes: 'full', again: true },
  'alerts.settle': { frame: 41, kind: 'cold', changes: 'full', again: true, record: 'written', isVoid: true },
  'alerts.list': { frame: 42, kind: 'cold', changes: 'nothing', again: true },
  'alerts.due': { frame: 43, kind: 'cold', changes: 'nothing', again: true },
  'admin.counts': { frame: 48, kind: 'cold', changes: 'nothing', again: true },
  'admin.purgeTopic': { frame: 49, kind: 'stepped', changes: 'full', again: true, record: 'synced' },
  'admin.health': { frame: 50, kind: 'cold', changes: 'nothing', again: true },
  // A repeat would find the work of the first call and return `busy`.
  'admin.startBackup': { frame: 51, kind: 'cold', changes: 'nothing', again: false },
  'admin.backup': { frame: 52, kind: 'cold', changes: 'nothing', again: true },
  'admin.startFsck': { frame: 53, kind: 'cold', changes: 'nothing', again: false },
  'admin.fsck': { frame: 54, kind: 'cold', changes: 'nothing', again: true },
  'surveys.position': { frame: 55, kind: 'cold', changes: 'nothing', again: true, ofJob: true },
  'alerts.stateOf': { frame: 57, kind: 'cold', changes: 'nothing', again: true, ofJob: true },
  // On disk: after a power cut its number would be drawn again.
  'admin.moment': { frame: 58, kind: 'cold', changes: 'full', again: true },
  'admin.countsOf': { frame: 61, kind: 'cold', changes: 'nothing', again: true },
  'jobs.edit': { frame: 62, kind: 'hot', changes: 'full', again: false, record: 'synced' },
  'surveys.scan': { kind: 'survey', changes: 'nothing', again: true },
  'surveys.horizon': { kind: 'survey', changes: 'nothing', again: true },
  'surveys.deadGroups': { kind: 'survey', changes: 'nothing', again: true },
} as const satisfies Readonly<Record<VerbName, Framed | (StoreVerbRule & { kind: 'survey' })>>;

export type StoreVerb = keyof typeof storeVerbs;
/** The verbs whose rule has these members. */
export type VerbsWith<R extends Partial<StoreVerbRule>> = {
  [V in StoreVerb]: (typeof storeVerbs)[V] extends R ? V : never;
}[StoreVerb];
/** Verbs whose changes a journal records. */
export type RecordedVerb = VerbsWith<{ record: 'written' | 'synced' }>;
/** Verbs that travel as JSON: arguments, then the result. */
export type JsonVerb = VerbsWith<{ kind: 'cold' | 'stepped' }>;
/** The methods of a duty among these verbs. */
export type MethodsOf<
  D extends keyof Store,
  V extends StoreVerb,
> = V extends `${D}.${infer M extends keyof Store[D] & string}` ? M : never;

export const storeVerbNames = Object.keys(storeVerbs) as readonly StoreVerb[];
export const isJson = (verb: StoreVerb): verb is JsonVerb =>
  storeVerbs[verb].kind === 'cold' || storeVerbs[verb].kind === 'stepped';
export const ruleOf = (verb: StoreVerb): StoreVerbRule => storeVerbs[verb];
