// Shows a verdict, and the timeline of the jobs that break a promise.
import type { Verdict } from './check.ts';
import { explained, violations } from './check-job.ts';
import type { Event } from './history.ts';

/** Timelines that are shown; the history has all. */
const shownMax = 5;

const isViolation = new Set<string>(violations);

export function reportText(verdict: Verdict, events: readonly Event[]): string {
  const { counts, findings } = verdict;
  const named = (names: readonly (keyof typeof counts)[]) =>
    names.map((name) => `${name} ${counts[name]}`).join(', ');
  const broken = findings.filter((finding) => isViolation.has(finding.verdict));
  return [
    `promise: ${verdict.promise}`,
    `violations: ${named(violations)}`,
    `explained by faults: ${named(explained)}`,
    `availability: ${(100 * verdict.availability).toFixed(2)} % of the jobs accepted at once, longest gap ${verdict.gapMs} ms`,
    ...faultLines(events),
    ...broken.slice(0, 50).map(({ verdict: name, id, text }) => `${name} ${id}: ${text}`),
    ...[...new Set(broken.map(({ id }) => id))]
      .filter((id) => id !== '')
      .slice(0, shownMax)
      .flatMap((id) => timelineOf(id, events)),
    ...verdict.vacuous.map((reason) => `vacuous: ${reason}`),
    lastLine(verdict),
  ].join('\n');
}

export function lastLine(verdict: Verdict): string {
  const {
    pushed,
    accepted,
    delivered,
    cancelled,
    dead,
    outcomes,
    counts,
    faults,
    violations: broken,
  } = verdict;
  const figures = [
    `${pushed} pushed`,
    `${accepted} accepted`,
    `${delivered} delivered`,
    `${cancelled} cancelled`,
    `${dead} dead`,
    `${outcomes} outcome jobs delivered`,
    `${counts.recovered} recovered`,
    `${counts.duplicatedByFault} duplicated by a fault`,
    `${counts.lostByFault} lost by a fault`,
    `${faults} faults`,
  ];
  const vacuous = verdict.vacuous.length === 0 ? '' : 'vacuous, ';
  return `faults: ${figures.join(', ')}, ${vacuous}${broken} violations`;
}

function faultLines(events: readonly Event[]): readonly string[] {
  const counts = new Map<string, number>();
  for (const event of events) {
    if (event.kind !== 'fault' || event.phase !== 'effective') continue;
    const name = `${event.what} ${event.target}`;
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  return [`effective faults: ${[...counts].map(([name, n]) => `${name} ${n}`).join(', ')}`];
}

/** Events of one job, and the faults that were active between its first and last one. */
export function timelineOf(id: string, events: readonly Event[]): readonly string[] {
  const own = new Set(events.flatMap((event) => keysOf(event, id)));
  const its = events.filter(
    (event) =>
      ('id' in event && event.id === id) ||
      ('op' in event && own.has(`op ${event.op}`)) ||
      ('call' in event && own.has(`call ${event.call}`)),
  );
  const [from, to] = [its[0]?.at ?? 0, its.at(-1)?.at ?? 0];
  const start = events[0]?.at ?? 0;
  const ended = new Map(
    events.flatMap((event) =>
      event.kind === 'fault' && event.phase === 'ended' ? [[event.fault, event.at]] : [],
    ),
  );
  const isNear = (event: Event) =>
    event.kind === 'fault' &&
    event.at <= to &&
    (ended.get(event.fault) ?? Number.POSITIVE_INFINITY) >= from - 5_000;
  const lines = events.filter((event) => its.includes(event) || isNear(event));
  return [
    `timeline of ${id}, in seconds:`,
    ...lines.map(
      ({ at, wall: _, ...rest }) => `  ${((at - start) / 1_000).toFixed(3)} ${JSON.stringify(rest)}`,
    ),
  ];
}

function keysOf(event: Event, id: string): readonly string[] {
  if (!('id' in event) || event.id !== id) return [];
  if ('op' in event) return [`op ${event.op}`];
  return 'call' in event ? [`call ${event.call}`] : [];
}
