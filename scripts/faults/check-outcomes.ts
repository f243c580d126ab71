// Judges the outcome jobs of a history: each end and its outcome job are stored both or neither, and one end
// pushes at most one.
import { type Circumstances, endsOf, type Finding, healingMs, isSuccess, isUndone } from './check-job.ts';
import { isPush, type Job, type OutcomeJob, overlaps, type Push } from './jobs.ts';

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
