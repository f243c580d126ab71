// /v1/backup, /v1/fsck and /v1/move: operations of the store that take longer than a call. POST starts one,
// GET shows its state. Either a backup or an fsck runs at a time. A backup writes files, so only the daemon's
// own user may start one: while no token exists, dq serves other users of the machine too. A move takes the
// jobs that this instance had in jobs.db to Redis (upkeep/mover.ts).

import { isAbsolute } from 'node:path';
import {
  backupSchema,
  beginMoveSchema,
  fsckSchema,
  type MoveJson,
  moveSchema,
  startBackupSchema,
  startFsckSchema,
} from '../../contract/api/store.ts';
import { formatInstant, formatInstantOrNull } from '../../core/duration.ts';
import { DqError, invalidField } from '../../core/errors.ts';
import type { Examination, LongWork, Problem } from '../../ports/job-store.ts';
import type { LeavingState } from '../../ports/leaving.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { needs } from '../http/route-access.ts';
import { apiLimits } from '../limits.ts';

const read = needs('read', 'every');
const admin = needs('admin', 'every');

export function longWorkRoutes(api: Api, context: ApiContext): void {
  const { role, questions } = context;
  const { admin: store } = role.store;
  const ownerOnly = { access: { ...admin.access, ownerOnly: true } } as const;

  api.post('/v1/backup', { schema: startBackupSchema, config: ownerOnly }, async (request, answer) => {
    const { directory } = request.body;
    if (!isAbsolute(directory) || directory.length > apiLimits.pathCharsMax || directory.includes('\0'))
      throw invalidField('directory', 'must be an absolute path');
    rejectBusy(await store.startBackup(directory));
    return answer.code(202).send(workJson(await store.backup()));
  });
  api.get('/v1/backup', { schema: backupSchema, config: read }, async () => workJson(await store.backup()));

  api.post('/v1/fsck', { schema: startFsckSchema, config: admin }, async (request, answer) => {
    const relinks = request.query.relink === 'true';
    if (relinks && role.shards === undefined)
      throw new DqError('no_shards', 'relink: only Redis can lose single keys; the jobs are in jobs.db');
    if ((await fsckState()).kind === 'running') rejectBusy('busy');
    rejectBusy(await (relinks ? store.startFsck('relinks') : store.startFsck()));
    if (role.journal !== undefined) await questions.ask('journal_fsck', { starts: true });
    return answer.code(202).send(workJson(await fsckState()));
  });
  api.get('/v1/fsck', { schema: fsckSchema, config: read }, async () => workJson(await fsckState()));

  moveRoutes(api, context);

  /** Of the store, and with a journal also of the journal. */
  async function fsckState(): Promise<LongWork<Examination>> {
    const own = await store.fsck();
    if (role.journal === undefined || own.kind !== 'done') return own;
    const answers = await questions.ask('journal_fsck', { starts: false });
    return withJournal(own, answers?.find(({ answer }) => answer !== null)?.answer ?? null);
  }
}

const noMove: MoveJson = { state: 'none', jobs: 0, total: null, startedAt: null, problem: null };

function moveRoutes(api: Api, { role, questions }: ApiContext): void {
  const { leaving } = role;

  api.get('/v1/move', { schema: moveSchema, config: read }, async () =>
    leaving === undefined ? noMove : moveJson(await leaving.calls.state()),
  );

  api.post('/v1/move', { schema: beginMoveSchema, config: admin }, async (_request, answer) => {
    answer.code(202);
    if (leaving === undefined) return noMove;
    const state = await leaving.calls.state();
    return moveJson(state.jobs > 0 ? await leaving.calls.begin() : state);
  });

  async function moveJson({ jobs, move, total, startedAt }: LeavingState): Promise<MoveJson> {
    const answers = move === null ? null : await questions.ask('move_problem', null);
    return {
      state: move !== null ? 'moving' : jobs > 0 ? 'held' : 'none',
      jobs,
      total,
      startedAt: formatInstantOrNull(startedAt),
      problem: answers?.[0]?.answer ?? null,
    };
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

function workJson<Result extends object>(state: LongWork<Result>) {
  if (state.kind === 'none') return { state: state.kind };
  const startedAt = formatInstant(state.startedAt);
  if (state.kind === 'running') return { state: state.kind, startedAt };
  const times = { startedAt, endedAt: formatInstant(state.endedAt) };
  return state.kind === 'failed'
    ? { state: state.kind, ...times, reason: state.reason }
    : { state: state.kind, ...times, ...state.result };
}
