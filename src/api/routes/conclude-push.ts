// What a push's outcome means to everybody but the store: the counter, the line of the request log, and the members of the
// reply, the same for a push of its own and for one of a batch. Sends nothing.

import { Type } from 'typebox';
import { formatInstant } from '../../core/duration.ts';
import { catalogue, type DqError } from '../../core/errors.ts';
import type { PushJob, PushOutcome } from '../../ports/job-store.ts';
import { pushRefusal } from '../../use-cases/accept-job.ts';
import type { ApiContext } from '../api-context.ts';
import { elapsedMs, logRequest } from '../http/request-log.ts';
import { Instant, StateName, VersionText } from '../http/schemas.ts';

/** What `members` of a success hold. */
export const PushReply = Type.Object({
  topic: Type.String(),
  id: Type.String(),
  version: VersionText,
  state: StateName,
  dueAt: Instant,
  replaced: Type.Boolean({ description: 'a live job of this id is gone' }),
  duplicate: Type.Boolean({ description: 'mode keep: the live job stayed as it was' }),
  inFlight: Type.Boolean({ description: 'an attempt of the replaced job is running' }),
});

export type PushConclusion =
  /** `members`: JSON without its braces, written by hand: thousands of replies a second are of this one shape */
  | { readonly ok: true; readonly status: 200 | 201; readonly members: string }
  | { readonly ok: false; readonly error: DqError };

/** How a push that was not accepted is counted. */
export function refusalOf(code: DqError['code']): 'refused' | 'not_stored' | 'unknown' {
  return code === 'not_stored' || code === 'unknown' ? code : 'refused';
}

/** `since`: performance.now() when the push had been read. */
export function concludePush(
  context: ApiContext,
  job: PushJob,
  outcome: PushOutcome,
  since: number,
): PushConclusion {
  const { topic } = job;
  const id = ('id' in outcome ? outcome.id : undefined) ?? job.id;
  const { counters, metrics } = context.role;
  if (outcome.kind !== 'stored' && outcome.kind !== 'kept') {
    const error = pushRefusal(outcome, job);
    metrics.count('dq_pushes_total', 1, refusalOf(error.code));
    log(context, job, id, since, catalogue[error.code].status, error.code, null, null);
    return { ok: false, error };
  }
  const stored = outcome.kind === 'stored';
  const replaced = stored && outcome.replaced;
  const inFlight = stored && outcome.inFlight;
  if (stored) counters.add(topic, 'pushed');
  metrics.count('dq_pushes_total', 1, replaced ? 'replaced' : outcome.kind);
  const version = String(outcome.version);
  const dueAt = formatInstant(outcome.dueAt);
  const status = stored && !replaced ? 201 : 200;
  log(context, job, id, since, status, null, version, dueAt);
  // A topic's name, states and numbers need no escapes.
  const members = `"topic":"${topic}","id":${JSON.stringify(id)},"version":"${version}","state":"${outcome.state}","dueAt":"${dueAt}","replaced":${replaced},"duplicate":${!stored},"inFlight":${inFlight}`;
  return { ok: true, status, members };
}

function log(
  context: ApiContext,
  { topic, body }: PushJob,
  id: string,
  since: number,
  status: number,
  code: string | null,
  version: string | null,
  dueAt: string | null,
): void {
  const ms = elapsedMs(since);
  context.role.metrics.observe('dq_push_seconds', ms / 1_000);
  const bytes = body.length;
  // Spelt out: an object that is spread into another one costs 3 µs, a tenth of a push.
  logRequest(context.role.log, { method: 'POST', topic, id, status, code, version, dueAt, bytes, ms });
}
