// Counts the calls that run, per topic and per account. A hanging endpoint keeps its call for up to a
// minute, so there are three accounts:
//   slots   calls younger than notifierLimits.slowCallMs, and slow calls beyond the slow account
//   slow    calls older than that
//   probes  calls of topics that were restricted when the calls started (probes.ts)
// Invariant: at most slots + slowMax + probesMax calls run at once, so sockets and memory are bounded.

import { callAccounts } from '../config/open-files.ts';
import { monotonicNow, setTimeout, type Timer } from '../runtime/time.ts';
import { notifierLimits } from './limits.ts';
import type { TopicTarget } from './topic-target.ts';

export interface RunningCall {
  readonly target: TopicTarget;
  /** monotonicNow() */
  readonly startedAt: number;
  readonly isProbe: boolean;
  /** Its topic had no result when the call started. */
  readonly isUntried: boolean;
  isSlow: boolean;
  hasEnded: boolean;
}

interface CallBudgetOptions {
  readonly slots: number;
  /** limit of open files of this process; null = unknown */
  readonly openFilesMax: number | null;
  /** Receives the calls that have just become slow. */
  readonly onSlow: (calls: readonly RunningCall[], nowMs: number) => void;
}

export class CallBudget {
  readonly slots: number;
  readonly slowMax: number;
  readonly probesMax: number;
  /** Slots that only topics in good standing without a running call may take. */
  readonly keptSlots: number;
  readonly #onSlow: CallBudgetOptions['onSlow'];
  /** In the order of their start. */
  readonly #young = new Set<RunningCall>();
  /** Running calls by topic. Not counted per target: calls outlive the target that they started with, also
   *  where the topic was deleted and registered again meanwhile. */
  readonly #byTopic = new Map<string, number>();
  #slow = 0;
  #probes = 0;
  #untried = 0;
  #timer: Timer | null = null;

  constructor({ slots, openFilesMax, onSlow }: CallBudgetOptions) {
    this.slots = slots;
    this.keptSlots = Math.floor(slots * notifierLimits.keptSlotsShare);
    const { probesMax, slowMax } = callAccounts(slots, openFilesMax);
    this.probesMax = probesMax;
    this.slowMax = slowMax;
    this.#onSlow = onSlow;
  }

  get freeSlots(): number {
    return this.slots - this.#young.size - Math.max(0, this.#slow - this.slowMax);
  }

  /** Free slots that any topic may take. */
  get openSlots(): number {
    return this.freeSlots - this.keptSlots;
  }

  /** Young calls of topics without a result. */
  get untried(): number {
    return this.#untried;
  }

  get freeProbes(): number {
    return Math.max(0, this.probesMax - this.#probes);
  }

  /** Calls of the topic that run, probes included. */
  runningOf(topic: string): number {
    return this.#byTopic.get(topic) ?? 0;
  }

  /** A call of a restricted topic beyond the probe account takes a slot. */
  start(target: TopicTarget, isRestricted: boolean, nowMs: number): RunningCall {
    const isProbe = isRestricted && this.#probes < this.probesMax;
    const isUntried = !isProbe && !target.isTried;
    const call = { target, startedAt: nowMs, isProbe, isUntried, isSlow: false, hasEnded: false };
    this.#countTopic(target.topic.topic, 1);
    if (isProbe) this.#countProbe(target, 1);
    else {
      this.#young.add(call);
      if (isUntried) this.#untried += 1;
      this.#schedule(notifierLimits.slowCallMs);
    }
    return call;
  }

  end(call: RunningCall): void {
    call.hasEnded = true;
    this.#countTopic(call.target.topic.topic, -1);
    if (call.isProbe) this.#countProbe(call.target, -1);
    else if (call.isSlow) this.#slow -= 1;
    else this.#noLongerYoung(call);
  }

  /** Moves calls that have become slow to their account. The timer calls it; tests may, too. */
  sweep(nowMs: number): void {
    const slow: RunningCall[] = [];
    for (const call of this.#young) {
      if (nowMs - call.startedAt < notifierLimits.slowCallMs) break;
      call.isSlow = true;
      this.#slow += 1;
      this.#noLongerYoung(call);
      slow.push(call);
    }
    const [first] = this.#young;
    if (first !== undefined) this.#schedule(first.startedAt + notifierLimits.slowCallMs - nowMs);
    if (slow.length > 0) this.#onSlow(slow, nowMs);
  }

  #noLongerYoung(call: RunningCall): void {
    this.#young.delete(call);
    if (call.isUntried) this.#untried -= 1;
  }

  #countTopic(topic: string, n: 1 | -1): void {
    const running = this.runningOf(topic) + n;
    if (running > 0) this.#byTopic.set(topic, running);
    else this.#byTopic.delete(topic);
  }

  #countProbe(target: TopicTarget, n: 1 | -1): void {
    this.#probes += n;
    target.probes += n;
    target.health.probes += n;
  }

  /** One timer for all calls; calls that started within notifierLimits.slowCallStepMs share a sweep. */
  #schedule(waitMs: number): void {
    if (this.#timer !== null) return;
    this.#timer = setTimeout(
      () => {
        this.#timer = null;
        this.sweep(monotonicNow());
      },
      Math.max(waitMs, notifierLimits.slowCallStepMs),
    );
    this.#timer.unref();
  }
}
