// Sends samples of finished attempts to dq-upkeep: of each topic the first failures and the first successes
// of each second. Without attempts it does nothing.
// Invariant: a second sends at most notifierLimits.samplesPerSecond samples, and one message waits at most.
// Further samples are dropped: they are for people who watch.

import type { AttemptSample } from '../process/questions.ts';
import type { MasterLink } from '../process/role.ts';
import { clearTimeout, setTimeout, type Timer } from '../runtime/time.ts';
import { notifierLimits } from './limits.ts';

type Outcome = AttemptSample['outcome'];

export class AttemptFeed {
  readonly #link: Pick<MasterLink, 'sent'>;
  readonly #most: Readonly<Record<Outcome, number>>;
  /** of this second */
  readonly #taken = new Map<string, Record<Outcome, number>>();
  #samples: AttemptSample[] = [];
  #timer: Timer | null = null;
  #sending: Promise<void> | null = null;

  /** `notifiers`: they share the samples of a topic */
  constructor(link: Pick<MasterLink, 'sent'>, notifiers: number) {
    const { failedSamples, deliveredSamples } = notifierLimits;
    this.#link = link;
    this.#most = {
      failed: Math.ceil(failedSamples / notifiers),
      delivered: Math.ceil(deliveredSamples / notifiers),
      again: Math.ceil(deliveredSamples / notifiers),
    };
  }

  /** Whether the next attempt of this topic is a sample; true counts it. */
  takes(topic: string, outcome: Outcome): boolean {
    // Successes and snoozes leave half of the samples to failures.
    const most = notifierLimits.samplesPerSecond / (outcome === 'failed' ? 1 : 2);
    if (this.#samples.length >= most) return false;
    const taken = this.#taken.get(topic);
    if (taken === undefined) {
      this.#taken.set(topic, { delivered: 0, again: 0, failed: 0, [outcome]: 1 });
      return true;
    }
    if (taken[outcome] >= this.#most[outcome]) return false;
    taken[outcome] += 1;
    return true;
  }

  add(sample: AttemptSample): void {
    this.#samples.push(sample);
    this.#timer ??= setTimeout(() => this.#send(), notifierLimits.samplesEveryMs).unref();
  }

  /** Resolves when the samples are sent, or the channel is closed. */
  async flush(): Promise<void> {
    await this.#sending;
    this.#send();
    await this.#sending;
  }

  #send(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    this.#taken.clear();
    const attempts = this.#samples;
    this.#samples = [];
    if (attempts.length === 0 || this.#sending !== null) return;
    this.#sending = this.#link.sent({ kind: 'attempts', attempts }).finally(() => {
      this.#sending = null;
    });
  }
}
