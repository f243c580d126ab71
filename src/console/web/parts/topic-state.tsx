// The state of a topic in the page's language: what the daemon says about it, its jobs that wait, and why a
// notifier calls none of them, or few.

import type { CapacityReasonJson } from '../../../contract/api/job.ts';
import type { TopicAttentionJson } from '../../../contract/api/stats.ts';
import { stateWord } from '../../../core/capacity-reasons.ts';
import { daemonNow, summary } from '../api/session.ts';
import { duration, shortNumber } from '../format.ts';
import { enServer } from '../words/en-server.ts';
import { serverText, t } from '../words/words.ts';
import { type Colour, Pill } from './parts.tsx';

/** Jobs that are due, or wait for their due time or their next attempt. */
export const waiting = ({ ready, delayed }: TopicAttentionJson['states']): number => ready + delayed;

/** The parts of that sum. */
export const waitingText = ({ ready, delayed }: TopicAttentionJson['states']): string =>
  t('waiting_how', { due: shortNumber(ready), delayed: shortNumber(delayed) });

/** How late the oldest waiting job of a topic is, counted from its first attempt; null: none is due. */
export function lateText({ late }: Pick<TopicAttentionJson, 'late'>): string | null {
  if (late === null) return null;
  const time = duration(daemonNow() - Date.parse(late.since));
  return late.atLeast ? t('at_least', { time }) : time;
}

const stateColours: Readonly<Record<ReturnType<typeof stateWord>, Colour>> = {
  failing: 'dead',
  unreadable: 'dead',
  unknown_broker: 'dead',
  late: 'retry',
  not_pulled: 'retry',
  paused: 'retry',
  active: 'done',
  offline: 'quiet',
  not_registered: 'quiet',
};

/** What the daemon says about a topic: every page shows the same. `state` null: not registered */
export function TopicState(topic: Pick<TopicAttentionJson, 'state' | 'reasons'>) {
  const word = stateWord(topic);
  const colour = stateColours[word];
  return (
    <Pill colour={colour} ring={colour === 'quiet'}>
      {t(`state_${word}`)}
    </Pill>
  );
}

/** Why the daemon says that a topic needs attention, as far as the last summary names it. */
export const reasonsOfTopic = (name: string): TopicAttentionJson['reasons'] =>
  summary.value?.attention.find(({ topic }) => topic === name)?.reasons ?? [];

export function reasonText({ code, message, remedy, values }: CapacityReasonJson) {
  const durations = Object.entries(values)
    .filter(([name]) => name.endsWith('Ms'))
    .map(([name, ms]) => [name.slice(0, -2), duration(Number(ms))]);
  const all = { ...values, ...Object.fromEntries(durations) };
  const ownRemedies: Readonly<Record<string, string>> = enServer;
  return {
    message: serverText(`reason_${code}`, message, all),
    remedy: serverText(`remedy_${code}`, ownRemedies[`remedy_${code}`] ?? remedy, all),
  };
}
