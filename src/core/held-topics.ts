// Topics whose jobs dq does not call, whatever its notifiers do: the record that the API and dq doctor show,
// and the sentence of the incidents.

import type { TopicState } from './topic/topic.ts';

export const heldReasons = ['offline', 'paused', 'not_registered', 'unreadable', 'unknown_broker'] as const;

export interface HeldTopic {
  readonly topic: string;
  readonly why: (typeof heldReasons)[number];
  /** delayed and ready jobs */
  readonly jobs: number;
}

/** Only topics with delayed or ready jobs. */
export interface HeldTopics {
  /** their number */
  readonly topics: number;
  readonly jobs: number;
  /** some of them, those with the most jobs first */
  readonly most: readonly HeldTopic[];
}

/** A sentence on a topic whose jobs wait, which dq called before. `state`: undefined: not registered, or
 *  unreadable */
export function heldText(topic: string, state: TopicState | undefined, jobs: number): string {
  const how = state === 'paused' ? 'was paused' : state === 'offline' ? 'was taken offline' : 'is not known';
  const wait = `${jobs} job${jobs === 1 ? ' waits' : 's wait'}, none is called`;
  return `${topic} ${how}: ${wait}; dq ${state === undefined ? 'explain' : 'topic resume'} ${topic}`;
}
