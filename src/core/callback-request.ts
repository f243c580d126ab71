// Builds path, body and content type of one attempt from the topic's method and format. Pure. delivery.ts
// builds the headers and signs these bytes.

import type { Clock } from './calendar.ts';
import { addToQuery, type FormFields, formFields, writeForm } from './form-body.ts';
import type { ReservedJob } from './job.ts';
import type { Topic } from './topic/topic.ts';

export interface CallbackRequest {
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
