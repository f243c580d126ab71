// GET /v1/summary answers the first page of the console: sums over the topics that the caller may see, what
// is wrong now, and the topics that need attention. It reads the tallies of the store, the pages of the
// statistics, and few jobs. Its result is kept for a while, so that many viewers cost as much as one.

import { summarySchema } from '../../contract/api/stats.ts';
import { createCalendar } from '../../core/calendar.ts';
import { formatInstant } from '../../core/duration.ts';
import { DqError, messageOf } from '../../core/errors.ts';
import { openIncidents } from '../../core/incident.ts';
import { type JobState, jobStates } from '../../core/job.ts';
import { isOpen, processedOf } from '../../core/operation.ts';
import { type StatName, statNames } from '../../core/series.ts';
import { type Rights, reaches, reachesEveryTopic } from '../../core/token.ts';
import { IncidentFiles } from '../../process/incident-files.ts';
import type { RoleContext } from '../../process/role.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { KeptAnswers } from '../http/kept-answers.ts';
import { needs, rightsOf, seesDaemon } from '../http/route-access.ts';
import { helpJson } from './alert-routes.ts';
import { readiness } from './daemon-routes.ts';
import { HeldSum } from './held-topics.ts';
import { maySeeOperation } from './operation-routes.ts';
import { noCounts, noJobs, statLines } from './stats-routes.ts';
import { TopicAttention } from './topic-attention.ts';

export function summaryRoute(api: Api, { role, questions }: ApiContext): void {
  const attention = new TopicAttention(role, questions);
  const kept = new KeptAnswers<Awaited<ReturnType<typeof sumsOf>>>();
  const incidents = new IncidentFiles(role.config.dataDir);
  api.get('/v1/summary', { schema: summarySchema, config: needs('read', 'handler') }, async (request) => {
    const rights = rightsOf(request);
    const key = reachesEveryTopic(rights) ? '*' : JSON.stringify(rights.topics);
    const [sums, state] = await Promise.all([
      kept.of(key, () => sumsOf(role, rights, attention)),
      stateOf(role, incidents),
    ]);
    const now = formatInstant(role.clock.now());
    return seesDaemon(request)
      ? { ...sums, ...state, now }
      : { ...sums, ready: state.ready, warnings: [], leftBehind: [], incidents: [], now };
  });
}

async function stateOf(role: RoleContext, files: IncidentFiles) {
  const [readyOrWhy, incidents] = await Promise.all([
    readiness(role).then(
      ({ warnings, leftBehind }) => ({ ready: true, warnings, leftBehind }),
      (error: unknown) => {
        if (!(error instanceof DqError)) throw error;
        return { ready: false, warnings: [error.message], leftBehind: [] };
      },
    ),
    files.list().catch((error: unknown) => messageOf(error)),
  ]);
  if (typeof incidents === 'string') {
    const warnings = [...readyOrWhy.warnings, `cannot read the incidents of this instance: ${incidents}`];
    return { ...readyOrWhy, warnings, incidents: [] };
  }
  return {
    ...readyOrWhy,
    incidents: openIncidents(incidents).map((incident) => {
      const { kind, about, at, detail } = incident;
      return { kind, about, since: formatInstant(at), detail, ...helpJson(incident) };
    }),
  };
}

async function sumsOf(role: RoleContext, rights: Rights, attention: TopicAttention) {
  const { topics, store, registry, config, clock } = role;
  const counts = await store.admin.counts();
  const now = clock.now();
  const every = reachesEveryTopic(rights);
  const maySee = (topic: string) => every || reaches(rights, topic);
  const lines = await statLines({
    topics,
    counts,
    statsPage: (after, day) => registry.statsPage(after, day),
    day: createCalendar(config.timezone).dayOf(now),
    maySee,
  });
  const states: Record<JobState, number> = { ...noJobs };
  const today: Record<StatName, number> = { ...noCounts };
  const number = { active: 0, paused: 0, offline: 0 };
  const held = new HeldSum(role);
  const { look, found } = await attention.begin(every ? ['*'] : rights.topics, maySee, counts);
  let orphaned = 0;
  for await (const slice of lines)
    for (const line of slice) {
      const known = topics.get(line.topic);
      for (const state of jobStates) {
        states[state] += line.states[state];
        if (!line.registered) orphaned += line.states[state];
      }
      for (const name of statNames) today[name] += line.today[name];
      if (known !== undefined) number[known.state] += 1;
      held.add(line.topic, line.states);
      look(line);
    }
  return {
    topics: number,
    states,
    today,
    // Over all topics: a caller of some must not learn of the others.
    oldestOverdueMs: every ? counts.oldestOverdueMs : null,
    orphaned,
    held: held.sum(),
    ...(await found()),
    operations: await operationsOf(registry, rights),
    at: formatInstant(now),
    missing: counts.missing,
  };
}

async function operationsOf(registry: RoleContext['registry'], rights: Rights) {
  const known = await registry.operations().catch(() => []);
  return known
    .filter((one) => isOpen(one) && maySeeOperation(rights, one))
    .map((one) => ({
      id: one.id,
      kind: one.kind,
      state: one.state,
      topic: one.filter.topic ?? null,
      matched: one.matched,
      processed: processedOf(one),
    }));
}
