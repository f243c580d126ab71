// PATCH /v1/topics/{topic}/jobs/{id}: gives a delayed, ready or dead job another body and other options. The
// caller names the version that it has read: what it did not read stays as it is.

import { editBody, editJobSchema } from '../../contract/api/job.ts';
import { formatInstant } from '../../core/duration.ts';
import { DqError, invalidField } from '../../core/errors.ts';
import type { JobKey } from '../../core/job.ts';
import { grants } from '../../core/token.ts';
import { pushTerms } from '../../use-cases/accept-job.ts';
import { topicNotFound } from '../../use-cases/change-topic.ts';
import { acceptEdit, editedFields } from '../../use-cases/edit-job.ts';
import { absentJob, checkedKey } from '../../use-cases/find-job.ts';
import { useCaseLimits } from '../../use-cases/limits.ts';
import { editJob } from '../../use-cases/move-job.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { auditNote } from '../http/audit-note.ts';
import { type BodyBudget, takeOverBody } from '../http/body-budget.ts';
import { bodyReader } from '../http/read-body.ts';
import { readIfMatch, rejectEncoding } from '../http/request-head.ts';
import { rightsOf } from '../http/route-access.ts';
import { JobFactsReader } from './job-facts.ts';
import { jobJson } from './job-json.ts';

/** Needs a scope of its own, in which the body is a Buffer. */
export function editRoute(api: Api, { role, questions }: ApiContext, budget: BodyBudget): void {
  const { store, topics, config } = role;
  const facts = new JobFactsReader(role, questions);
  const { escapeBytes, itemBytesMore } = useCaseLimits;
  const bytes = config['limits.bodyBytes'] * escapeBytes + itemBytesMore;
  api.removeAllContentTypeParsers();
  api.addContentTypeParser('*', bodyReader(budget, { bytes, option: 'limits.bodyBytes' }));
  api.patch(
    '/v1/topics/:topic/jobs/:id',
    {
      schema: editJobSchema,
      config: { access: { scope: 'operate', andScope: 'push', topics: 'path' }, bodyContent: editBody },
    },
    async (request) => {
      // The body of the job is a slice of this body.
      const release = takeOverBody(request.raw);
      try {
        rejectEncoding(request.headers, 'body');
        const key = checkedKey(request.params);
        const version = readIfMatch(request, 'version of the job');
        if (version === null)
          throw invalidField('if-match', 'is required; send the version of the job as it was read');
        const job = await store.jobs.get(key);
        if (job === null) throw await absentJob(role, key);
        const topic = topics.get(key.topic) ?? (await topics.lookUp(key.topic));
        if (topic === undefined) throw topicNotFound(key.topic);
        const seesJobs = grants(rightsOf(request), 'read');
        if (job.version !== version) throw await changed(key, seesJobs);
        const item = acceptEdit(
          job,
          topic,
          (request.body as Buffer | undefined) ?? Buffer.alloc(0),
          pushTerms(role),
        );
        const note = (after: Parameters<typeof editedFields>[2]) =>
          auditNote(request, { detail: { changes: editedFields(job, item, after) } });
        const edited = await editJob(store.jobs, item).catch(async (error: unknown) => {
          // It may be made: when the job is due then is not known.
          if (error instanceof DqError && error.code === 'unknown') note(job);
          throw error instanceof DqError && error.code === 'job_changed'
            ? await changed(key, seesJobs)
            : error;
        });
        if (edited === null) throw await absentJob(role, key);
        note(edited);
        const { state, dueAt } = edited;
        return { ...key, version: String(edited.version), state, dueAt: formatInstant(dueAt) };
      } finally {
        release();
      }
    },
  );

  /** With the job as it is now, for callers that may read it. */
  async function changed(key: JobKey, seesJobs: boolean): Promise<DqError> {
    const job = seesJobs ? await store.jobs.get(key) : null;
    const detail = 'the job was not edited: it has another version by now; read it again, then decide';
    return new DqError('job_changed', detail, {
      extra: job === null ? {} : { job: jobJson(job, await facts.of(job)) },
    });
  }
}
