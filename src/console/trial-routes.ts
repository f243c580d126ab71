// POST, GET and DELETE /v1/trial: begin a trial, watch it, remove it. Only on the port of the console: the
// receiver is in its process.

import { Type } from 'typebox';
import type { Api } from '../api/api-context.ts';
import { closed, instant, nullable, problems, reply, text, yes } from '../api/http/schemas.ts';
import type { Trial } from './trial.ts';

const tags = ['access'];
const Request = closed(
  {
    at: instant('when its last byte arrived'),
    method: text('HTTP method', 'POST'),
    path: text('path', '/hello'),
    headers: Type.Array(closed({ name: text('name', 'dq-topic'), value: text('value', 'trial.hello') }), {
      description: 'as they came',
    }),
    body: text('start of the body', '{"hello":"dq"}'),
    attempt: nullable('integer', { description: 'number of the attempt', examples: [1] }),
    latenessMs: nullable('integer', { description: 'time since the job was due, ms', examples: [12] }),
    signature: Type.Enum(['ok', 'wrong', 'not checked'], { description: 'result of the check' }),
    reason: nullable('string', { description: 'why the signature is wrong', examples: [null] }),
  },
  { title: 'TrialRequest' },
);
const View = closed(
  {
    trial: Type.Union([
      closed(
        {
          topic: text('topic of the trial', 'trial.hello'),
          callbackUrl: text('receiver in dq-console', 'http://127.0.0.1:41877/hello'),
          endsAt: instant('when dq removes the trial'),
          serverUrl: text('address of the API on this machine', 'http://127.0.0.1:6789'),
          id: text('id of the job', '019ab301-77aa-7c3e-8f21-0b9d6a1c2e44'),
          body: text('body of the job', '{"hello":"dq"}'),
          delay: text('delay of the push', '3s'),
          acceptedAt: instant('when the job was pushed'),
          dueAt: instant('when it is due'),
          answeredMs: Type.Number({ description: 'time until the API replied, ms', examples: [2.4] }),
          request: Type.Union([Request, Type.Null()], { description: 'null: not received yet' }),
          failure: Type.Union(
            [
              closed({
                reason: text('why the last attempt failed', 'connect'),
                status: nullable('integer', { description: 'HTTP status', examples: [null] }),
              }),
              Type.Null(),
            ],
            { description: 'of the last attempt; null: none failed' },
          ),
        },
        { title: 'RunningTrial' },
      ),
      Type.Null(),
    ]),
  },
  { title: 'Trial' },
);
const beginSchema = {
  operationId: 'beginTrial',
  tags,
  summary: 'Push a job to a receiver in dq-console; on its port only',
  description: 'Makes the topic trial.hello. dq removes it after 10 min, or with DELETE.',
  response: { 201: reply('the trial', View), ...problems(409, 413, 503) },
};
const getSchema = {
  operationId: 'getTrial',
  tags,
  summary: 'Read the trial; on the console port only',
  response: { 200: reply('the trial; null: none runs', View), ...problems(503) },
};
const endSchema = {
  operationId: 'endTrial',
  tags,
  summary: 'Remove the trial, its topic and its jobs; on the console port only. Takes 2 s',
  response: { 200: reply('removed', closed({ deleted: yes })), ...problems(409, 413, 503) },
};

export function trialRoutes(api: Api, trial: Trial): void {
  const config = { access: { scope: 'admin', topics: 'every' } } as const;

  api.post('/v1/trial', { schema: beginSchema, config }, async (_, answer) =>
    answer.code(201).send({ trial: await trial.begin() }),
  );

  api.get('/v1/trial', { schema: getSchema, config }, async () => ({ trial: await trial.view() }));

  api.delete('/v1/trial', { schema: endSchema, config }, async () => {
    await trial.end();
    return { deleted: true };
  });
}
