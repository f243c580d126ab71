// The dead jobs of the job store as a source of alerts: a key is a topic, an alert is a version.

import { mailLimits } from '../../mail/limits.ts';
import { deathLetter, type Sender } from '../../mail/mail-text.ts';
import type { AlertEntry, AlertOutbox } from '../../ports/job-store.ts';
import type { TopicBook } from '../../registry/topic-book.ts';
import { upkeepLimits } from '../limits.ts';
import type { AlertSource, Owed } from './alert-source.ts';

export class OutboxAlerts implements AlertSource {
  readonly name = 'dead jobs';
  readonly #outbox: AlertOutbox;
  readonly #topics: TopicBook;
  readonly #sender: Sender;
  readonly #claimMs: number;
  readonly #perMail: number;

  /** `perMail`: for tests that cannot bury so many. */
  constructor(
    outbox: AlertOutbox,
    topics: TopicBook,
    sender: Sender,
    claimMs: number,
    perMail: number = upkeepLimits.alertsPerMail,
  ) {
    this.#outbox = outbox;
    this.#topics = topics;
    this.#sender = sender;
    this.#claimMs = claimMs;
    this.#perMail = perMail;
  }

  due(windowMs: number): Promise<readonly string[]> {
    return this.#outbox.due(windowMs);
  }

  /** Of a topic that is gone: none. Rejects while nobody can say, so that nobody is left out. */
  async addresses(topic: string): Promise<readonly string[]> {
    return (await this.#topics.lookUp(topic))?.alertEmails ?? [];
  }

  async take(topic: string): Promise<Owed> {
    const entries: AlertEntry[] = [];
    for (let left = this.#perMail; left > 0; left = this.#perMail - entries.length) {
      const max = Math.min(left, upkeepLimits.alertClaimMax);
      const claimed = await this.#outbox.claim(topic, this.#claimMs, max);
      for (const entry of claimed) entries.push(entry);
      if (claimed.length < max) break;
    }
    return {
      ids: entries.map(({ version }) => version),
      names: entries.slice(0, mailLimits.alertsShown).map(({ id }) => id),
      isCut: entries.length >= this.#perMail,
      letter: (ids) =>
        deathLetter(
          topic,
          entries.filter(({ version }) => ids.has(version)),
          this.#sender,
        ),
      settle: async (versions, as) => {
        for (let from = 0; from < versions.length; from += upkeepLimits.alertClaimMax)
          await this.#outbox.settle(versions.slice(from, from + upkeepLimits.alertClaimMax), as);
      },
    };
  }
}
