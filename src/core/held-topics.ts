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

const howHeld = {
  paused: 'was paused',
  offline: 'was taken offline',
  active: 'is pulled by clients now',
  unreadable: 'has an unreadable record',
  removed: 'was removed',
} as const satisfies Record<TopicState | 'unreadable' | 'removed', string>;

/** A sentence on a topic whose jobs wait, which dq called before. */
export function heldText(topic: string, state: keyof typeof howHeld, jobs: number): string {
  const wait = `${jobs} job${jobs === 1 ? ' waits' : 's wait'}, none is called`;
  const command = state === 'paused' || state === 'offline' ? 'topic resume' : 'explain';
  return `${topic} ${howHeld[state]}: ${wait}; dq ${command} ${topic}`;
}
