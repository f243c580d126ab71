// POST /v1/topics/{topic}/pause, /resume, /offline: the state of a topic without the rest of it. Repeating one is no error.

import { topicJson } from '../../../core/topic/settings.ts';
import type { TopicState } from '../../../core/topic/topic.ts';
import { patchTopic } from '../../../use-cases/change-topic.ts';
import type { Api, ApiContext } from '../../api-context.ts';
import { seesHeaderValues } from '../../http/route-access.ts';
import { closed, problems, reply, topicParam } from '../../http/schemas.ts';
import { nameToFind } from './topic-routes.ts';
import { Topic } from './topic-schemas.ts';

const verbs: Readonly<Record<string, { readonly state: TopicState; readonly summary: string }>> = {
  pause: { state: 'paused', summary: 'Hold deliveries; pushes are accepted' },
  resume: { state: 'active', summary: 'Deliver again' },
  offline: { state: 'offline', summary: 'Refuse pushes and hold deliveries' },
};

export function topicStateRoutes(api: Api, { role }: ApiContext): void {
  for (const [verb, { state, summary }] of Object.entries(verbs)) {
    api.post(
      `/v1/topics/:topic/${verb}`,
      {
        schema: {
          operationId: `${verb}Topic`,
          tags: ['topics'],
          summary,
          params: closed(topicParam),
          response: { 200: reply('the topic', Topic), ...problems(404, 413, 503) },
        },
        config: { access: { scope: 'operate', topics: 'path' } },
      },
      async (request) => {
        const topic = await patchTopic(role.registry, nameToFind(request.params.topic), {
          settings: {},
          state,
        });
        // Others learn within useCaseLimits.topicChangeMs; that this process learns late is no failure of the call.
        await role.topics.refresh().catch(() => undefined);
        return topicJson(topic, seesHeaderValues(request));
      },
    );
  }
}
