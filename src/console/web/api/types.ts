// Replies of the API, as far as the console reads them.

export interface Page<T> {
  readonly items: readonly T[];
  readonly nextCursor: string | null;
  /** shards that did not answer */
  readonly missing?: readonly string[];
}

export interface States {
  readonly delayed: number;
  readonly ready: number;
  readonly reserved: number;
  readonly dead: number;
}

export interface Counts {
  readonly pushed: number;
  readonly delivered: number;
  readonly retried: number;
  readonly dead: number;
  readonly cancelled: number;
}

export interface Summary {
  readonly topics: { readonly active: number; readonly paused: number; readonly offline: number };
  readonly states: States;
  readonly today: Counts;
  readonly oldestOverdueMs: number | null;
  /** stored jobs without a registered topic */
  readonly orphaned: number;
  readonly warnings: readonly string[];
  readonly incidents: readonly {
    readonly kind: string;
    readonly about: string;
    readonly since: string;
    readonly detail: string;
  }[];
  readonly attention: readonly {
    readonly topic: string;
    readonly title: string;
    readonly state: TopicJson['state'] | null;
    readonly reasons: readonly string[];
    readonly today: Counts;
    readonly states: States;
  }[];
  /** the daemon's clock, RFC 3339 */
  readonly now: string;
  readonly missing?: readonly string[];
}

export interface TopicJson {
  readonly topic: string;
  readonly title: string;
  readonly owner: string;
  readonly state: 'active' | 'paused' | 'offline';
  readonly delivery: 'push' | 'pull' | 'mq';
  /** null: not called */
  readonly callbackUrl: string | null;
  /** of delivery mq */
  readonly target: { readonly broker: string; readonly to: string; readonly key: string | null } | null;
  /** of a pulled job */
  readonly lease: string;
  readonly method: string;
  readonly format: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly delay: string;
  readonly timeout: string;
  readonly retryIf: string | null;
  readonly okStatus: readonly string[];
  readonly emptyReply: string;
  readonly maxAttempts: number;
  /** "2n+1", a ladder of waits, or a formula */
  readonly backoff:
    | string
    | readonly string[]
    | { readonly type: 'exponential'; readonly base: string; readonly factor: number; readonly cap: string };
  readonly jitter: number;
  readonly priority: string;
  readonly concurrency: number;
  readonly rate: number;
  readonly alertEmails: readonly string[];
  readonly alertHooks: readonly string[];
  readonly dangerouslySkipTlsVerify: boolean;
  readonly revision: number;
  readonly createdAt: string;
  readonly updatedAt: string;
}

export interface TopicStats {
  readonly topic: string;
  readonly total: Counts;
  readonly today: Counts;
  readonly states: States;
}

export interface Stats {
  readonly topics: readonly (TopicStats & { readonly registered: boolean })[];
}

export interface CapacityReason {
  readonly code: string;
  readonly message: string;
  readonly remedy: string;
  readonly values: Readonly<Record<string, number | string>>;
}

export interface Capacity {
  readonly states: States | null;
  readonly reasons: readonly CapacityReason[];
  readonly notifiers: readonly {
    readonly notifier: string;
    readonly reasons: readonly CapacityReason[] | null;
  }[];
}

export interface JobSummary {
  readonly topic: string;
  readonly id: string;
  readonly version: string;
  readonly state: 'delayed' | 'ready' | 'reserved' | 'dead' | 'done' | 'cancelled' | 'purged' | 'expired';
  readonly dueAt: string;
  readonly createdAt: string;
  /** finished attempts */
  readonly attempt: number;
  readonly deadAt?: string;
  readonly endedAt?: string;
}

export interface AttemptJson {
  readonly attempt: number;
  readonly startedAt: string;
  readonly durationMs: number;
  readonly outcome: 'delivered' | 'failed';
  readonly status: number | null;
  readonly reason: string | null;
  readonly replyExcerpt: string;
  readonly notifier: string;
  readonly host: string;
  readonly traceparent?: string;
  readonly latenessMs?: number;
  readonly detail?: string;
  readonly ruleValues?: Readonly<Record<string, string>>;
  readonly replyHeaders?: readonly string[];
  readonly nextDelayMs?: number;
  readonly nextBy?: 'backoff' | 'retry_after';
}

export interface FlowJson {
  /** false: what the store still knows */
  readonly journal: boolean;
  /** oldest first */
  readonly entries: readonly {
    readonly at: string;
    readonly version: string | null;
    readonly event: string;
    readonly dueAt: string | null;
    readonly process: string | null;
    readonly host: string | null;
    readonly place: string | null;
    readonly attempt: AttemptJson | null;
  }[];
}

export interface WhyJson {
  readonly code: string;
  readonly at?: string;
  readonly held?: string;
  readonly ahead?: number | null;
  readonly since?: string | null;
  readonly notifier?: string | null;
  readonly reasons?: readonly CapacityReason[];
}

export interface JobJson extends JobSummary {
  /** of a dead or ended job */
  readonly keptUntil?: string;
  readonly maxAttempts: number | null;
  readonly backoff?: TopicJson['backoff'];
  readonly deadline?: string;
  readonly lease?: string;
  readonly traceparent?: string;
  readonly why: WhyJson;
  readonly webhookId: string;
  readonly buryReason?: string;
  readonly alert?: string | null;
  readonly strikes?: number;
  readonly shard?: string | null;
  readonly nextAttempts?: readonly { readonly attempt: number; readonly at: string }[];
  readonly bytes?: number;
  readonly contentType?: string | null;
  readonly body?: string;
  readonly bodyBase64?: string;
  readonly attempts: readonly AttemptJson[];
}

// Operations

export interface OperationFilter {
  readonly topic?: string;
  readonly ids?: readonly string[];
  /** of the ids, in their order */
  readonly versions?: readonly string[];
  readonly idPrefix?: string;
  readonly state?: string;
  readonly since?: string;
  readonly until?: string;
  readonly reason?: string;
  readonly lastReason?: string;
  readonly status?: string;
}

export type OperationKind = 'requeue' | 'purge' | 'cancel' | 'run' | 'reschedule' | 'clear' | 'restore';

export interface OperationInput {
  readonly kind: OperationKind;
  readonly filter: OperationFilter;
  readonly spread?: string;
  readonly delay?: string;
  readonly at?: string;
  /** restore: what happens with jobs whose due time has passed */
  readonly overdue?: 'fire' | 'spread' | 'skip';
  readonly dryRun?: boolean;
}

export interface OperationJson {
  readonly id: string;
  readonly kind: OperationKind;
  readonly state: 'not_started' | 'running' | 'stopped' | 'finished' | 'failed';
  readonly filter: Omit<OperationFilter, 'ids'> & { readonly idCount?: number };
  readonly topics: readonly string[];
  /** ms */
  readonly spread: number | null;
  readonly rate: number | null;
  readonly at: string | null;
  readonly dryRun: boolean;
  readonly actor: string;
  readonly matched: number | null;
  readonly done: number;
  readonly skipped: number;
  readonly failed: number;
  readonly failures: readonly { readonly topic: string; readonly id: string; readonly error: string }[];
  readonly problem: string | null;
  readonly perSecond: number | null;
  readonly leftMs: number | null;
  readonly createdAt: string;
  readonly startedAt: string | null;
  readonly endedAt: string | null;
}

export interface DeadGroup {
  readonly topic: string;
  readonly lastReason: string | null;
  readonly status: number | null;
  readonly count: number;
  readonly firstAt: string;
  readonly lastAt: string;
  /** per hour, oldest first */
  readonly hours: readonly number[];
}

export interface DeadGroups {
  readonly groups: readonly DeadGroup[];
  readonly examined: number;
  readonly complete: boolean;
}

export interface DeadJson {
  readonly topic: string;
  readonly id: string;
  readonly version: string;
  readonly deadAt: string;
  readonly reason: string;
  readonly lastReason: string | null;
  readonly status: number | null;
  readonly attempt: number;
  readonly replyExcerpt: string;
  readonly dueAt: string;
  readonly createdAt: string;
}

// surveys

export interface HorizonJson {
  /** waiting jobs due within the time, and not within the one before; core/horizon.ts names the classes */
  readonly classes: readonly { readonly upTo: string; readonly count: number }[];
  readonly total: number;
  readonly at: string;
}

// Attempts, endpoint, test call

export interface AttemptSampleJson extends Omit<AttemptJson, 'host'> {
  readonly topic: string;
  readonly id: string;
  readonly version: string;
  readonly latenessMs: number;
  /** '' where the reply tells */
  readonly detail: string;
  readonly origin: string;
}

export interface AttemptsJson {
  readonly items: readonly AttemptSampleJson[];
  readonly since: string;
  readonly host: string;
}

export interface EndpointJson {
  readonly origin: string;
  readonly topics: readonly string[];
  readonly topicCount: number;
  readonly state: 'healthy' | 'failing' | 'probing';
  readonly inFlight: number;
  readonly failuresInRow: number;
  readonly lastSuccessAt: string | null;
  readonly lastFailureAt: string | null;
  readonly lastReason: string | null;
  readonly attempts: number;
  readonly successRate: number | null;
  readonly p95Ms: number | null;
}

export interface EndpointsJson {
  readonly items: readonly EndpointJson[];
  readonly silent: readonly string[];
  readonly host: string;
}

export interface TestCallJson {
  readonly request: {
    readonly method: string;
    readonly url: string;
    readonly headers: Readonly<Record<string, string>>;
    readonly body: string;
  };
  readonly reply: {
    readonly status: number;
    readonly headers: readonly string[];
    readonly body: string;
    readonly cut: boolean;
  } | null;
  readonly phases: Readonly<
    Record<'lookupMs' | 'connectMs' | 'tlsMs' | 'waitMs' | 'readMs', number | null>
  > & {
    readonly totalMs: number;
  };
  readonly verdict: {
    readonly outcome: 'delivered' | 'failed' | 'not_started';
    readonly reason: string | null;
    readonly detail: string;
    readonly next: 'ack' | 'retry' | 'bury' | null;
    readonly delayMs: number | null;
  };
  readonly ruleValues: Readonly<Record<string, string>> | null;
  readonly notifier: string;
}

// series

export type Column = readonly (number | null)[];

export interface Timing<T> {
  readonly p50: T;
  readonly p95: T;
  readonly p99: T;
  readonly max: T;
}

/** null: not recorded */
export interface Series {
  /** seconds */
  readonly step: number;
  /** epoch ms */
  readonly at: readonly number[];
  readonly unfinished: boolean;
  readonly pushed: Column;
  readonly delivered: Column;
  readonly failed: Column;
  readonly retried: Column;
  readonly dead: Column;
  readonly lateness: Timing<Column>;
  readonly duration: Timing<Column>;
  readonly states: Readonly<Record<keyof States, Column>>;
  readonly reasons: readonly {
    readonly reason: string;
    readonly status: number | null;
    readonly total: number;
  }[];
  readonly totals: Counts & {
    readonly failed: number;
    readonly firstAttempts: number;
    readonly firstDelivered: number;
    readonly recordedSteps: number;
    readonly lateness: Timing<number | null>;
    readonly duration: Timing<number | null>;
  };
}

export interface TopicSeries {
  readonly at: readonly number[];
  readonly topics: readonly {
    readonly topic: string;
    readonly delivered: Column;
    readonly failed: Column;
    readonly durationP95: Column;
  }[];
}

// Audit log

export interface AuditEntry {
  readonly id: string;
  readonly at: string;
  /** '' : a failed sign-in */
  readonly actor: string;
  readonly address: string;
  /** operationId */
  readonly action: string;
  readonly topic: string | null;
  readonly jobId: string | null;
  readonly detail: {
    readonly changes?: readonly {
      readonly field: string;
      readonly before: unknown;
      readonly after: unknown;
    }[];
    readonly filter?: Readonly<Record<string, unknown>>;
    readonly count?: number;
  } | null;
  readonly status: number;
  readonly code: string | null;
}

export interface TopicPreview {
  readonly errors: readonly {
    readonly field: string;
    readonly message: string;
    readonly position?: number;
  }[];
  readonly waitsMs: readonly number[] | null;
  readonly totalMs: number | null;
  readonly destination: {
    readonly host: string;
    readonly addresses: readonly string[];
    readonly verdict: 'allowed' | 'refused' | 'unknown';
    readonly reason: string | null;
  } | null;
}
