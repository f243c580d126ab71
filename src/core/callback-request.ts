// Builds path, body and content type of one attempt from the topic's method and format. Pure. delivery.ts
// builds the headers and signs these bytes. Format form: fields for receivers written for php-delayqueue.
// Invariant: a form is plain ASCII in which `&`, `=` and `%` have their form meaning, for every pushed body.

import type { Clock } from './calendar.ts';
import type { ReservedJob } from './job.ts';
import { namedMembers } from './json-text.ts';
import type { Topic } from './topic/topic.ts';

interface CallbackRequest {
  /** with the query */
  readonly path: string;
  /** the bytes that are sent and signed; empty for a GET */
  readonly body: Buffer;
  /** null = dq sends none */
  readonly contentType: string | null;
}

const nothing = Buffer.alloc(0);

/** `path`: of the callback URL, with its query. */
export function callbackRequest(
  job: Pick<ReservedJob, 'body' | 'contentType' | 'dueAt' | 'acceptedAt' | 'failures'>,
  topic: Pick<Topic, 'method' | 'format'>,
  path: string,
  clock: Clock,
): CallbackRequest {
  if (topic.format !== 'form') return { path, body: job.body, contentType: job.contentType };
  const fields = formFields(job.body);
  addOwn(fields, job, clock);
  if (topic.method === 'GET') return { path: addToQuery(path, fields), body: nothing, contentType: null };
  return { path, body: Buffer.from(writeForm(fields)), contentType: 'application/x-www-form-urlencoded' };
}

/** Fields of dq replace fields of the body in their places, as PHP's assignment to an existing member
 *  does. */
function addOwn(
  fields: FormFields,
  job: Pick<ReservedJob, 'dueAt' | 'acceptedAt' | 'failures'>,
  clock: Clock,
): void {
  fields.set('notify_time', clock(job.dueAt));
  fields.set('dq_set_time', clock(job.acceptedAt));
  if (job.failures > 0) fields.set('exp_notify_nums', String(job.failures));
}

/** Name → text, in the order of sending. */
type FormFields = Map<string, string>;

/** The top-level members of a JSON object: text as it is, numbers and nested values as the pushed JSON, true
 *  as `1`, false and null empty. A repeated name keeps its first place and its last value, as in PHP's
 *  json_decode. Any other body has no fields: its topic had another format at the push. */
export function formFields(body: Buffer): FormFields {
  const fields: FormFields = new Map();
  for (const { name, value } of namedMembers(body) ?? [])
    fields.set(name, valueText(body.toString('utf8', value.from, value.to)));
  return fields;
}

function valueText(json: string): string {
  switch (json[0]) {
    case '"':
      return JSON.parse(json);
    case 't':
      return '1';
    case 'f':
    case 'n':
      return '';
    default:
      return json;
  }
}

/** `a=1&b=x%20y`, as php-delayqueue joins the results of PHP's rawurlencode. */
export function writeForm(fields: FormFields): string {
  return [...fields].map(([name, text]) => `${rawUrlEncode(name)}=${rawUrlEncode(text)}`).join('&');
}

/** RFC 3986: escapes all but A-Z a-z 0-9 - _ . ~. A lone surrogate, which JSON can write and UTF-8 cannot,
 *  becomes U+FFFD. */
function rawUrlEncode(text: string): string {
  return encodeURIComponent(Buffer.from(text).toString()).replace(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

/** Adds the fields to the query of `path`. A field replaces a parameter of the same name, as in
 *  php-delayqueue: receivers differ in which of two they read. Other parameters keep their spelling. */
function addToQuery(path: string, fields: FormFields): string {
  const from = path.indexOf('?');
  if (from < 0) return `${path}?${writeForm(fields)}`;
  const kept = path
    .slice(from + 1)
    .split('&')
    .filter((piece) => piece !== '' && !fields.has(parameterName(piece)));
  return `${path.slice(0, from)}?${[...kept, writeForm(fields)].join('&')}`;
}

function parameterName(piece: string): string {
  const [entry] = new URLSearchParams(piece);
  return entry?.[0] ?? '';
}
