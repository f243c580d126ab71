// The job that a path names, and the answer when it is not there.

import { DqError, invalidField } from '../../core/errors.ts';
import type { JobKey } from '../../core/job.ts';
import { refusesId } from '../../core/job-id.ts';
import { topicNamePattern } from '../../core/topic/fields.ts';
import type { TopicBook } from '../../registry/topic-book.ts';
import { topicNotFound } from '../../use-cases/change-topic.ts';

/** Throws a DqError for a path that cannot name a job. */
export function readKey(params: JobKey): JobKey {
  if (!topicNamePattern.test(params.topic)) throw topicNotFound(params.topic);
  const wrong = refusesId(params.id);
  if (wrong !== null) throw invalidField('id', wrong);
  return params;
}

/** Why there is no job: its topic may be missing as well. Asked after the store, because a job outlives its topic. */
export async function absentJob(topics: TopicBook, topic: string): Promise<DqError> {
  const known = topics.get(topic) ?? (await topics.lookUp(topic));
  return known === undefined
    ? topicNotFound(topic)
    : new DqError('job_not_found', 'there is no such job, or it has ended');
}
