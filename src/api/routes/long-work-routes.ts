// /v1/backup and /v1/fsck: operations of the store that take longer than a call. POST starts one, GET shows
// its state. One runs at a time. A backup writes files, so only the daemon's own user may start one: while no
// token exists, dq serves other users of the machine too.

import { isAbsolute } from 'node:path';
import { Type } from 'typebox';
import { formatInstant } from '../../core/duration.ts';
import { DqError, invalidField } from '../../core/errors.ts';
import type { Examination, LongWork, Problem } from '../../ports/job-store.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { closed, count, instant, problems, reply, text } from '../http/schemas.ts';
import { apiLimits } from '../limits.ts';
import type { MasterQuestions } from '../master-questions.ts';

const tags = ['operation'];
const work = {
  state: Type.Enum(['none', 'running', 'done', 'failed'], {
    description: 'none: not started since the store started; after running: lost by a restart of the store',
  }),
  startedAt: Type.Optional(instant('when it started')),
  endedAt: Type.Optional(instant('when it ended')),
  reason: Type.Optional(text('why it failed', '/backup exists already')),
};
const directory = text('absolute path of a directory that does not exist yet', '/backup/2030-01-01');

const Backup = closed(
  {
    ...work,
    directory: Type.Optional(
      text(
        'directory of the copy: jobs.db (jobs on Redis: not), registry.db (MySQL: not)',
        '/backup/2030-01-01',
      ),
    ),
    bytes: Type.Optional(count('size of the copy in bytes', 1_048_576)),
    notCopied: Type.Optional(text('what else to back up', 'the jobs are in Redis and not in this copy')),
  },
  { title: 'Backup' },
);
const FsckProblem = closed(
  {
    invariant: text('invariant that does not hold', 'one_state'),
    what: text('what is wrong', 'jobs without a body'),
    count: count('how many', 1),
    examples: Type.Array(Type.String(), { description: 'some of them', examples: [['order.close 4711']] }),
    awaits: Type.Optional(
      Type.Array(Type.String(), {
        description:
          'J1, J2: silent instances whose changes the journal lacks. They may explain it, so nothing is broken yet',
        examples: [['instance 5f3a on vm-2']],
      }),
    ),
  },
  { title: 'FsckProblem' },
);
const Fsck = closed(
  {
    ...work,
    jobs: Type.Optional(count('jobs examined', 4711)),
    relinked: Type.Optional(count('entries that were put back into the keys that lost them; with relink', 3)),
    problems: Type.Optional(Type.Array(FsckProblem, { description: 'empty: all invariants hold' })),
  },
  { title: 'Fsck' },
);

const startBackupSchema = {
  operationId: 'startBackup',
  tags,
  summary: 'Copy the current store and registry into a new directory of this machine',
  body: closed({ directory }),
  response: { 202: reply('started', Backup), ...problems(409, 413, 415, 503) },
};
const backupSchema = {
  operationId: 'backup',
  tags,
  summary: 'The last backup',
  response: { 200: reply('its state', Backup), ...problems(503) },
};
const startFsckSchema = {
  operationId: 'startFsck',
  tags,
  summary: "Check the store's invariants; changes nothing without relink",
  querystring: closed({
    relink: Type.Optional(
      Type.Enum(['true'], {
        description: 'Redis: before the check, put jobs back into keys that were lost, by their records',
      }),
    ),
  }),
  response: { 202: reply('started', Fsck), ...problems(409, 413, 503) },
};
const fsckSchema = {
  operationId: 'fsck',
  tags,
  summary: 'The last check of the invariants',
  response: { 200: reply('its state', Fsck), ...problems(503) },
};

export function longWorkRoutes(api: Api, { role }: ApiContext, questions: MasterQuestions): void {
  const { admin } = role.store;
  const read = { access: { scope: 'read', topics: 'every' } } as const;
  const ownerOnly = { access: { scope: 'admin', topics: 'every', ownerOnly: true } } as const;

  api.post('/v1/backup', { schema: startBackupSchema, config: ownerOnly }, async (request, answer) => {
    const { directory } = request.body;
    if (!isAbsolute(directory) || directory.length > apiLimits.pathCharsMax || directory.includes('\0'))
      throw invalidField('directory', 'must be an absolute path');
    rejectBusy(await admin.startBackup(directory));
    return answer.code(202).send(workJson(await admin.backup()));
  });
  api.get('/v1/backup', { schema: backupSchema, config: read }, async () => workJson(await admin.backup()));

  api.post(
    '/v1/fsck',
    { schema: startFsckSchema, config: { access: { scope: 'admin', topics: 'every' } } },
    async (request, answer) => {
      const relinks = request.query.relink === 'true';
      if (relinks && role.shards === undefined)
        throw new DqError('no_shards', 'relink: only Redis can lose single keys; the jobs are in jobs.db');
      if ((await fsckState()).kind === 'running') rejectBusy('busy');
      rejectBusy(await (relinks ? admin.startFsck('relinks') : admin.startFsck()));
      if (role.journal !== undefined) await questions.ask('journal_fsck', { starts: true });
      return answer.code(202).send(workJson(await fsckState()));
    },
  );
  api.get('/v1/fsck', { schema: fsckSchema, config: read }, async () => workJson(await fsckState()));

  /** Of the store, and with a journal also of the journal. */
  async function fsckState(): Promise<LongWork<Examination>> {
    const own = await admin.fsck();
    if (role.journal === undefined || own.kind !== 'done') return own;
    const answers = await questions.ask('journal_fsck', { starts: false });
    return withJournal(own, answers?.find(({ answer }) => answer !== null)?.answer ?? null);
  }
}

type Done = Extract<LongWork<Examination>, { readonly kind: 'done' }>;

/** `journal` null: dq-upkeep does not answer. */
function withJournal(own: Done, journal: LongWork<readonly Problem[]> | null): LongWork<Examination> {
  const { startedAt, endedAt, result } = own;
  switch (journal?.kind) {
    case 'running':
      return { kind: 'running', startedAt };
    case 'done': {
      const problems = [...result.problems, ...journal.result];
      return { ...own, endedAt: Math.max(endedAt, journal.endedAt), result: { ...result, problems } };
    }
    case 'failed':
      return { ...journal, reason: `cannot check the journal: ${journal.reason}` };
    default:
      return { kind: 'failed', startedAt, endedAt, reason: unchecked };
  }
}

const unchecked =
  'this instance has not checked the journal since the start of its dq-upkeep, or that does not answer; start the check again';

function rejectBusy(started: 'started' | 'busy'): void {
  if (started === 'busy')
    throw new DqError('work_running', 'a backup or an fsck is running; call again after its end');
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
