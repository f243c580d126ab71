// Dead jobs as alerts for the Mailer: a key is a topic, an alert is a version. The job store keeps and claims
// them.

import { mailLimits } from '../../mail/limits.ts';
import { type Daemon, deadJobsMail } from '../../mail/mail-text.ts';
import type { AlertEntry, AlertOutbox } from '../../ports/job-store.ts';
import type { TopicBook } from '../../registry/topic-book.ts';
import { upkeepLimits } from '../limits.ts';
import type { AlertSource } from './mailer.ts';

export interface OutboxAlertsOptions {
  readonly outbox: AlertOutbox;
  readonly topics: Pick<TopicBook, 'lookUp'>;
  readonly daemon: Daemon;
  readonly claimMs: number;
  /** alerts of one mail; fewer in tests */
  readonly perMail?: number;
}

export function outboxAlerts(options: OutboxAlertsOptions): AlertSource {
  const { outbox, topics, daemon, claimMs, perMail = upkeepLimits.alertsPerMail } = options;
  const atOnce = upkeepLimits.alertClaimMax;
  return {
    name: 'dead jobs',
    due: (windowMs) => outbox.due(windowMs),
    // A topic that is removed has none.
    addresses: async (topic) => (await topics.lookUp(topic))?.alertEmails ?? [],
    async claim(topic) {
      const entries: AlertEntry[] = [];
      for (let left = perMail; left > 0; left = perMail - entries.length) {
        const max = Math.min(left, atOnce);
        const claimed = await outbox.claim(topic, claimMs, max);
        entries.push(...claimed);
        if (claimed.length < max) break;
      }
      return {
        ids: entries.map(({ version }) => version),
        names: entries.slice(0, mailLimits.alertsShown).map(({ id }) => id),
        isFull: entries.length >= perMail,
        mail(ids) {
          const chosen = entries.filter(({ version }) => ids.has(version));
          return deadJobsMail(topic, chosen, daemon);
        },
        async settle(versions, as) {
          for (let from = 0; from < versions.length; from += atOnce)
            await outbox.settle(versions.slice(from, from + atOnce), as);
        },
      };
    },
  };
}
