// What a topic is: a registered kind of job with its callback, policy and limits (http-api.md, "Topics").
// Records and defaults only; parsing what a user wrote is settings.ts.

import type { Priority } from '../job.ts';

export type TopicState = 'active' | 'paused' | 'offline';

/** The wait after failed attempt n+1 (n = failed attempts before it), without jitter. */
export type Backoff =
  /** (2n+1) × retry.unit: 1, 3, 5 … minutes */
  | { readonly type: 'odd' }
  /** one step after the other, the last repeats */
  | { readonly type: 'ladder'; readonly stepsMs: readonly number[] }
  /** min(cap, base × factor^n) */
  | {
      readonly type: 'exponential';
      readonly baseMs: number;
      readonly factor: number;
      readonly capMs: number;
    };

export interface TopicSettings {
  readonly title: string;
  readonly owner: string;
  /** normalised by the WHATWG URL parser */
  readonly callbackUrl: string;
  readonly method: 'POST' | 'PUT' | 'GET';
  readonly format: 'raw' | 'form';
  /** lower-case names */
  readonly headers: Readonly<Record<string, string>>;
  readonly delayMs: number;
  /** of a whole attempt, DNS to last byte */
  readonly timeoutMs: number;
  /** source of the retry rule; '' = none */
  readonly retryIf: string;
  /** "2xx" or "204" */
  readonly okStatus: readonly string[];
  readonly emptyReply: 'retry' | 'accept';
  readonly maxAttempts: number;
  readonly backoff: Backoff;
  /** share of the delay that is added at random, 0–0.5 */
  readonly jitter: number;
  readonly priority: Priority;
  /** callbacks in flight per instance */
  readonly concurrency: number;
  /** callbacks per second and instance; 0 = no limit */
  readonly rate: number;
  readonly alertEmails: readonly string[];
  readonly dangerouslySkipTlsVerify: boolean;
}

export interface TopicSecret {
  /** whsec_ + base64 of 24–64 bytes */
  readonly secret: string;
  /** null = current; else it signs beside the current one until then (epoch ms) */
  readonly untilAt: number | null;
}

export interface Topic extends TopicSettings {
  readonly topic: string;
  readonly state: TopicState;
  /** the current one first */
  readonly secrets: readonly TopicSecret[];
  /** A removal is under way, and set the topic offline for that: what it goes back to when the removal does not come to its end. Only
   *  of offline topics. */
  readonly removal?: { readonly formerState: TopicState };
  /** rises with every change of any topic in the registry */
  readonly revision: number;
  readonly createdAt: number;
  readonly updatedAt: number;
}

/** A topic without what is only needed to call it. */
export type PlainTopic = Omit<Topic, 'secrets' | 'headers'>;

/** A topic as caches hold it: decrypting is left to open(), so that 100,000 topics cost a process little before they are called. */
export interface KnownTopic extends PlainTopic {
  /** Throws where the secrets or headers cannot be decrypted. */
  open(): Topic;
}

/** A topic that is open already. */
export function asKnown({ secrets, headers, ...rest }: Topic): KnownTopic {
  return { ...rest, open: () => ({ ...rest, secrets, headers }) };
}

export const topicDefaults: Omit<TopicSettings, 'callbackUrl'> = {
  title: '',
  owner: '',
  method: 'POST',
  format: 'raw',
  headers: {},
  delayMs: 0,
  timeoutMs: 3_000,
  retryIf: '',
  okStatus: ['2xx'],
  // of the default format; see defaultEmptyReply
  emptyReply: 'accept',
  maxAttempts: 10,
  backoff: { type: 'odd' },
  jitter: 0,
  priority: 'normal',
  concurrency: 64,
  rate: 0,
  alertEmails: [],
  dangerouslySkipTlsVerify: false,
};

/** Default of emptyReply for a format: receivers of php-delayqueue, which get `form`, must answer with a body, and
 *  an empty reply of theirs is a crash; other receivers often answer with a status alone. */
export function defaultEmptyReply(format: TopicSettings['format']): TopicSettings['emptyReply'] {
  return format === 'form' ? 'retry' : 'accept';
}

export const topicNamePattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;
