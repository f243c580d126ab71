// push-result.ts turns the store's outcome of a push into the counter, the request log line and the reply's
// members, the same for a single push and for an item of a batch. Sends nothing.

import { formatInstant } from '../../core/duration.ts';
import { catalogue, type DqError } from '../../core/errors.ts';
import { optionsIn } from '../../core/extension.ts';
import { isPlainId } from '../../core/job-id.ts';
import { parentOf } from '../../core/trace-context.ts';
import type { PushJob, PushOutcome } from '../../ports/job-store.ts';
import { type AcceptedPush, isAccepted, pushRejection } from '../../use-cases/accept-job.ts';
import type { ApiContext } from '../api-context.ts';
import { elapsedMs, logRequest } from '../http/request-log.ts';
import { whyHeld } from './held-topics.ts';

export type PushReply =
  /** `members`: JSON without braces, written by hand: thousands of replies per second have this one shape */
  | { readonly ok: true; readonly status: 200 | 201; readonly members: string }
  | { readonly ok: false; readonly error: DqError };

/** Label of a rejected push in dq_pushes_total. */
export function rejectionOf(code: DqError['code']): 'refused' | 'not_stored' | 'unknown' {
  if (code === 'restoring') return 'not_stored';
  return code === 'not_stored' || code === 'unknown' ? code : 'refused';
}

/** Counts and logs the push, and returns its reply. `since`: monotonicNow() after the request was read.
 *  `via`: protocol of another queue; absent: the HTTP API. */
export function finishPush(
  context: Pick<ApiContext, 'role'>,
  job: PushJob,
  outcome: PushOutcome,
  since: number,
  via?: string,
): PushReply {
  const { topic } = job;
  const id = ('id' in outcome ? outcome.id : undefined) ?? job.id;
  const { counters, metrics } = context.role;
  if (!isAccepted(outcome)) {
    const error = pushRejection(outcome, job);
    metrics.count('dq_pushes_total', 1, rejectionOf(error.code));
    const { status } = catalogue[error.code];
    log(context, job, id, since, status, error.code, null, null, via, error.message);
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
  // A topic name, a state, a number and a reason need no escapes.
  const isPlain = isPlainId(id);
  const key = `"topic":"${topic}","id":${isPlain ? `"${id}"` : JSON.stringify(id)}`;
  if (isPlain && via === undefined && job.extension === null) {
    const ms = observedMs(context, since);
    context.role.log.requestText(
      `"method":"POST",${key},"status":${status},"code":null,"version":"${version}","dueAt":"${dueAt}","bytes":${job.body.length},"ms":${ms}`,
    );
  } else log(context, job, id, since, status, null, version, dueAt, via);
  const more = moreOf(context, topic, outcome);
  const members = `${key},"version":"${version}","state":"${outcome.state}","dueAt":"${dueAt}","replaced":${replaced},"duplicate":${!stored},"inFlight":${inFlight}${more}`;
  return { ok: true, status, members };
}

/** When the last job ended, or why the job waits. */
function moreOf({ role }: Pick<ApiContext, 'role'>, topic: string, outcome: AcceptedPush): string {
  if (outcome.kind === 'ended') return `,"endedAt":"${formatInstant(outcome.endedAt)}"`;
  const why = whyHeld(role, topic);
  return why === null ? '' : `,"held":"${why}"`;
}

function observedMs({ role }: Pick<ApiContext, 'role'>, since: number): number {
  const ms = elapsedMs(since);
  role.metrics.observe('dq_push_seconds', ms / 1_000);
  return ms;
}

function log(
  context: Pick<ApiContext, 'role'>,
  { topic, body, extension }: PushJob,
  id: string,
  since: number,
  status: number,
  code: string | null,
  version: string | null,
  dueAt: string | null,
  via?: string,
  reason?: string,
): void {
  const ms = observedMs(context, since);
  const bytes = body.length;
  // Not spread from another object: that costs 3 µs, a tenth of a push.
  const line = { method: 'POST', topic, id, status, code, version, dueAt, bytes, ms } as const;
  const { trace } = optionsIn(extension);
  if (trace !== undefined)
    logRequest(context.role.log, {
      ...line,
      traceparent: parentOf(trace),
      ...(via === undefined ? {} : { via }),
    });
  else if (via === undefined) logRequest(context.role.log, line);
  else logRequest(context.role.log, { ...line, via, ...(reason === undefined ? {} : { reason }) });
}
