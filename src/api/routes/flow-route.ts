// GET /v1/topics/{topic}/jobs/{id}/flow: what happened to a job, also after its end and after its topic.

import { jobFlowSchema } from '../../contract/api/job.ts';
import { contractLimits } from '../../contract/api/limits.ts';
import { formatInstant } from '../../core/duration.ts';
import type { JobRow } from '../../core/job-row.ts';
import { absentJob, checkedKey, findJob } from '../../use-cases/find-job.ts';
import { type FlowEntry, jobFlow } from '../../use-cases/job-flow.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { attemptJson } from './job-json.ts';

export function flowRoute(api: Api, { role }: ApiContext): void {
  const { store, journal } = role;
  api.get(
    '/v1/topics/:topic/jobs/:id/flow',
    { schema: jobFlowSchema, config: { access: { scope: 'read', topics: 'path' } } },
    async (request) => {
      const key = checkedKey(request.params);
      const [logged, rows, job] = await Promise.all([
        journal?.db.flow(key, contractLimits.flowMax) ?? [],
        journal?.db.rows([key]) ?? ([] as readonly JobRow[]),
        findJob(store, key),
      ]);
      const entries = jobFlow(logged, job, rows[0] ?? null);
      if (entries.length === 0) throw await absentJob(role, key);
      return { journal: journal !== undefined, entries: entries.map(entryJson) };
    },
  );
}

function entryJson({ at, version, dueAt, attempt, ...entry }: FlowEntry) {
  return {
    ...entry,
    at: formatInstant(at),
    version: version === null ? null : String(version),
    dueAt: dueAt === null ? null : formatInstant(dueAt),
    attempt: attempt === null ? null : attemptJson(attempt, { dueAt: dueAt ?? at }),
  };
}
