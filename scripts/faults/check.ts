// The total-queue checker: a pure function from a history and a promise to a verdict. A run that shows
// nothing is rejected: without faults, with faults that had no effect, or with too few deliveries.
import {
  type Circumstances,
  explained,
  type Finding,
  judgeJob,
  judgeOutcomes,
  type VerdictName,
  violations,
} from './check-job.ts';
import type { Event, Run } from './history.ts';
import { type Fault, faultsOf, isPush, type Job, jobsOf, outcomeJobsOf } from './jobs.ts';
import type { StorePromise } from './promise.ts';

export interface Verdict {
  readonly promise: string;
  readonly pushed: number;
  readonly accepted: number;
  readonly delivered: number;
  readonly cancelled: number;
  readonly dead: number;
  /** outcome jobs that were delivered */
  readonly outcomes: number;
  readonly faults: number;
  readonly counts: Readonly<Record<VerdictName, number>>;
  readonly findings: readonly Finding[];
  /** findings that break a promise */
  readonly violations: number;
  /** share of the jobs whose first push had a 2xx answer, 0 … 1: producers repeat the others */
  readonly availability: number;
  /** longest time without a 2xx answer to a push */
  readonly gapMs: number;
  /** reasons why the run shows nothing */
  readonly vacuous: readonly string[];
}

export function check(events: readonly Event[], run: Run, promise: StorePromise): Verdict {
  const jobs = jobsOf(events);
  const outcomes = outcomeJobsOf(events);
  const faults = faultsOf(events, run.store);
  const circumstances: Circumstances = { run, promise, faults };
  const findings = [
    ...[...jobs, ...outcomes].flatMap((job) => judgeJob(job, circumstances)),
    ...judgeOutcomes(jobs, outcomes, circumstances),
    ...events.flatMap((event) => judgeStore(event)),
    ...grownRoles(events).map((text) => ({ verdict: 'memory' as const, id: '', text })),
  ];
  const names: readonly VerdictName[] = [...violations, ...explained];
  const countOf = (name: VerdictName) => findings.filter(({ verdict }) => verdict === name).length;
  const counts = Object.fromEntries(names.map((name) => [name, countOf(name)])) as Verdict['counts'];
  const pushes = jobs.flatMap(({ ops }) => ops.filter(isPush));
  const accepted = pushes.filter(({ result }) => result?.kind === 'pushed').length;
  const delivered = jobs.filter(isDelivered).length;
  return {
    promise: promise.text,
    ...{ pushed: pushes.length, accepted, delivered },
    cancelled: events.filter((event) => event.kind === 'cancelled' && !event.absent).length,
    dead: jobs.filter(({ dead }) => dead !== null).length,
    outcomes: outcomes.filter(isDelivered).length,
    faults: faults.filter(({ isEffective }) => isEffective).length,
    counts,
    findings,
    violations: violations.reduce((sum, name) => sum + counts[name], 0),
    availability: jobs.length === 0 ? 0 : jobs.filter(isTakenAtOnce).length / jobs.length,
    gapMs: longestGap(events),
    vacuous: reasonsOfVacuity(jobs, faults, delivered, run),
  };
}

const isDelivered = ({ calls }: Job): boolean =>
  calls.some(({ answer }) => answer !== null && answer.status >= 200 && answer.status < 300);

const isTakenAtOnce = ({ ops }: Job): boolean => ops[0]?.result?.kind === 'pushed';

function judgeStore(event: Event): readonly Finding[] {
  if (event.kind === 'drained' && event.left !== 0)
    return [
      { verdict: 'stuck', id: '', text: `${event.left} jobs are left in the store (-1: it gave no number)` },
    ];
  if (event.kind === 'fsck') return [{ verdict: 'fsck', id: '', text: event.problem }];
  return [];
}

function longestGap(events: readonly Event[]): number {
  const answered = events.filter(({ kind }) => kind === 'pushed').map(({ at }) => at);
  const gaps = answered.slice(1).map((at, n) => at - (answered[n] ?? at));
  return Math.round(gaps.reduce((longest, gap) => Math.max(longest, gap), 0));
}

function reasonsOfVacuity(
  jobs: readonly Job[],
  faults: readonly Fault[],
  delivered: number,
  run: Run,
): readonly string[] {
  const reasons: string[] = [];
  const without = faults.filter(({ isEffective }) => !isEffective);
  if (faults.length === 0) reasons.push('no fault was made');
  for (const { what, target } of without) reasons.push(`the fault ${what} ${target} had no effect`);
  if (delivered < run.deliveredMin)
    reasons.push(`${delivered} jobs were delivered, fewer than ${run.deliveredMin}`);
  const spans = jobs.flatMap(({ calls }) =>
    calls.map(({ event, answer, broken }) => [event.at, answer?.at ?? broken?.at ?? event.at] as const),
  );
  const isHit = faults.some(
    ({ from, to, isEffective }) =>
      isEffective && spans.some(([begun, ended]) => from <= ended && to >= begun),
  );
  if (faults.length > 0 && !isHit) reasons.push('no fault overlapped a call');
  return reasons;
}

/** With fewer samples a role says nothing: its heap is not yet warm. */
const samplesMin = 40;
/** A garbage collector may not have freed so much. */
const slackBytes = 48 * 2 ** 20;
const growthMax = 1.3;

/** Roles whose largest memory of the last quarter exceeds that of the second quarter. Killed processes begin
 *  small, so the largest sample of a quarter counts. */
export function grownRoles(events: readonly Event[]): readonly string[] {
  const samples = events.filter((event) => event.kind === 'memory');
  if (samples.length < samplesMin) return [];
  const quarter = Math.floor(samples.length / 4);
  const roles = new Set(samples.flatMap(({ bytes }) => Object.keys(bytes)));
  const largest = (role: string, from: number) =>
    Math.max(...samples.slice(from, from + quarter).map(({ bytes }) => bytes[role] ?? 0));
  return [...roles].flatMap((role) => {
    const [early, late] = [largest(role, quarter), largest(role, samples.length - quarter)];
    const mib = (bytes: number) => Math.round(bytes / 2 ** 20);
    return late > early * growthMax + slackBytes
      ? [`${role} has grown from ${mib(early)} to ${mib(late)} MiB`]
      : [];
  });
}
