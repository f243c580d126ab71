// What one notifier knows of one topic: how it is called, how many calls it may have at once, how its endpoint has been.
// Made anew with every change of the topic, so its constants are worked out once per revision and not once per job.

import type { AttemptReason } from '../core/job.ts';
import { limits } from '../core/limits.ts';
import { parseRule, type Rule } from '../core/reply-rule.ts';
import type { Topic } from '../core/topic.ts';

/** How a receiver fails that is away or hangs. Anything else is an answer of some kind and frees its slot soon. */
const awayReasons: ReadonlySet<AttemptReason> = new Set(['connect', 'tls', 'dns', 'timeout']);

export class Lane {
  readonly topic: Topic;
  readonly rule: Rule | null;
  readonly origin: string;
  /** path and query */
  readonly path: string;
  readonly #share: number;
  #awayInRow = 0;
  #ailing = false;

  /** `share`: calls at once that this notifier may make for the topic. Throws where the registry holds what no registration
   *  accepts. */
  constructor(topic: Topic, share: number) {
    const url = new URL(topic.callbackUrl);
    const rule = topic.retryIf === '' ? null : parseRule(topic.retryIf);
    if (rule !== null && !rule.ok) throw new Error(`retryIf: ${rule.message}`);
    this.topic = topic;
    this.rule = rule === null ? null : rule.rule;
    this.origin = url.origin;
    this.path = url.pathname + url.search;
    this.#share = share;
  }

  /** An ailing endpoint is probed, never hammered and never withheld for ever, and delays no other topic. */
  get ailing(): boolean {
    return this.#ailing;
  }

  /** Calls at once. */
  get capacity(): number {
    return this.#ailing ? Math.min(this.#share, limits.ailingCallsMax) : this.#share;
  }

  /** `reason`: null for a success. */
  judged(reason: AttemptReason | null): void {
    if (reason === null) this.#ailing = false;
    this.#awayInRow = reason !== null && awayReasons.has(reason) ? this.#awayInRow + 1 : 0;
    if (this.#awayInRow >= limits.ailingAttempts) this.#ailing = true;
  }
}
