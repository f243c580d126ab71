// job-key.ts reads the job that a path names, and makes the error for a missing job.

import type { FastifyRequest } from 'fastify';
import { DqError, invalidField } from '../../core/errors.ts';
import type { JobKey, VersionedKey } from '../../core/job.ts';
import { refusesId } from '../../core/job-id.ts';
import { topicNamePattern } from '../../core/topic/fields.ts';
import type { TopicBook } from '../../registry/topic-book.ts';
import { topicNotFound } from '../../use-cases/change-topic.ts';
import { readIfMatch } from '../http/if-match.ts';

/** Throws DqError for a path that cannot name a job. */
export function readKey(params: JobKey): JobKey {
  if (!topicNamePattern.test(params.topic)) throw topicNotFound(params.topic);
  const wrong = refusesId(params.id);
  if (wrong !== null) throw invalidField('id', wrong);
  return params;
}

/** The same for a verb, which may name the version that the caller has read (If-Match). */
export function readVersionedKey(request: FastifyRequest<{ Params: JobKey }>): VersionedKey {
  const key = readKey(request.params);
  const version = readIfMatch(request, 'version of the job');
  return version === null ? key : { ...key, version };
}

/** job_not_found, or topic_not_found. For use after the store's answer, because a job outlives its topic. */
export async function absentJob(topics: TopicBook, topic: string): Promise<DqError> {
  const known = topics.get(topic) ?? (await topics.lookUp(topic));
  return known === undefined
    ? topicNotFound(topic)
    : new DqError('job_not_found', 'no such job, or the job has ended');
}
