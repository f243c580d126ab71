// What every route of a survey needs: the topics that the caller may see, and the failures of a survey as
// errors of the API.

import type { FastifyRequest } from 'fastify';
import { DqError, invalidField } from '../../core/errors.ts';
import { reachesEveryTopic } from '../../core/token.ts';
import { StoreError } from '../../ports/store-error.ts';
import type { RoleContext } from '../../process/role.ts';
import { mayTouch, requireTopic, rightsOf } from '../http/route-access.ts';
import { apiLimits } from '../limits.ts';

/** The given topic, or those with jobs that the caller may see; null: all topics. Throws DqError. */
export async function visibleTopics(
  request: FastifyRequest,
  { store }: RoleContext,
  topic: string | undefined,
): Promise<readonly string[] | null> {
  if (topic !== undefined) {
    requireTopic(request, topic);
    return [topic];
  }
  if (reachesEveryTopic(rightsOf(request))) return null;
  const { topics } = await store.admin.counts();
  const visible = Object.keys(topics).filter((name) => mayTouch(request, name));
  if (visible.length > apiLimits.surveyTopicsMax)
    throw invalidField(
      'topic',
      `is required: this token covers more than ${apiLimits.surveyTopicsMax} topics`,
    );
  return visible.sort();
}

/** Rejection handler of a survey. */
export function rejectSurvey(error: unknown): never {
  const code = error instanceof StoreError ? error.failure.code : null;
  if (code === 'survey_busy')
    throw new DqError('survey_busy', 'too many searches at once; try again in a second', { cause: error });
  const why = code === null ? undefined : reasons[code];
  if (why !== undefined) throw new DqError('unavailable', why, { cause: error });
  throw error;
}

const reasons: Readonly<Record<string, string>> = {
  survey_too_long: 'the store has too many jobs for this survey; name a topic',
};
