// problem.ts turns a DqError into a problem document (RFC 9457), the one shape of every error reply.
// Invariant: it adds nothing to the error's own text, so no stack and no path of this machine can leave.

import { catalogue, DqError, type FieldError, invalidField, restoring } from '../../core/errors.ts';
import { unknownName } from '../../core/suggest.ts';
import { type StoreError, storeFailed } from '../../ports/store-error.ts';
import { apiLimits } from '../limits.ts';
import { incompleteBody } from './read-body.ts';

export interface Problem {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** bytes: Fastify would add a charset to text, and application/problem+json has none */
  readonly bytes: Buffer;
}

/** `http`: status and title where HTTP has a more exact one than the catalogue (408, 417, 431). */
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
  if (status === 429) headers['retry-after'] = '60';
  if (status === 401) headers['www-authenticate'] = 'Bearer';
  if (error.code === 'method_not_allowed') headers['allow'] = String(error.extra['allow']);
  return { status, headers, bytes: Buffer.from(JSON.stringify(document)) };
}

/** A write reports whether it may have taken effect, a read only that it failed. */
export function storeProblem(error: StoreError, isRead: boolean): DqError {
  const { where, failure } = error;
  const { kind, code } = failure;
  if (code === 'restoring') return restoring();
  if (isRead) return storeFailed('unavailable', `${where}: unavailable`, failure, 'try again', error);
  return kind === 'not_stored'
    ? storeFailed('not_stored', `${where}: nothing was changed`, failure, 'try again', error)
    : new DqError('unknown', `${where}: the change may or may not have been made (${code})`, {
        cause: error,
      });
}

interface FastifyFailure {
  readonly code?: string;
  readonly statusCode?: number;
  readonly validation?: readonly Violation[];
  readonly validationContext?: string;
}

/** An Ajv error, as far as this file reads it. */
interface Violation {
  readonly keyword: string;
  readonly instancePath: string;
  readonly params: Readonly<Record<string, unknown>>;
  /** the violated schema */
  readonly parentSchema?: {
    readonly description?: string;
    readonly properties?: Readonly<Record<string, unknown>>;
    readonly required?: readonly string[];
  };
  /** the value that violates it */
  readonly data?: unknown;
  readonly message?: string;
}

/** Translates an error of Fastify; null for an unexpected one, which is a bug of dq. */
export function frameworkProblem(error: unknown): DqError | null {
  const { code, statusCode, validation, validationContext } = error as FastifyFailure;
  if (validation !== undefined) return validationProblem(validation, validationContext ?? 'body');
  switch (code) {
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return invalidField('content-type', 'must be a media type such as application/json');
    case 'FST_ERR_MAX_PARAM_LENGTH':
      return invalidField('path', 'has a segment longer than a topic or an id can be');
    case 'FST_ERR_BAD_URL':
      return invalidField('path', 'invalid percent-encoding; write %XX of UTF-8');
  }
  if (statusCode !== undefined && statusCode >= 400 && statusCode < 500) return incompleteBody(error);
  return null;
}

function validationProblem(violations: readonly Violation[], context: string): DqError {
  const errors = violations.flatMap((violation) => fieldsOf(violation, context));
  const [first] = errors;
  return new DqError('invalid', `${first?.field}: ${first?.message}`, { errors });
}

function fieldsOf(violation: Violation, context: string): readonly FieldError[] {
  const { keyword, instancePath, params, parentSchema, message } = violation;
  const path = instancePath
    .slice(1)
    .replace(/\/(\d+)/g, '[$1]')
    .replaceAll('/', '.');
  switch (keyword) {
    case 'additionalProperties':
    case 'required':
      return wrongNames(violation, path, context);
    case 'enum':
      return [
        { field: path, message: `must be one of ${JSON.stringify(params['allowedValues']).slice(1, -1)}` },
      ];
    case 'pattern':
      // The description instead of a regular expression: a person can act on it.
      return [{ field: path, message: `must be ${parentSchema?.description ?? 'of another form'}` }];
    case 'type':
      return [typeError(violation, path, context)];
    default:
      return [{ field: path === '' ? context : path, message: message ?? 'is invalid' }];
  }
}

/** `must be a JSON object`: a body without a path is the whole request. */
function typeError({ params }: Violation, path: string, context: string): FieldError {
  const types = [params['type']].flat().filter((type) => type !== 'null');
  return {
    field: path === '' ? context : path,
    message: `must be ${types.map((type) => typeNames[String(type)] ?? String(type)).join(' or ')}`,
  };
}

const typeNames: Readonly<Record<string, string>> = {
  object: 'a JSON object',
  array: 'a JSON list',
  string: 'a string',
  integer: 'a whole number',
  number: 'a number',
  boolean: 'true or false',
};

/** All unknown and missing names of one object: the validator stops at the first, and a misspelt name is
 *  both. */
function wrongNames({ data, parentSchema }: Violation, path: string, context: string): readonly FieldError[] {
  const { properties = {}, required = [] } = parentSchema ?? {};
  const inside = (name: string) => (path === '' ? name : `${path}.${name}`);
  const kind = context === 'querystring' ? 'query parameter' : 'field';
  const given = data as object;
  const unknown = Object.keys(given).filter((name) => !Object.hasOwn(properties, name));
  const missing = required.filter((name) => !Object.hasOwn(given, name));
  return [
    ...unknown.slice(0, apiLimits.unknownNamesMax).map((name) => ({
      field: inside(name),
      message: unknownName(kind, name, Object.keys(properties), 'GET /openapi.json lists them'),
    })),
    ...missing.map((name) => ({ field: inside(name), message: 'is required' })),
  ];
}
