// Asks the notifiers of this instance about the failures of topics, and dq-upkeep about those of earlier
// notifiers, and merges what they count.

import { mergeFailures, type TopicFailures } from '../core/endpoint.ts';
import { processLimits } from './limits.ts';
import type { MasterQuestions } from './master-questions.ts';
import type { AnswerOf, Questions } from './questions.ts';

/** By topic: `also`, then those with the most failures, at most failingTopicsMax, so that all notifiers are
 *  asked about each: one without failures does not name a topic by itself. `ask`: one question, answered by
 *  all */
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
  const named = new Set(names);
  return new Map([
    ...[...found].filter(([topic]) => named.has(topic)),
    ...mergeFailures(await ask({ topics, names })),
  ]);
}

/** `all`: the answers of the notifiers, then that of dq-upkeep. null: as of MasterQuestions.ask */
export async function askFailures(
  questions: Pick<MasterQuestions, 'ask'>,
  asked: Questions['failures']['params'],
  wait?: { readonly waitMs: number },
): Promise<FailureAnswers | null> {
  const [now, past] = await Promise.all([
    questions.ask('failures', asked, wait),
    questions.ask('past_failures', asked, wait ?? { waitMs: processLimits.pastFailuresMs }),
  ]);
  return now && { notifiers: now, all: [...now, ...(past ?? [])] };
}

interface FailureAnswers {
  readonly notifiers: readonly AnswerOf<readonly TopicFailures[]>[];
  readonly all: readonly AnswerOf<readonly TopicFailures[]>[];
}

/** Of the processes that answered. */
export const failuresIn = (
  answers: readonly AnswerOf<readonly TopicFailures[]>[] | null,
): readonly TopicFailures[] => (answers ?? []).flatMap(({ answer }) => answer ?? []);
