// CallFacts adds up the lateness, duration and result of calls per topic, and sends them to dq-upkeep each
// second, which records them. Statistics: a kill -9 loses those that were not sent.
// Invariant: at most processLimits.factTopicsMax topics; further ones are added up as `_other`.

import type { AttemptReason } from '../core/job.ts';
import { addReason, addTime, type Facts, noFacts, packFacts, reasonKey } from '../core/series.ts';
import { ticker } from '../runtime/second-ticker.ts';
import { otherLabel } from '../telemetry/metric-declarations.ts';
import { processLimits } from './limits.ts';
import type { MasterLink } from './role.ts';

interface EndedAttempt {
  readonly attempt: number;
  readonly durationMs: number;
  /** null: delivered, or a snooze */
  readonly reason: AttemptReason | null;
  /** null: no reply */
  readonly status: number | null;
  /** It has no result: the call of the same number follows. */
  readonly isSnooze?: boolean;
}

export class CallFacts {
  readonly #link: Pick<MasterLink, 'send'>;
  readonly #facts = new Map<string, Facts>();
  #stop: () => void = () => {};

  constructor(link: Pick<MasterLink, 'send'>) {
    this.#link = link;
  }

  start(): void {
    this.#stop = ticker().each(() => this.send());
  }

  close(): void {
    this.#stop();
    this.send();
  }

  lateness(topic: string, ms: number): void {
    addTime(this.#of(topic).lateness, ms);
  }

  ended(topic: string, { attempt, durationMs, reason, status, isSnooze = false }: EndedAttempt): void {
    const facts = this.#of(topic);
    addTime(facts.duration, durationMs);
    if (reason !== null) addReason(facts, reasonKey(reason, status));
    if (attempt > 1 || isSnooze) return;
    facts.counts.firstAttempts += 1;
    if (reason === null) facts.counts.firstDelivered += 1;
  }

  send(): void {
    if (this.#facts.size === 0) return;
    const topics = Array.from(this.#facts, ([topic, facts]) => [topic, packFacts(facts)] as const);
    this.#facts.clear();
    this.#link.send({ kind: 'observed', topics });
  }

  #of(topic: string): Facts {
    const known = this.#facts.get(topic);
    if (known !== undefined) return known;
    const name = this.#facts.size < processLimits.factTopicsMax ? topic : otherLabel;
    const facts = this.#facts.get(name) ?? noFacts();
    this.#facts.set(name, facts);
    return facts;
  }
}
