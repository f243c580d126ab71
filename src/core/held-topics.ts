// Topics whose jobs dq does not call, whatever its notifiers do: the record that the API and dq doctor show.

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
