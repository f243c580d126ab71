// GET /v1/journal: the spool of this instance, the instances that write a journal, and the newest restores.

import { Type } from 'typebox';
import { formatInstant } from '../../core/duration.ts';
import { DqError } from '../../core/errors.ts';
import { limits } from '../../core/limits.ts';
import { allBarriers, type JournalInstance, type RestoreState } from '../../ports/journal.ts';
import type { FoundStream, StreamName, StreamPosition } from '../../ports/spool.ts';
import { StoreError } from '../../ports/store-error.ts';
import type { JournalParts, RoleContext } from '../../process/role.ts';
import { within } from '../../runtime/timeout.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { closed, count, instant, nullable, problems, reply, text } from '../http/schemas.ts';
import { apiLimits } from '../limits.ts';
import type { MasterQuestions } from '../master-questions.ts';

const Stream = closed(
  {
    instance: text('instance, hexadecimal', '0f1e2d3c'),
    incarnation: count('start of the process that wrote it', 1_893_456_000_000),
    segments: count('files', 2),
    bytes: count('of these files', 16_777_216),
    waiting: nullable('integer', {
      description: 'files that MySQL does not have to their end; null: MySQL does not answer',
      examples: [2],
    }),
  },
  { title: 'JournalStream' },
);
const Instance = closed(
  {
    instance: text('instance, hexadecimal', '0f1e2d3c'),
    self: Type.Boolean({ description: 'the instance that answers', examples: [true] }),
    host: text('its machine', 'worker-1'),
    seenMs: count('milliseconds since its last sign', 420),
    state: Type.Enum(['lives', 'silent', 'ended'], {
      description:
        '`silent`: no sign for 10 s, and it may have changes that MySQL lacks; a healing waits for it, for journal.peerWait · `ended`: nothing follows until it starts again',
    }),
    spoolBytes: count('bytes of its spool', 16_777_216),
  },
  { title: 'JournalInstance' },
);
const Restore = closed(
  {
    no: count('number', 1),
    kind: Type.Enum(['heal', 'lost_shard', 'returned_shard', 'shipped'], {
      description:
        '`heal`: Redis lost changes · `shipped`: changes that arrived late are compared · others: of shards',
    }),
    about: text('shard; shipped: place', '0f1e2d3c4b5a6978'),
    state: Type.Enum(['open', 'done', 'failed'], { description: 'its progress' }),
    done: count('rows compared', 1_000),
    put: count('jobs put back', 10),
    removed: count('jobs removed that had ended', 1),
    kept: count('jobs that were as in the journal', 989),
    begunAt: instant('when it began'),
    endedAt: nullable('string', { description: 'when it ended; null: it runs', examples: [null] }),
  },
  { title: 'JournalRestore' },
);
const schema = {
  operationId: 'journal',
  tags: ['operation'],
  summary: 'How the journal is doing: spool, lag, instances, restores',
  response: {
    200: reply(
      'the journal',
      closed(
        {
          mode: Type.Enum(['off', 'sync'], { description: '`off`: there is no journal' }),
          lagMs: nullable('integer', {
            description: 'age of the oldest change that MySQL does not have; null: unknown',
            examples: [0],
          }),
          spoolBytes: count('bytes of all files of the spool', 16_777_216),
          spoolBytesMax: count('journal.spoolBytes', 1_073_741_824),
          late: count('files in spool/late', 0),
          damaged: count('files in spool/damaged', 0),
          streams: Type.Array(Stream, { description: 'one per process that wrote to the spool' }),
          instances: Type.Union([Type.Null(), Type.Array(Instance)], {
            description: 'null: MySQL does not answer',
          }),
          restores: Type.Union([Type.Null(), Type.Array(Restore)], {
            description: 'the newest ones, newest first; null: MySQL does not answer',
          }),
        },
        { title: 'Journal' },
      ),
    ),
    ...problems(503),
  },
};

const giveUpSchema = {
  operationId: 'giveUpInstances',
  tags: ['operation'],
  summary: 'Goes on without the changes of instances that give no sign',
  description:
    'A healing of Redis waits no longer for them. Jobs that only such an instance has cancelled or replaced can be called. They count again from their next sign on.',
  response: {
    200: reply(
      'these are given up',
      closed({ instances: Type.Array(Instance) }, { title: 'GivenUpInstances' }),
    ),
    ...problems(409, 503),
  },
};

export function journalRoute(api: Api, { role }: ApiContext, questions: MasterQuestions): void {
  const config = { access: { scope: 'read', topics: 'every' } } as const;
  api.get('/v1/journal', { schema, config }, () =>
    role.journal === undefined ? none : stateOf(role, role.journal, questions),
  );
  api.post(
    '/v1/journal/give-up',
    { schema: giveUpSchema, config: { access: { scope: 'admin', topics: 'every' } } },
    async () => {
      if (role.journal === undefined)
        throw new DqError('no_journal', 'there is no journal; the option journal.mode switches it on');
      const instances = await role.journal.db.giveUp(limits.journalSeenMs);
      return { instances: instances.map((each) => instanceJson(each, role.owner.instance)) };
    },
  );
}

const none = {
  ...{ mode: 'off', lagMs: null, spoolBytes: 0, spoolBytesMax: 0, late: 0, damaged: 0, streams: [] },
  ...{ instances: [], restores: [] },
};

async function stateOf(
  { config, owner }: RoleContext,
  { db, spool }: JournalParts,
  questions: MasterQuestions,
): Promise<object> {
  const [lag, streams, bytes, aside] = await Promise.all([
    questions.ask('journal_lag', null),
    spool.streams(),
    spool.bytes(),
    spool.setAsideCounts(),
  ]);
  const stored = await inTime(async () => ({
    instances: await db.instances(),
    restores: await db.restores(apiLimits.journalRestores),
    positions: await db.positions(owner.instance),
  }));
  return {
    mode: config['journal.mode'],
    lagMs: lag?.[0]?.answer ?? null,
    ...{ spoolBytes: bytes, spoolBytesMax: config['journal.spoolBytes'], ...aside },
    streams: streams.map((stream) => streamJson(stream, stored?.positions ?? null)),
    instances: stored?.instances.map((each) => instanceJson(each, owner.instance)) ?? null,
    restores: stored?.restores.map(restoreJson) ?? null,
  };
}

/** null = MySQL does not answer. */
async function inTime<T>(work: () => Promise<T>): Promise<T | null> {
  try {
    const late = () => new StoreError({ kind: 'not_stored', code: 'no_answer' }, { where: 'MySQL' });
    return await within(apiLimits.readyMs, work(), late);
  } catch (error) {
    if (error instanceof StoreError) return null;
    throw error;
  }
}

function streamJson(
  { instance, incarnation, segments }: FoundStream,
  positions: readonly (StreamName & StreamPosition)[] | null,
): object {
  const at = positions?.find((one) => one.instance === instance && one.incarnation === incarnation);
  return {
    ...{ instance: hexOf(instance), incarnation, segments: segments.length },
    bytes: segments.reduce((sum, segment) => sum + segment.bytes, 0),
    waiting:
      positions === null ? null : segments.filter(({ segment }) => segment >= (at?.segment ?? 0)).length,
  };
}

const instanceJson = (
  { instance, host, ageMs, barrier, spoolBytes }: JournalInstance,
  self: number,
): object => ({
  ...{ instance: hexOf(instance), self: instance === self, host, seenMs: Math.max(0, ageMs) },
  state: barrier === allBarriers ? 'ended' : ageMs < limits.journalSeenMs ? 'lives' : 'silent',
  spoolBytes,
});

const restoreJson = ({ no, kind, about, state, counts, begunAt, endedAt }: RestoreState): object => ({
  ...{ no, kind, about, state, ...counts },
  ...{ begunAt: formatInstant(begunAt), endedAt: endedAt === null ? null : formatInstant(endedAt) },
});

const hexOf = (instance: number): string => instance.toString(16).padStart(8, '0');
