// The catalogue of everything dq refuses or fails at, one code each, as http-api.md lists them. The intake turns a DqError
// into application/problem+json, the command line into one sentence and an exit code. No stack trace leaves the process.

export const catalogue = {
  invalid: { status: 400, title: 'Invalid request' },
  malformed_json: { status: 400, title: 'Malformed JSON' },
  not_built: { status: 400, title: 'Not available in this version' },
  unauthorized: { status: 401, title: 'Unauthorized' },
  forbidden: { status: 403, title: 'Forbidden' },
  no_route: { status: 404, title: 'No such route' },
  topic_not_found: { status: 404, title: 'No such topic' },
  job_not_found: { status: 404, title: 'No such job' },
  token_not_found: { status: 404, title: 'No such token' },
  shard_not_found: { status: 404, title: 'No such shard' },
  job_exists: { status: 409, title: 'A job with this id is live' },
  token_exists: { status: 409, title: 'A token of this name exists' },
  topic_exists: { status: 409, title: 'Topic exists' },
  topic_has_jobs: { status: 409, title: 'Topic still has jobs' },
  topic_offline: { status: 409, title: 'Topic is offline' },
  job_in_flight: { status: 409, title: 'An attempt is running' },
  job_dead: { status: 409, title: 'Job is dead' },
  no_shards: { status: 409, title: 'The jobs are not in Redis' },
  shard_refused: { status: 409, title: 'This server can be no shard' },
  shard_in_use: { status: 409, title: 'The shard is needed' },
  work_running: { status: 409, title: 'Another such work is running' },
  not_dead: { status: 409, title: 'Job is not dead' },
  body_too_large: { status: 413, title: 'Body too large' },
  unsupported_media_type: { status: 415, title: 'Unsupported media type' },
  smtp_failed: { status: 502, title: 'The mail server did not take it' },
  shard_unreachable: { status: 503, title: 'The shard does not answer' },
  not_stored: { status: 503, title: 'Not stored' },
  unknown: { status: 503, title: 'Outcome unknown' },
  unavailable: { status: 503, title: 'Temporarily unavailable' },
} as const;

export type ErrorCode = keyof typeof catalogue;

/** One thing wrong with the input, named as the caller wrote it. */
export interface FieldError {
  /** `delay`, `items[3].at`, `retryIf` */
  readonly field: string;
  /** what is wrong and what would be right */
  readonly message: string;
  /** characters from 0, where a text has a place to point at */
  readonly position?: number;
}

/** An operational failure that a caller can act on. Programmer errors are plain Errors and end the process. */
export class DqError extends Error {
  readonly code: ErrorCode;
  readonly errors: readonly FieldError[];
  /** further members of the problem document, such as the id that was made for an unknown push */
  readonly extra: Readonly<Record<string, unknown>>;

  constructor(
    code: ErrorCode,
    detail: string,
    options: { errors?: readonly FieldError[]; extra?: Record<string, unknown>; cause?: unknown } = {},
  ) {
    super(detail, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'DqError';
    this.code = code;
    this.errors = options.errors ?? [];
    this.extra = options.extra ?? {};
  }
}

/** A single bad field: the whole message is the field's. */
export function invalidField(field: string, message: string, position?: number): DqError {
  const error: FieldError = position === undefined ? { field, message } : { field, message, position };
  return new DqError('invalid', `${field}: ${message}`, { errors: [error] });
}

/** Of a failed connection: what the server or the system said. `localhost` is tried on two addresses, and the error of the pair
 *  has no message of its own. */
export function wordsOf(error: unknown): string {
  return error instanceof AggregateError
    ? [...new Set(error.errors.map(reasonOf))].join(', ')
    : reasonOf(error);
}

/** The one-line reason of anything thrown, for logs and refusals. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const cause =
    error.cause instanceof Error && !error.message.includes(error.cause.message)
      ? `: ${error.cause.message}`
      : '';
  return `${error.message}${cause}`;
}
