// Asks the notifiers of this instance about the failures of topics, and merges what they count.

import { mergeFailures, type TopicFailures } from '../core/endpoint.ts';
import { processLimits } from './limits.ts';
import type { AnswerOf, Questions } from './questions.ts';

/** By topic: those with failures, and `also`. Notifiers without failures do not name a topic by themselves:
 *  all are asked about the topics that one of them names. `ask`: one question, answered by all */
export async function topicFailures(
  ask: (asked: Questions['failures']['params']) => Promise<readonly TopicFailures[]>,
  topics: readonly string[],
  also: readonly string[] = [],
): Promise<ReadonlyMap<string, TopicFailures>> {
  const found = mergeFailures(await ask({ topics }));
  const worst = Array.from(found.values())
    .sort((a, b) => b.failed - a.failed || b.failuresInRow - a.failuresInRow)
    .map(({ topic }) => topic);
  const names = [...new Set([...also, ...worst])].slice(0, processLimits.failingTopicsMax);
  if (names.length === 0) return found;
  return new Map([...found, ...mergeFailures(await ask({ topics, names }))]);
}

/** Of the notifiers that answered. */
export const failuresIn = (
  answers: readonly AnswerOf<readonly TopicFailures[]>[] | null,
): readonly TopicFailures[] => (answers ?? []).flatMap(({ answer }) => answer ?? []);
