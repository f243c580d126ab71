// Problem documents (RFC 9457): the one shape of every refusal. Turns a DqError into status, headers and text; adds nothing
// that the error does not say, so no stack and no path of this machine can leave.

import { catalogue, DqError, type FieldError } from '../../core/errors.ts';
import type { StoreError } from '../../ports/job-store.ts';

export interface Problem {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** bytes, because Fastify adds a charset to JSON text, and problem documents have none */
  readonly bytes: Buffer;
}

/** `status` and `title` where HTTP itself names the refusal better than the catalogue (408, 417, 431). */
export function problemOf(
  error: DqError,
  http?: { readonly status: number; readonly title: string },
): Problem {
  const { status, title } = http ?? catalogue[error.code];
  const document: { readonly [member: string]: unknown; readonly errors: readonly FieldError[] } = {
    title,
    status,
    detail: error.message,
    code: error.code,
    errors: error.errors,
    ...error.extra,
  };
  const headers: Record<string, string> = { 'content-type': 'application/problem+json' };
  if (status === 503) headers['retry-after'] = '1';
  if (status === 401) headers['www-authenticate'] = 'Bearer';
  return { status, headers, bytes: Buffer.from(JSON.stringify(document)) };
}

/** What a failed store means to the caller: a write says whether it may have happened, a read only that it did not work. */
export function storeProblem(error: StoreError, isRead: boolean): DqError {
  const { kind, code } = error.failure;
  if (isRead) return new DqError('unavailable', `the store does not answer (${code})`, { cause: error });
  return kind === 'not_stored'
    ? new DqError('not_stored', `nothing was changed (${code}); try again`, { cause: error })
    : new DqError('unknown', `the change may or may not have been made (${code})`, { cause: error });
}

interface FastifyFailure {
  readonly code?: string;
  readonly statusCode?: number;
  readonly validation?: readonly Violation[];
  readonly validationContext?: string;
}

/** Of Ajv, as far as it is read here. */
interface Violation {
  readonly keyword: string;
  readonly instancePath: string;
  readonly params: Readonly<Record<string, unknown>>;
  /** what the value was held against */
  readonly parentSchema?: { readonly description?: string };
  readonly message?: string;
}

/** What a refusal of the framework means in the words of the API; null for what it did not expect either: a bug of ours. */
export function frameworkProblem(error: unknown): DqError | null {
  const { code, statusCode, validation, validationContext } = error as FastifyFailure;
  if (validation !== undefined) return validationProblem(validation, validationContext ?? 'body');
  switch (code) {
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return fieldProblem('content-type', 'is no media type, such as application/json');
    case 'FST_ERR_MAX_PARAM_LENGTH':
      return fieldProblem('path', 'has a segment that is too long for a topic or an id');
    case 'FST_ERR_BAD_URL':
      return fieldProblem('path', 'has an escape that is no %XX of UTF-8');
  }
  if (statusCode !== undefined && statusCode >= 400 && statusCode < 500)
    return new DqError('invalid', 'the request broke off or its length is not what it said');
  return null;
}

function fieldProblem(field: string, message: string): DqError {
  return new DqError('invalid', `${field}: ${message}`, { errors: [{ field, message }] });
}

function validationProblem(violations: readonly Violation[], context: string): DqError {
  const errors = violations.map((violation) => fieldOf(violation, context));
  const [first] = errors;
  return new DqError('invalid', `${first?.field}: ${first?.message}`, { errors });
}

function fieldOf(
  { keyword, instancePath, params, parentSchema, message }: Violation,
  context: string,
): FieldError {
  const path = instancePath
    .slice(1)
    .replace(/\/(\d+)/g, '[$1]')
    .replaceAll('/', '.');
  const inside = (name: unknown) => (path === '' ? String(name) : `${path}.${name}`);
  switch (keyword) {
    case 'additionalProperties':
      return {
        field: inside(params['additionalProperty']),
        message: context === 'querystring' ? 'is no parameter of this call' : 'is no member of this object',
      };
    case 'required':
      return { field: inside(params['missingProperty']), message: 'is needed' };
    case 'enum':
      return {
        field: path,
        message: `must be one of ${JSON.stringify(params['allowedValues']).slice(1, -1)}`,
      };
    case 'pattern':
      // A regular expression tells a person nothing to do.
      return { field: path, message: `must be ${parentSchema?.description ?? 'of another form'}` };
    default:
      return { field: path === '' ? context : path, message: message ?? 'is not valid' };
  }
}
