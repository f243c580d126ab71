// The catalogue of errors, one code each. The API turns a DqError into application/problem+json, the command
// line into one sentence and an exit code. No stack trace leaves the process.

export const catalogue = {
  invalid: { status: 400, title: 'Invalid request' },
  malformed_json: { status: 400, title: 'Malformed JSON' },
  unauthorized: { status: 401, title: 'Unauthorized' },
  forbidden: { status: 403, title: 'Forbidden' },
  no_route: { status: 404, title: 'No such route' },
  method_not_allowed: { status: 405, title: 'Method not allowed' },
  topic_not_found: { status: 404, title: 'No such topic' },
  job_not_found: { status: 404, title: 'No such job' },
  token_not_found: { status: 404, title: 'No such token' },
  session_not_found: { status: 404, title: 'No such session' },
  operation_not_found: { status: 404, title: 'No such operation' },
  schedule_not_found: { status: 404, title: 'No such schedule' },
  shard_not_found: { status: 404, title: 'No such shard' },
  job_exists: { status: 409, title: 'A job with this id is live' },
  token_exists: { status: 409, title: 'A token of this name exists' },
  topic_exists: { status: 409, title: 'Topic exists' },
  schedule_exists: { status: 409, title: 'The schedule cannot be created' },
  schedule_changed: { status: 409, title: 'The schedule was changed' },
  topic_has_jobs: { status: 409, title: 'Topic still has jobs' },
  topic_in_use: { status: 409, title: 'Another topic needs it' },
  topic_offline: { status: 409, title: 'Topic is offline' },
  topic_not_push: { status: 409, title: 'The topic has no callback' },
  lease_lost: { status: 409, title: 'The lease is lost' },
  topic_not_pull: { status: 409, title: 'dq delivers the jobs of the topic' },
  job_in_flight: { status: 409, title: 'An attempt is running' },
  job_dead: { status: 409, title: 'Job is dead' },
  no_shards: { status: 409, title: 'The jobs are not in Redis' },
  no_journal: { status: 409, title: 'dq keeps no journal' },
  job_ended: { status: 409, title: 'The job has ended' },
  shard_refused: { status: 409, title: 'The server cannot be a shard' },
  shard_in_use: { status: 409, title: 'The shard is needed' },
  work_running: { status: 409, title: 'The same work is already running' },
  trial_impossible: { status: 409, title: 'The trial cannot run here' },
  too_many_operations: { status: 409, title: 'Too many open operations' },
  not_dead: { status: 409, title: 'Job is not dead' },
  topic_changed: { status: 412, title: 'Topic has changed' },
  job_changed: { status: 412, title: 'Job has changed' },
  body_too_large: { status: 413, title: 'Body too large' },
  unsupported_media_type: { status: 415, title: 'Unsupported media type' },
  too_many_sign_ins: { status: 429, title: 'Too many failed sign-ins' },
  too_many_test_calls: { status: 429, title: 'Too many test calls' },
  smtp_failed: { status: 502, title: 'The mail server rejected the mail' },
  hook_failed: { status: 502, title: 'The hook rejected the alert' },
  shard_unreachable: { status: 503, title: 'The shard does not answer' },
  restoring: { status: 503, title: 'Lost jobs are being put back' },
  not_stored: { status: 503, title: 'Not stored' },
  unknown: { status: 503, title: 'Outcome unknown' },
  survey_busy: { status: 503, title: 'Too many searches at once' },
  unavailable: { status: 503, title: 'Temporarily unavailable' },
} as const;

export type ErrorCode = keyof typeof catalogue;

/** One mistake in the input, named as the caller wrote it. */
export interface FieldError {
  /** `delay`, `items[3].at`, `retryIf` */
  readonly field: string;
  /** the mistake and the remedy */
  readonly message: string;
  /** characters from 0 into the field's text */
  readonly position?: number;
}

/** An operational failure that a caller can act on. Programmer errors are plain Errors and end the
 *  process. */
export class DqError extends Error {
  readonly code: ErrorCode;
  readonly errors: readonly FieldError[];
  /** further members of the problem document, such as the generated id of an unknown push */
  readonly extra: Readonly<Record<string, unknown>>;
  /** The detail for callers that may see the servers: names the one that failed, its error and the remedy. */
  readonly namingServer: string | undefined;
  /** The whole error, for callers that may see these topics. */
  readonly naming: { readonly topics: readonly string[]; readonly error: DqError } | undefined;

  constructor(
    code: ErrorCode,
    detail: string,
    options: {
      errors?: readonly FieldError[];
      extra?: Record<string, unknown>;
      namingServer?: string | undefined;
      naming?: DqError['naming'];
      cause?: unknown;
    } = {},
  ) {
    super(detail, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'DqError';
    this.code = code;
    this.errors = options.errors ?? [];
    this.extra = options.extra ?? {};
    this.namingServer = options.namingServer;
    this.naming = options.naming;
  }
}

/** An error of a single field. */
export function invalidField(field: string, message: string, position?: number): DqError {
  const error: FieldError = position === undefined ? { field, message } : { field, message, position };
  return new DqError('invalid', `${field}: ${message}`, { errors: [error] });
}

/** The store lost changes, and the journal puts them back. */
export function restoring(): DqError {
  return new DqError(
    'restoring',
    'Redis lost changes and dq puts them back; whether this job exists is not known yet; try again',
  );
}

/** The message of a failed connection. `localhost` has two addresses, and the AggregateError of both has no
 *  message. */
export function wordsOf(error: unknown): string {
  return error instanceof AggregateError
    ? [...new Set(error.errors.map(messageOf))].join(', ')
    : messageOf(error);
}

/** The one-line message of any thrown value and of its cause, for logs and error messages. */
export function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const cause =
    error.cause instanceof Error && !error.message.includes(error.cause.message)
      ? `: ${error.cause.message}`
      : '';
  return `${error.message}${cause}`;
}

/** Collects everything that is wrong with one input: a caller with five bad fields gets all five. */
export class FieldErrors {
  readonly #errors: FieldError[] = [];

  /** Returns undefined, so that a parser can reject and return in one statement. */
  reject(field: string, message: string, position?: number): undefined {
    this.#errors.push(position === undefined ? { field, message } : { field, message, position });
  }

  /** rejections so far */
  get count(): number {
    return this.#errors.length;
  }

  /** The field or one of its members. */
  has(field: string): boolean {
    return this.#errors.some((error) => error.field === field || error.field.startsWith(`${field}.`));
  }

  /** null when nothing was rejected. */
  error(): DqError | null {
    const errors = this.#errors;
    const [first] = errors;
    if (first === undefined) return null;
    const rest = errors.length > 1 ? ` (and ${errors.length - 1} more)` : '';
    return new DqError('invalid', `${first.field}: ${first.message}${rest}`, { errors });
  }

  throwIfAny(): void {
    const error = this.error();
    if (error !== null) throw error;
  }
}
