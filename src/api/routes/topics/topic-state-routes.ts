// POST /v1/topics/{topic}/pause, /resume, /offline set the state of a topic. Repeating a call has no further
// effect.

import { stateVerb } from '../../../contract/api/topic.ts';
import { topicJson } from '../../../core/topic/settings.ts';
import type { TopicState } from '../../../core/topic/topic.ts';
import { patchTopic } from '../../../use-cases/change-topic.ts';
import type { Api, ApiContext } from '../../api-context.ts';
import { seesHeaderValues } from '../../http/route-access.ts';
import { finishChange, nameToFind } from './topic-routes.ts';

const verbs: Readonly<Record<string, { readonly state: TopicState; readonly summary: string }>> = {
  pause: { state: 'paused', summary: 'Hold deliveries, accept pushes' },
  resume: { state: 'active', summary: 'Deliver again' },
  offline: { state: 'offline', summary: 'Hold deliveries, reject pushes' },
};

export function topicStateRoutes(api: Api, { role }: ApiContext): void {
  for (const [verb, { state, summary }] of Object.entries(verbs)) {
    api.post(
      `/v1/topics/:topic/${verb}`,
      {
        schema: { ...stateVerb, operationId: `${verb}Topic`, summary },
        config: { access: { scope: 'operate', topics: 'path' } },
      },
      async (request) => {
        const name = nameToFind(request.params.topic);
        const changed = await patchTopic(role.registry, name, { settings: {}, state });
        await finishChange(request, role, changed);
        return topicJson(changed.topic, seesHeaderValues(request));
      },
    );
  }
}
