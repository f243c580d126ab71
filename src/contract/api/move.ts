// The move of the jobs that an instance had in jobs.db to Redis.

import { Type } from 'typebox';
import { closed, count, countOrNull, problems, type ReplyOf, reply, textOrNull } from './schema.ts';

const Move = closed(
  {
    state: Type.Enum(['none', 'held', 'moving'], {
      description:
        '`none`: jobs.db has no jobs, or Redis is not in force · `held`: it has jobs, which dq does not deliver, and no move is open · `moving`: they move',
    }),
    jobs: count('jobs that jobs.db still has', 3_808_331),
    total: countOrNull('its jobs when the move began; null: none is open', 5_012_331),
    startedAt: textOrNull('when the move began; null: none is open', '2030-01-31T09:00:00.000Z'),
    problem: textOrNull('why the move waits; null: it does not, or none is open'),
  },
  { title: 'Move' },
);

export const moveSchema = {
  operationId: 'move',
  tags: ['operation'],
  summary: 'How far the jobs of jobs.db have moved to Redis',
  response: { 200: reply('the move of this instance', Move), ...problems(503) },
};
export type MoveJson = ReplyOf<typeof moveSchema>;

export const beginMoveSchema = {
  operationId: 'beginMove',
  tags: ['operation'],
  summary: 'Moves the jobs of jobs.db to Redis',
  description:
    'The jobs of a jobs.db that was in force before Redis. They are delivered from Redis as soon as they are there; leases of pull clients go on. The move survives every process and has no stop. A repeat changes nothing.',
  response: { 202: reply('the move has begun, or goes on', Move), ...problems(503) },
};
