// Keeps samples of the newest attempts of each topic, for people who watch. Empty after a start of dq-upkeep.
// Invariant: at most upkeepLimits.samplesPerTopic samples of a topic and upkeepLimits.samplesBytes in all.
// The topic that had no sample for the longest time loses its oldest one first.

import { reaches } from '../core/token.ts';
import type { AttemptSample, Questions, SampleOutcome } from '../process/questions.ts';
import { upkeepLimits } from './limits.ts';

/** In the order of arrival. Apart, so that successes do not displace failures. */
type TopicSamples = Readonly<Record<SampleOutcome, AttemptSample[]>>;

export class AttemptRing {
  /** The topic with the latest sample comes last. */
  readonly #topics = new Map<string, TopicSamples>();
  readonly #since: number;
  #bytes = 0;

  /** `since`: epoch ms; earlier attempts are unknown */
  constructor(since: number) {
    this.#since = since;
  }

  add(samples: readonly AttemptSample[]): void {
    for (const sample of samples) this.#add(sample);
    while (this.#bytes > upkeepLimits.samplesBytes) {
      const [first] = this.#topics;
      if (first === undefined) return;
      this.#drop(...first);
    }
  }

  /** Newest first. */
  list({ topic, topics, outcome, limit }: Questions['attempts']['params']): Questions['attempts']['answer'] {
    const names = topic === null ? [...this.#topics.keys()] : [topic];
    const visible = names.filter((name) => reaches({ scopes: [], topics }, name));
    const samples = visible.flatMap((name) => {
      const of = this.#topics.get(name);
      if (of === undefined) return [];
      if (outcome !== null) return of[outcome].slice(-limit);
      return Object.values(of).flatMap((its) => its.slice(-limit));
    });
    return {
      since: this.#since,
      attempts: samples.sort((a, b) => b.startedAt - a.startedAt).slice(0, limit),
    };
  }

  #add(sample: AttemptSample): void {
    const { topic, outcome } = sample;
    const samples = this.#topics.get(topic) ?? { delivered: [], again: [], failed: [] };
    // In a reload a notifier of a later version may send an outcome that this one does not know.
    if (!Object.hasOwn(samples, outcome)) return;
    this.#topics.delete(topic);
    this.#topics.set(topic, samples);
    samples[outcome].push(sample);
    this.#bytes += bytesOf(sample);
    if (countOf(samples) > upkeepLimits.samplesPerTopic) this.#drop(topic, samples);
  }

  /** The oldest of the outcome that has the most; of equal ones of failures. */
  #drop(topic: string, samples: TopicSamples): void {
    const { delivered, again, failed } = samples;
    const most = [delivered, again].reduce((a, b) => (b.length > a.length ? b : a), failed);
    const dropped = most.shift();
    if (dropped !== undefined) this.#bytes -= bytesOf(dropped);
    if (countOf(samples) === 0) this.#topics.delete(topic);
  }
}

const countOf = ({ delivered, again, failed }: TopicSamples): number =>
  delivered.length + again.length + failed.length;

/** Measured: 400 bytes and up to two for each character. */
function bytesOf({ topic, id, replyExcerpt, origin, detail, notifier }: AttemptSample): number {
  const characters = [topic, id, replyExcerpt, origin, detail, notifier].reduce(
    (n, text) => n + text.length,
    0,
  );
  return 400 + 2 * characters;
}
