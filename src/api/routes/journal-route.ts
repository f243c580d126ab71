// GET /v1/journal: the spool of this instance, the instances that write a journal, and the newest restores.

import {
  giveUpInstancesSchema,
  type JournalInstanceJson,
  type JournalJson,
  type JournalRestoreJson,
  journalSchema,
} from '../../contract/api/journal.ts';
import { formatInstant, formatInstantOrNull } from '../../core/duration.ts';
import { DqError } from '../../core/errors.ts';
import { limits } from '../../core/limits.ts';
import { allBarriers, type JournalInstance, type RestoreState } from '../../ports/journal.ts';
import type { FoundStream, StreamName, StreamPosition } from '../../ports/spool.ts';
import type { MasterQuestions } from '../../process/master-questions.ts';
import type { JournalParts, RoleContext } from '../../process/role.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { needs } from '../http/route-access.ts';
import { apiLimits } from '../limits.ts';
import { inTime } from './store-routes.ts';

export function journalRoute(api: Api, { role, questions }: ApiContext): void {
  const config = needs('read', 'every');
  api.get('/v1/journal', { schema: journalSchema, config }, () =>
    role.journal === undefined ? none : stateOf(role, role.journal, questions),
  );
  api.post(
    '/v1/journal/give-up',
    { schema: giveUpInstancesSchema, config: needs('admin', 'every') },
    async () => {
      if (role.journal === undefined)
        throw new DqError('no_journal', 'there is no journal; the option journal.mode switches it on');
      const instances = await role.journal.db.giveUp(limits.journalSeenMs);
      return { instances: instances.map((each) => instanceJson(each, role.owner.instance)) };
    },
  );
}

const none: JournalJson = {
  mode: 'off',
  lagMs: null,
  spoolBytes: 0,
  spoolBytesMax: 0,
  late: 0,
  damaged: 0,
  streams: [],
  instances: [],
  restores: [],
};

async function stateOf(
  { config, owner }: RoleContext,
  { db, spool }: JournalParts,
  questions: MasterQuestions,
) {
  const [lag, streams, bytes, aside] = await Promise.all([
    questions.ask('journal_lag', null),
    spool.streams(),
    spool.bytes(),
    spool.setAsideCounts(),
  ]);
  // null: MySQL does not answer.
  const stored = await inTime(storedIn(db, owner.instance));
  return {
    mode: config['journal.mode'],
    lagMs: lag?.[0]?.answer ?? null,
    spoolBytes: bytes,
    spoolBytesMax: config['journal.spoolBytes'],
    ...aside,
    streams: streams.map((stream) => streamJson(stream, stored?.positions ?? null)),
    instances: stored?.instances.map((each) => instanceJson(each, owner.instance)) ?? null,
    restores: stored?.restores.map(restoreJson) ?? null,
  };
}

async function storedIn(db: JournalParts['db'], instance: number) {
  return {
    instances: await db.instances(),
    restores: await db.restores(apiLimits.journalRestores),
    positions: await db.positions(instance),
  };
}

function streamJson(
  { instance, incarnation, segments }: FoundStream,
  positions: readonly (StreamName & StreamPosition)[] | null,
) {
  const at = positions?.find((one) => one.instance === instance && one.incarnation === incarnation);
  return {
    instance: hexOf(instance),
    incarnation,
    segments: segments.length,
    bytes: segments.reduce((sum, segment) => sum + segment.bytes, 0),
    waiting:
      positions === null ? null : segments.filter(({ segment }) => segment >= (at?.segment ?? 0)).length,
  };
}

const instanceJson = (
  { instance, host, ageMs, barrier, spoolBytes }: JournalInstance,
  self: number,
): JournalInstanceJson => ({
  instance: hexOf(instance),
  self: instance === self,
  host,
  seenMs: Math.max(0, ageMs),
  state: barrier === allBarriers ? 'ended' : ageMs < limits.journalSeenMs ? 'lives' : 'silent',
  spoolBytes,
});

const restoreJson = ({
  no,
  kind,
  about,
  state,
  counts,
  begunAt,
  endedAt,
}: RestoreState): JournalRestoreJson => ({
  no,
  // JournalDb.restores() leaves out surveys.
  kind: kind as JournalRestoreJson['kind'],
  about,
  state,
  ...counts,
  begunAt: formatInstant(begunAt),
  endedAt: formatInstantOrNull(endedAt),
});

const hexOf = (instance: number): string => instance.toString(16).padStart(8, '0');
