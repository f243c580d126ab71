// TestCall and TestCallResult: one call of a topic's callback that an operator asks for. A server sends it to
// a notifier, which makes the call. Both are JSON.

import type { AttemptReason } from '../core/job.ts';
import type { Topic } from '../core/topic/topic.ts';

export interface TestCall {
  /** as stored, or a draft */
  readonly topic: Topic;
  /** as a push would have it */
  readonly body: string;
  readonly contentType: string | null;
}

export interface TestCallResult {
  readonly request: {
    readonly method: string;
    readonly url: string;
    readonly headers: Readonly<Record<string, string>>;
    readonly body: string;
  };
  /** null: no whole reply */
  readonly reply: {
    readonly status: number;
    /** `name: value`, without secrets */
    readonly headers: readonly string[];
    /** the first notifierLimits.testReplyMax characters */
    readonly body: string;
    readonly cut: boolean;
  } | null;
  /** ms; null: did not take place. A kept connection needs no look-up, connect or TLS */
  readonly phases: Readonly<
    Record<'lookupMs' | 'connectMs' | 'tlsMs' | 'waitMs' | 'readMs', number | null>
  > & {
    readonly totalMs: number;
  };
  readonly verdict: {
    /** `not_started`: the look-up of the host name got no turn; no request was sent */
    readonly outcome: 'delivered' | 'failed' | 'not_started';
    readonly reason: AttemptReason | null;
    /** the failure in words; '' where the reply tells */
    readonly detail: string;
    /** what would follow for a job after its first attempt; null: not_started */
    readonly next: 'ack' | 'retry' | 'bury' | null;
    /** until the next attempt; null: none follows */
    readonly delayMs: number | null;
  };
  /** value of each reference of the retry rule, as JSON; null: no rule or no reply */
  readonly ruleValues: Readonly<Record<string, string>> | null;
}
