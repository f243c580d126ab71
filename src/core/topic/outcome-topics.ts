// The graph that `onDone` and `onDead` of all topics make: which changes of it are rejected. Pure.
// Invariant: it has no circle, so every chain of jobs ends, and no chain is longer than
// limits.outcomeTopicsMax.

import { limits } from '../limits.ts';
import type { TopicSettings } from './topic.ts';

export const outcomeFields = ['onDone', 'onDead'] as const;
export type OutcomeField = (typeof outcomeFields)[number];
export type OutcomeTopics = Pick<TopicSettings, OutcomeField>;

/** Why the fields of a topic cannot be stored. `unknown`: the name of a topic that is not registered. */
export interface OutcomeProblem {
  readonly field: OutcomeField;
  readonly message: string;
  readonly unknown?: string;
  /** of a circle: the topics that the message names, which the caller may not see */
  readonly circle?: readonly string[];
}

const targetsOf = (topics: OutcomeTopics | undefined): readonly string[] =>
  topics === undefined ? [] : outcomeFields.map((field) => topics[field]).filter((name) => name !== '');

/** `stored`: of all topics that name one. `missing`: targets that are not registered. */
export function outcomeProblem(
  topic: string,
  given: OutcomeTopics,
  stored: ReadonlyMap<string, OutcomeTopics>,
  missing: ReadonlySet<string>,
): OutcomeProblem | null {
  const graph = new Map(stored).set(topic, given);
  const before = longestChains(sourcesIn(graph));
  const after = longestChains(new Map([...graph].map(([name, topics]) => [name, targetsOf(topics)])));
  for (const field of outcomeFields) {
    const target = given[field];
    if (target === '') continue;
    const circle = pathTo(topic, target, graph);
    if (circle !== null)
      return { field, message: `${[topic, ...circle].join(' → ')} is a circle; remove one step`, circle };
    if (missing.has(target)) return { field, message: `topic ${target} is not registered`, unknown: target };
    const length = before(topic) + after(target);
    if (length > limits.outcomeTopicsMax)
      return { field, message: `${length} topics in a row; at most ${limits.outcomeTopicsMax}` };
  }
  return null;
}

function sourcesIn(graph: ReadonlyMap<string, OutcomeTopics>): ReadonlyMap<string, readonly string[]> {
  const sources = new Map<string, string[]>();
  for (const [name, topics] of graph)
    for (const target of targetsOf(topics)) sources.set(target, [...(sources.get(target) ?? []), name]);
  return sources;
}

/** The number of topics in the longest chain from a topic on. A topic that is being visited ends a chain: the
 *  caller has rejected circles. */
function longestChains(next: ReadonlyMap<string, readonly string[]>): (topic: string) => number {
  const known = new Map<string, number>();
  const longest = (topic: string): number => {
    const found = known.get(topic);
    if (found !== undefined) return found;
    known.set(topic, 0);
    const length = 1 + Math.max(0, ...(next.get(topic) ?? []).map(longest));
    known.set(topic, length);
    return length;
  };
  return longest;
}

/** From a topic to another one, both included; null: no chain leads there. */
function pathTo(
  wanted: string,
  from: string,
  graph: ReadonlyMap<string, OutcomeTopics>,
): readonly string[] | null {
  const seen = new Set<string>();
  const search = (at: string): readonly string[] | null => {
    if (at === wanted) return [at];
    if (seen.has(at)) return null;
    seen.add(at);
    for (const target of targetsOf(graph.get(at))) {
      const rest = search(target);
      if (rest !== null) return [at, ...rest];
    }
    return null;
  };
  return search(from);
}
