// GET /v1/config shows the options in force with their origins, secrets masked, and what a reload would
// change. POST /v1/reload begins a reload, GET shows the running and the last one. The master has both.

import { type TSchema, Type } from 'typebox';
import { formatInstant } from '../../core/duration.ts';
import { DqError } from '../../core/errors.ts';
import type { ReloadState } from '../../process/messages.ts';
import type { Api } from '../api-context.ts';
import { closed, count, instant, nullable, problems, reply, text } from '../http/schemas.ts';
import type { MasterQuestions } from '../master-questions.ts';

const tags = ['operation'];
const admin = { access: { scope: 'admin', topics: 'every' } } as const;

const Option = closed(
  {
    name: text('name of the option', 'limits.topics'),
    value: text('value in force, as dq.yaml would contain it; secrets are masked', '500'),
    origin: text('flag, environment variable, place in the file, or `default`', '/etc/dq/dq.yaml:3:5'),
    source: Type.Enum(['flag', 'environment', 'file', 'default'], { description: 'kind of the origin' }),
    defaultValue: text('its default', '500'),
    needsRestart: Type.Boolean({
      description: 'a change needs `dq restart`: a reload rejects it, or keeps the flags and the environment',
      examples: [false],
    }),
    next: nullable('string', {
      description: 'value after the next reload, where it differs; null: the same',
      examples: [null],
    }),
    help: text('one sentence about the option', 'registered topics'),
  },
  { title: 'ConfigOption' },
);
const configSchema = {
  operationId: 'config',
  tags,
  summary: 'The options in force, and what a reload would change',
  response: {
    200: reply(
      'all options',
      closed(
        {
          file: nullable('string', {
            description: 'configuration file; null: none',
            examples: ['/etc/dq/dq.yaml'],
          }),
          problem: nullable('string', {
            description: 'why a reload would reject the configuration on disk; null: it would not',
            examples: [null],
          }),
          items: Type.Array(Option),
        },
        { title: 'ConfigInForce' },
      ),
    ),
    ...problems(503),
  },
};

const Lines = Type.Array(Type.String(), {
  description: 'what dq reload prints',
  examples: [['starting one new process of every role']],
});
const Reload: TSchema = closed(
  {
    running: Type.Union(
      [
        Type.Null(),
        closed({ startedAt: instant('when it began'), lines: Lines }, { title: 'RunningReload' }),
      ],
      { description: 'the running one', examples: [null] },
    ),
    waiting: Type.Boolean({ description: 'another reload follows at once', examples: [false] }),
    last: Type.Union(
      [
        Type.Null(),
        closed(
          {
            startedAt: instant('when it began'),
            endedAt: instant('when it ended'),
            outcome: Type.Enum(['reloaded', 'partly', 'rejected'], {
              description:
                '`partly`: the configuration is in force, but a part does not work yet · `rejected`: nothing has changed',
            }),
            reason: nullable('string', { description: 'why not `reloaded`', examples: [null] }),
            lines: Lines,
            generation: count('generation in force after it', 7),
          },
          { title: 'LastReload' },
        ),
      ],
      { description: 'null: none since the start of the daemon', examples: [null] },
    ),
    generation: count('generation in force; 1 for the start', 7),
    restart: nullable('string', {
      description: 'why `dq restart` is needed: the code on disk is newer than dq-master; null: it is not',
      examples: [null],
    }),
  },
  { title: 'Reload' },
);
const reloadSchema = {
  operationId: 'reloadState',
  tags,
  summary: 'The running and the last reload of this instance',
  response: { 200: reply('both', Reload), ...problems(503) },
};
const beginSchema = {
  operationId: 'reload',
  tags,
  summary: 'Reload: new processes with the configuration and the code on disk',
  description:
    'As dq reload. During a reload, another one follows it. A reload that is rejected changes nothing.',
  response: { 202: reply('it begins', Reload), ...problems(413, 503) },
};

export function configRoutes(api: Api, questions: MasterQuestions): void {
  api.get('/v1/config', { schema: configSchema, config: admin }, async () => {
    const state = await questions.config();
    if (state === null) throw silent();
    return state;
  });

  api.get('/v1/reload', { schema: reloadSchema, config: admin }, async () =>
    reloadJson(await questions.reload(false)),
  );

  api.post('/v1/reload', { schema: beginSchema, config: admin }, async (_request, answer) =>
    answer.code(202).send(reloadJson(await questions.reload(true))),
  );
}

function reloadJson(state: ReloadState | null): object {
  if (state === null) throw silent();
  const { running, last, ...rest } = state;
  return {
    ...rest,
    running: running === null ? null : { ...running, startedAt: formatInstant(running.startedAt) },
    last:
      last === null
        ? null
        : { ...last, startedAt: formatInstant(last.startedAt), endedAt: formatInstant(last.endedAt) },
  };
}

/** The master hangs. */
function silent(): DqError {
  return new DqError('unavailable', 'master: no answer; try again');
}
