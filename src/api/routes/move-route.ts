// /v1/move: the jobs that this instance had in jobs.db move to Redis (upkeep/mover.ts).

import { beginMoveSchema, type MoveJson, moveSchema } from '../../contract/api/move.ts';
import { formatInstant } from '../../core/duration.ts';
import type { LeavingState } from '../../ports/leaving.ts';
import type { MasterQuestions } from '../../process/master-questions.ts';
import type { Api, ApiContext } from '../api-context.ts';

export function moveRoute(api: Api, { role }: ApiContext, questions: MasterQuestions): void {
  const { leaving } = role;

  api.get(
    '/v1/move',
    { schema: moveSchema, config: { access: { scope: 'read', topics: 'every' } } },
    async () => (leaving === undefined ? none : moveJson(await leaving.calls.state())),
  );

  api.post(
    '/v1/move',
    { schema: beginMoveSchema, config: { access: { scope: 'admin', topics: 'every' } } },
    async (_request, answer) => {
      answer.code(202);
      if (leaving === undefined) return none;
      const state = await leaving.calls.state();
      return moveJson(state.jobs > 0 ? await leaving.calls.begin() : state);
    },
  );

  async function moveJson({ jobs, move, total, startedAt }: LeavingState): Promise<MoveJson> {
    const answers = move === null ? null : await questions.ask('move_problem', null);
    return {
      state: move !== null ? 'moving' : jobs > 0 ? 'held' : 'none',
      jobs,
      total,
      startedAt: startedAt === null ? null : formatInstant(startedAt),
      problem: answers?.[0]?.answer ?? null,
    };
  }
}

const none: MoveJson = { state: 'none', jobs: 0, total: null, startedAt: null, problem: null };
