// /v1/backup and /v1/fsck: works of the store that take longer than a call. A POST starts one, a GET tells how far it is. One runs
// at a time. A backup makes files, so it is for the daemon's own user alone: other users of the machine are let in while no token exists.

import { isAbsolute } from 'node:path';
import { Type } from 'typebox';
import { formatInstant } from '../../core/duration.ts';
import { DqError, invalidField } from '../../core/errors.ts';
import type { LongWork } from '../../ports/job-store.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { closed, Instant, problems, reply } from '../http/schemas.ts';
import { apiLimits } from '../limits.ts';

const tags = ['operation'];
const work = {
  state: Type.Enum(['none', 'running', 'done', 'failed'], {
    description: 'none: none since the store started; after running it was lost',
  }),
  startedAt: Type.Optional(Instant),
  endedAt: Type.Optional(Instant),
  reason: Type.Optional(Type.String({ description: 'why it failed' })),
};
const Backup = closed({
  ...work,
  directory: Type.Optional(Type.String({ description: 'holds jobs.db and registry.db' })),
  bytes: Type.Optional(Type.Integer()),
});
const Fsck = closed({
  ...work,
  jobs: Type.Optional(Type.Integer({ description: 'that were examined' })),
  problems: Type.Optional(
    Type.Array(
      closed({
        invariant: Type.String(),
        what: Type.String(),
        count: Type.Integer(),
        examples: Type.Array(Type.String()),
      }),
    ),
  ),
});

export function longWorkRoutes(api: Api, context: ApiContext): void {
  backupRoutes(api, context);
  fsckRoutes(api, context);
}

function backupRoutes(api: Api, { role }: ApiContext): void {
  const { admin } = role.store;
  const access = { scope: 'admin', topics: 'every', ownerOnly: true } as const;
  api.post(
    '/v1/backup',
    {
      schema: {
        operationId: 'startBackup',
        tags,
        summary: 'Copy the store and the registry, as they are now, into a new directory of this machine',
        body: closed({ directory: Type.String({ description: 'an absolute path; not there yet' }) }),
        response: { 202: reply('started', Backup), ...problems(409, 413, 415, 503) },
      },
      config: { access },
    },
    async (request, answer) => {
      const { directory } = request.body;
      if (!isAbsolute(directory) || directory.length > apiLimits.pathCharsMax || directory.includes('\0'))
        throw invalidField('directory', 'must be an absolute path');
      refuseBusy(await admin.startBackup(directory));
      return answer.code(202).send(workJson(await admin.backup()));
    },
  );
  api.get(
    '/v1/backup',
    {
      schema: {
        operationId: 'backup',
        tags,
        summary: 'The last backup',
        response: { 200: reply('now', Backup), ...problems(503) },
      },
      config: { access: { scope: 'read', topics: 'every' } },
    },
    async () => workJson(await admin.backup()),
  );
}

function fsckRoutes(api: Api, { role }: ApiContext): void {
  const { admin } = role.store;
  api.post(
    '/v1/fsck',
    {
      schema: {
        operationId: 'startFsck',
        tags,
        summary: 'Examine whether the store keeps its invariants; changes nothing',
        response: { 202: reply('started', Fsck), ...problems(409, 413, 503) },
      },
      config: { access: { scope: 'admin', topics: 'every' } },
    },
    async (_request, answer) => {
      refuseBusy(await admin.startFsck());
      return answer.code(202).send(workJson(await admin.fsck()));
    },
  );
  api.get(
    '/v1/fsck',
    {
      schema: {
        operationId: 'fsck',
        tags,
        summary: 'The last examination',
        response: { 200: reply('now', Fsck), ...problems(503) },
      },
      config: { access: { scope: 'read', topics: 'every' } },
    },
    async () => workJson(await admin.fsck()),
  );
}

function refuseBusy(started: 'started' | 'busy'): void {
  if (started === 'busy')
    throw new DqError('work_running', 'a backup or an examination is running; wait for its end');
}

function workJson(state: LongWork<object>): object {
  if (state.kind === 'none') return { state: 'none' };
  const startedAt = formatInstant(state.startedAt);
  if (state.kind === 'running') return { state: 'running', startedAt };
  const times = { startedAt, endedAt: formatInstant(state.endedAt) };
  return state.kind === 'failed'
    ? { state: 'failed', ...times, reason: state.reason }
    : { state: 'done', ...times, ...state.result };
}
