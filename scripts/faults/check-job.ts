// Judges the jobs of a history by what dq promises. An end and its outcome job are stored both or neither,
// and one end pushes at most one.
import type { EventOf, Run } from './history.ts';
import {
  type Call,
  type Cancel,
  type Fault,
  isPush,
  type Job,
  type OutcomeJob,
  overlaps,
  type Push,
} from './jobs.ts';
import type { StorePromise } from './promise.ts';

/** Violations of a promise. */
export const violations = [
  // accepted, and neither delivered nor a dead letter as its receiver wanted
  'lost',
  // called again although no fault explains it
  'duplicated',
  // called before it was due
  'early',
  // called after a cancel or a replacing push that ended it, or beyond its last attempt
  'afterEnd',
  // called though never pushed, or though its push was rejected
  'unexpected',
  // other bytes than pushed, or another webhook-id than before
  'corrupt',
  // a push or cancel was rejected or not answered, and no fault explains it
  'refused',
  // still in the store at the end
  'stuck',
  // found by fsck
  'fsck',
  // a role of dq has grown
  'memory',
] as const;
/** Effects of faults that dq does not promise to prevent. */
export const explained = [
  // a push without an answer has arrived
  'recovered',
  'duplicatedByFault',
  'lostByFault',
  'undoneByFault',
  'poisonedByFault',
] as const;
export type VerdictName = (typeof violations)[number] | (typeof explained)[number];

export interface Finding {
  readonly verdict: VerdictName;
  readonly id: string;
  readonly text: string;
}

export interface Circumstances {
  readonly run: Run;
  readonly promise: StorePromise;
  readonly faults: readonly Fault[];
}

/** An outcome is written some ms after the answer, and later on a busy machine. */
const settleMs = 2_000;
/** A server answers its first calls this long after a fault. */
const recoverMs = 3_000;
/** A request of a killed notifier can wait in the receiver's socket, and the receiver can be slow to log. */
const arrivalLagMs = 500;
/** A lease and a healing last less: a healing does not know the attempts from before the loss. */
const healingMs = 120_000;
/** Calls that killed the notifier before a job is a dead letter with the reason `poison`. */
const poisonStrikes = 5;

const isSuccess = ({ answer }: Call) => answer !== null && answer.status >= 200 && answer.status < 300;

export function judgeJob(job: Job, circumstances: Circumstances): readonly Finding[] {
  const findings: Finding[] = [];
  const add = (verdict: VerdictName, text: string) => findings.push({ verdict, id: job.id, text });
  for (const op of job.ops) judgeAnswer(op, circumstances, add);
  for (const push of job.ops.filter(isPush)) {
    const calls = job.calls.filter(({ event }) => event.tag === push.event.tag);
    judgeEnd(job, push, calls, circumstances, add);
    judgeTimes(push, calls, circumstances, add);
    judgeRepeats(push, calls, circumstances, add);
    judgeContent(push, calls, add);
    judgeCallsAfterEnd(job, push, calls, circumstances, add);
  }
  const tags = new Set(job.ops.filter(isPush).map(({ event }) => event.tag));
  for (const { event } of job.calls)
    if (!tags.has(event.tag)) add('unexpected', `call ${event.call} of ${event.tag}, which was never pushed`);
  return findings;
}

type Add = (verdict: VerdictName, text: string) => void;

function judgeAnswer({ event, result }: Push | Cancel, { faults, promise }: Circumstances, add: Add): void {
  if (result === null || result.kind === 'pushed' || result.kind === 'cancelled') return;
  const isWrong = result.kind === 'rejected' && result.status >= 400 && result.status < 500;
  // Until the jobs are back, dq cannot say whether one is stored. The job of a push that keeps it may end
  // before its record is written, and then dq cannot say that either.
  const isKeep = event.kind === 'push' && event.mode === 'keep';
  const isHealing =
    promise.putsBack &&
    (result.why.endsWith(' restoring') ||
      (isKeep && result.kind === 'unknown' && result.why.endsWith(' unknown')));
  if (!isWrong && overlaps(faults, 'refuses', event.at - recoverMs, result.at)) return;
  if (isHealing && overlaps(faults, 'loses', event.at - healingMs, result.at)) return;
  add('refused', `${event.kind} ${event.op}: ${result.kind}, ${result.why}`);
}

/** Later pushes and cancels that ended this push, or may have done so. */
function* endsOf(job: Job, push: Push, { promise, faults }: Circumstances): Generator<Push | Cancel> {
  for (const op of job.ops.slice(job.ops.indexOf(push) + 1)) {
    const { event, result } = op;
    if (event.kind === 'push' && event.mode === 'keep') continue;
    if (result?.kind === 'rejected') continue;
    // The answer does not count jobs that Redis has lost and that are not back yet.
    const isHealing =
      result !== null && promise.putsBack && overlaps(faults, 'loses', result.at - healingMs, result.at);
    if (result?.kind === 'pushed' && !result.replaced && !isHealing) continue;
    if (result?.kind === 'cancelled' && result.absent) continue;
    yield op;
  }
}

function judgeEnd(
  job: Job,
  push: Push,
  calls: readonly Call[],
  circumstances: Circumstances,
  add: Add,
): void {
  const { promise, faults } = circumstances;
  const { event, result } = push;
  const isStored = result?.kind === 'pushed' && !result.duplicate;
  if (result?.kind === 'rejected' || (result?.kind === 'pushed' && result.duplicate)) {
    if (calls.length > 0) add('unexpected', `push ${event.op} was not stored, and ${event.tag} was called`);
    return;
  }
  if (!isStored && calls.length > 0) add('recovered', `push ${event.op} without an answer`);
  if (!isStored || calls.some(isSuccess)) return;
  if ([...endsOf(job, push, circumstances)].length > 0) return;
  if (job.dead !== null && event.fate !== 'done' && event.fate !== 'flaky') return;
  if (job.dead?.reason === 'poison' && strikes(faults) >= poisonStrikes) {
    add('poisonedByFault', `${event.tag} after ${strikes(faults)} faults of notifiers`);
    return;
  }
  const why = job.dead === null ? '' : `, dead with the reason ${job.dead.reason}`;
  const text = `push ${event.op} of ${event.tag}, ${calls.length} calls${why}`;
  add(isUndone(result.at, promise, faults) ? 'lostByFault' : 'lost', text);
}

const strikes = (faults: readonly Fault[]): number =>
  faults.filter(({ repeats, isEffective }) => repeats && isEffective).length;

/** A change that was answered at this time may be undone. */
function isUndone(at: number, { lossMs }: StorePromise, faults: readonly Fault[]): boolean {
  return lossMs > 0 && overlaps(faults, 'loses', at, at + lossMs);
}

function judgeTimes({ event, result }: Push, calls: readonly Call[], { run }: Circumstances, add: Add): void {
  const asked = event.wall + event.delayMs;
  if (result?.kind === 'pushed' && !result.duplicate && result.dueAt < asked)
    add('early', `due ${asked - result.dueAt} ms before the delay of push ${event.op}`);
  const firstDue = result?.kind === 'pushed' ? result.dueAt : asked;
  for (const [n, { event: call }] of calls.entries()) {
    const dueAt = Math.max(call.dueAt, firstDue);
    if (call.wall < dueAt) add('early', `call ${call.call}, ${dueAt - call.wall} ms`);
    const previous = calls[n - 1];
    if (previous === undefined || !isRetry(previous, call)) continue;
    const { attempt } = previous.event;
    const waitMs = run.backoffMs[Math.min(attempt, run.backoffMs.length) - 1] ?? 0;
    const readyAt = (previous.answer?.wall ?? 0) + waitMs;
    if (call.wall < readyAt) add('early', `retry ${call.call}, ${readyAt - call.wall} ms`);
  }
}

/** The previous attempt failed by its answer, and dq has counted it. */
function isRetry({ event, answer }: Call, next: EventOf<'call'>): boolean {
  return answer !== null && !isFinal(answer) && answer.at < next.at && next.attempt > event.attempt;
}

const isFinal = ({ status, final }: EventOf<'answer'>) => final || (status >= 200 && status < 300);

function judgeRepeats(
  { event: { tag, maxAttempts } }: Push,
  calls: readonly Call[],
  { run, promise, faults }: Circumstances,
  add: Add,
): void {
  for (const [n, { event }] of calls.entries()) {
    if (event.attempt > maxAttempts) add('afterEnd', `call ${event.call} is attempt ${event.attempt}`);
    const previous = calls[n - 1];
    if (previous === undefined || isRetry(previous, event)) continue;
    const from = previous.event.at;
    const to = previous.answer?.at ?? previous.broken?.at ?? event.at;
    const isSlow = to - from >= run.timeoutMs / 2;
    const isExplained =
      isSlow ||
      wasSentToFrozen(faults, from, from) ||
      overlaps(faults, 'repeats', from, to + settleMs) ||
      isUndone(to, promise, faults);
    const how = previous.answer === null ? 'without an answer' : `answered ${previous.answer.status}`;
    add(
      isExplained ? 'duplicatedByFault' : 'duplicated',
      `${tag}: call ${event.call}, attempt ${event.attempt}, after ${previous.event.call}, ${how}`,
    );
  }
}

function judgeContent({ event }: Push, calls: readonly Call[], add: Add): void {
  for (const { event: call } of calls) {
    if (call.sha !== event.sha) add('corrupt', `the body of call ${call.call}`);
    if (call.webhookId !== calls[0]?.event.webhookId) add('corrupt', `the webhook-id of call ${call.call}`);
  }
}

/** A frozen receiver logs, once it runs again, requests that dq sent and gave up before: one that it logged
 *  at `loggedAt` may have been sent before `sentBy`. */
function wasSentToFrozen(faults: readonly Fault[], sentBy: number, loggedAt: number): boolean {
  return faults.some(
    ({ target, what, from, to }) =>
      target.startsWith('receiver') && what === 'freeze' && from <= sentBy && to + arrivalLagMs >= loggedAt,
  );
}

/** After `inFlight: false` no attempt arrives, after `inFlight: true` one may. */
function judgeCallsAfterEnd(
  job: Job,
  push: Push,
  calls: readonly Call[],
  circumstances: Circumstances,
  add: Add,
): void {
  const { promise, faults, run } = circumstances;
  for (const { event, result } of endsOf(job, push, circumstances)) {
    if (result?.kind !== 'cancelled' && result?.kind !== 'pushed') continue;
    const late = calls.filter((call) => call.event.at > result.at);
    for (const { event: call } of late.slice(result.inFlight ? 1 : 0)) {
      const isOnItsWay =
        // The receiver had the bytes before, and was stopped.
        overlaps(faults, 'repeats', call.at - arrivalLagMs, result.at) && call.at - result.at < arrivalLagMs;
      const wasStopped = wasSentToFrozen(faults, result.at, call.at);
      // The healing does not know attempts from before the loss. One of them may arrive.
      const isForgotten =
        promise.putsBack &&
        late.length === 1 &&
        overlaps(faults, 'loses', result.at - healingMs - run.timeoutMs, call.at);
      const isExplained = isOnItsWay || wasStopped || isForgotten || isUndone(result.at, promise, faults);
      add(
        isExplained ? 'undoneByFault' : 'afterEnd',
        `${push.event.tag}: call ${call.call}, ${Math.round(call.at - result.at)} ms after ${event.kind} ${event.op} with inFlight ${result.inFlight}`,
      );
    }
  }
}

export function judgeOutcomes(
  pushed: readonly Job[],
  outcomes: readonly OutcomeJob[],
  circumstances: Circumstances,
): readonly Finding[] {
  const following = new Map<string, OutcomeJob[]>();
  for (const job of outcomes)
    following.set(job.follows.tag, [...(following.get(job.follows.tag) ?? []), job]);
  const findings: Finding[] = [];
  for (const job of [...pushed, ...outcomes])
    for (const push of job.ops.filter(isPush)) {
      const its = following.get(push.event.tag) ?? [];
      following.delete(push.event.tag);
      findings.push(...judgePush(job, push, its, circumstances));
    }
  for (const [tag, [first]] of following)
    findings.push({
      verdict: 'unexpected',
      id: first?.id ?? '',
      text: `an outcome job of ${tag}, never pushed`,
    });
  return findings;
}

function* judgePush(
  job: Job,
  push: Push,
  following: readonly OutcomeJob[],
  circumstances: Circumstances,
): Generator<Finding> {
  const { run, promise, faults } = circumstances;
  const { tag, topic, fate } = push.event;
  const calls = job.calls.filter(({ event }) => event.tag === tag);
  const success = calls.find(isSuccess);
  const isStored = push.result?.kind === 'pushed' && !push.result.duplicate;
  // A later push or cancel may have taken the job away before its end was written.
  const isLast = [...endsOf(job, push, circumstances)].length === 0;
  const isEnded = isStored && isLast && (success !== undefined || job.dead !== null);
  const endedAt = calls.at(-1)?.event.at ?? push.event.at;
  const next = run.outcomes[topic];
  if (isEnded && next !== undefined && following.length === 0)
    yield {
      ...{ verdict: isUndone(endedAt, promise, faults) ? 'lostByFault' : 'lost', id: job.id },
      text: `the end of ${tag} has pushed no job`,
    };
  const [first, ...more] = following;
  for (const { id, calls: later } of more) {
    const at = later[0]?.event.at ?? endedAt;
    // After a loss of the store an end can run again.
    const isExplained =
      isUndone(endedAt, promise, faults) ||
      (promise.putsBack && overlaps(faults, 'loses', endedAt - healingMs, at));
    yield {
      ...{ verdict: isExplained ? 'duplicatedByFault' : 'duplicated', id },
      text: `the end of ${tag} has pushed ${first?.id} and ${id}`,
    };
  }
  for (const { id, follows, ops, calls: its } of following) {
    const at = its[0]?.event.at ?? 0;
    const hasEndedSo = follows.isDead
      ? (fate !== 'done' && fate !== 'flaky') || job.dead?.reason === 'poison'
      : success?.answer != null && success.answer.at < at;
    const isNamed = ops.filter(isPush)[0]?.event.topic === next;
    if (!hasEndedSo || !isNamed)
      yield { verdict: 'unexpected', id, text: `an outcome job of ${tag}, which had not ended so` };
  }
}
