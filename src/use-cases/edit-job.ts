// edit-job.ts turns an edit request and the job that its caller has read into the item for the store, and
// says what it changes.
// Invariant: dq rejects every invalid edit before it calls the store, by the checks of a push.

import { createHash } from 'node:crypto';
import { type AuditChange, difference } from '../core/audit.ts';
import { formatInstant } from '../core/duration.ts';
import { DqError, invalidField } from '../core/errors.ts';
import { optionsIn, replaceOptions, webhookOriginOf } from '../core/extension.ts';
import type { JobSnapshot } from '../core/job.ts';
import { printBackoff } from '../core/topic/backoff.ts';
import type { PlainTopic } from '../core/topic/topic.ts';
import type { EditItem } from '../ports/job-store.ts';
import { type ContentTerms, checkContent, jobOptions, readWhen } from './accept-job.ts';
import { readEdit } from './read-batch.ts';

/** `bytes`: a JSON object, whose absent members stay as they are. Throws DqError. */
export function acceptEdit(
  job: JobSnapshot,
  topic: PlainTopic,
  bytes: Buffer,
  terms: ContentTerms,
): EditItem {
  const request = readEdit(bytes, job.contentType);
  const { requeue, newWebhookId } = request;
  if (Object.values(request).every((value) => value === undefined || value === false))
    throw invalidField(
      'body',
      'names nothing to change; give body, contentType, delay, at or another member',
    );
  const { body = job.body, contentType = job.contentType } = request;
  // A topic may have another format since the push.
  if (request.body !== undefined || request.contentType !== undefined)
    checkMembers(request.body === undefined, () =>
      checkContent({ body, contentType, isLiteral: true }, topic, terms),
    );
  const when = readWhen({ ...request, inQuery: false }, terms.nowMs);
  const due = when ?? { at: requeue ? terms.nowMs : job.dueAt };
  const options = jobOptions({ ...request, inQuery: false }, topic, due, terms.nowMs);
  const { id, version, acceptedAt, extension } = job;
  return {
    topic: topic.topic,
    id,
    version,
    acceptedAt,
    priority: topic.priority,
    contentType,
    body,
    extension: replaceOptions(extension, {
      ...options,
      webhookOrigin: newWebhookId ? undefined : webhookOriginOf(job),
      // The store keeps it: the job may have been snoozed again.
      again: undefined,
    }),
    when,
    requeue,
  };
}

/** The content type is a member of an edit, not a header. An error of JSON quotes the body: it does not quote
 *  a stored one, because the caller may lack the scope read. */
function checkMembers(isStored: boolean, check: () => void): void {
  try {
    check();
  } catch (error) {
    if (isStored && error instanceof DqError && error.code === 'malformed_json') {
      const message = 'the stored body is not JSON; give body, too';
      throw new DqError('malformed_json', message, { errors: [{ field: 'body', message }] });
    }
    const [wrong] = error instanceof DqError ? error.errors : [];
    throw wrong?.field === 'content-type' ? invalidField('contentType', wrong.message) : error;
  }
}

/** For the audit log, which holds no body. `state`, `dueAt`: as the store answered */
export function editedFields(
  job: JobSnapshot,
  item: EditItem,
  { state, dueAt }: Pick<JobSnapshot, 'dueAt' | 'state'>,
): readonly AuditChange[] {
  const hasNewId = optionsIn(item.extension).webhookOrigin === undefined;
  return difference(shown(job), {
    ...shown({ ...item, state, dueAt }),
    ...(hasNewId ? { webhookId: 'new' } : {}),
  });
}

function shown(
  job: Pick<JobSnapshot, 'contentType' | 'body' | 'dueAt' | 'state'> & { extension?: Buffer | null },
) {
  const { maxAttempts, backoff, deadline } = optionsIn(job.extension);
  const digest = createHash('sha256').update(job.body).digest('hex').slice(0, 16);
  return {
    state: job.state,
    dueAt: formatInstant(job.dueAt),
    contentType: job.contentType,
    body: `${job.body.length} bytes, sha256 ${digest}`,
    maxAttempts,
    backoff: backoff === undefined ? undefined : printBackoff(backoff),
    deadline: deadline === undefined ? undefined : formatInstant(deadline),
  };
}
