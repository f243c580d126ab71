// Declares what servers, the console and dq-upkeep ask the notifiers and dq-upkeep of their instance. The
// messages `ask` and `answer` carry the questions through the master (worker-relay.ts, master-questions.ts).
// Invariant: an asker has null for a process that does not know a question, because versions mix in an
// upgrade.

import type { CapacityReason } from '../core/capacity-reasons.ts';
import type { EndpointPart, TopicFailures } from '../core/endpoint.ts';
import type { AttemptReason, AttemptRecord, JobKey, Version } from '../core/job.ts';
import type { Topic } from '../core/topic/topic.ts';
import type { LongWork, Problem } from '../ports/job-store.ts';

/** By name: the role that answers, the parameters, and the answer. All of them are JSON. */
export interface Questions {
  /** why a notifier calls no job of a topic, or few */
  readonly capacity: Asked<'notifier', { readonly topic: string }, readonly CapacityReason[]>;
  /** since when a notifier calls a version of a job, epoch ms by the storage clock; null: it does not */
  readonly running: Asked<'notifier', JobKey & { readonly version: Version }, number | null>;
  /** the endpoints of visible topics that the notifier has called; with a topic: only that of its URL; with
   *  origins: those of them, also where it has called many others since */
  readonly endpoints: Asked<
    'notifier',
    TopicFilter & { readonly origins?: readonly string[] },
    readonly EndpointPart[]
  >;
  /** the visible topics with failed attempts within the window of endpoints, or since their last success;
   *  with names: those that the notifier has called, also without failures */
  readonly failures: Asked<
    'notifier',
    Pick<TopicFilter, 'topics'> & { readonly names?: readonly string[] },
    readonly TopicFailures[]
  >;
  /** of those failures in a row what earlier notifiers counted, and what the living ones said last */
  readonly past_failures: Asked<'upkeep', Questions['failures']['params'], readonly TopicFailures[]>;
  /** makes one call that changes nothing. Asked of one notifier; takes up to the topic's timeout */
  readonly test_call: Asked<'notifier', TestCall, TestCallResult>;
  /** samples of the newest attempts of visible topics, newest first. `since`: epoch ms, when they begin */
  readonly attempts: Asked<
    'upkeep',
    TopicFilter & { readonly outcome: SampleOutcome | null; readonly limit: number },
    { readonly since: number; readonly attempts: readonly AttemptSample[] }
  >;
  /** why the move of a jobs.db to Redis waits; null: it does not, or there is none */
  readonly move_problem: Asked<'upkeep', null, string | null>;
  /** age of the oldest change that is not in MySQL, ms; null: no journal */
  readonly journal_lag: Asked<'upkeep', null, number | null>;
  /** starts a check of the journal, or only says how the last one is doing */
  readonly journal_fsck: Asked<'upkeep', { readonly starts: boolean }, LongWork<readonly Problem[]> | null>;
}

interface TopicFilter {
  /** null: all visible topics */
  readonly topic: string | null;
  /** names and globs of the caller's rights */
  readonly topics: readonly string[];
}

interface Asked<To extends AskedRole, Params, Answer> {
  readonly to: To;
  readonly params: Params;
  readonly answer: Answer;
}

export type AskedRole = 'upkeep' | 'notifier';
export type QuestionName = keyof Questions;

/** A question in a message; receivers ignore names that they do not know. */
export interface Question {
  readonly name: string;
  readonly params: unknown;
}

/** The answer of one process. */
export interface AnswerOf<T> {
  /** its title, `dq-notifier-0` */
  readonly process: string;
  /** null: it did not answer in time */
  readonly answer: T | null;
}

/** again: the call ended in a snooze */
export type SampleOutcome = AttemptRecord['outcome'] | 'again';

/** An attempt as dq-upkeep keeps it in its ring: for people who watch, not for jobs. Notifiers send samples
 *  in the message `attempts`. JSON. */
export interface AttemptSample
  extends JobKey,
    Pick<
      AttemptRecord,
      'attempt' | 'startedAt' | 'durationMs' | 'reason' | 'status' | 'replyExcerpt' | 'notifier'
    > {
  readonly outcome: SampleOutcome;
  readonly version: Version;
  /** from the due time to the start, ms */
  readonly latenessMs: number;
  /** of the URL that was called */
  readonly origin: string;
  /** the failure of a call without a whole reply; '' otherwise */
  readonly detail: string;
}

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
    readonly outcome: 'delivered' | 'again' | 'failed' | 'not_started';
    readonly reason: AttemptReason | null;
    /** the failure in words; '' where the reply says it */
    readonly detail: string;
    /** what would follow for a job after its first attempt; null: not_started */
    readonly next: 'ack' | 'again' | 'retry' | 'bury' | null;
    /** until the next attempt; null: none follows */
    readonly delayMs: number | null;
  };
  /** value of each reference of the topic's rules, as JSON; null: no rule or no reply */
  readonly ruleValues: Readonly<Record<string, string>> | null;
}
