// The journal: spool, lag, instances, restores.

import { Type } from 'typebox';
import {
  closed,
  count,
  countOrNull,
  flag,
  instant,
  type JsonOf,
  orNull,
  problems,
  type ReplyOf,
  reply,
  text,
  textOrNull,
} from './schema.ts';

const JournalStream = closed(
  {
    instance: text('instance, hexadecimal', '0f1e2d3c'),
    incarnation: count('start of the process that wrote it', 1_893_456_000_000),
    segments: count('files', 2),
    bytes: count('of these files', 16_777_216),
    waiting: countOrNull('files that MySQL does not have to their end; null: MySQL does not answer', 2),
  },
  { title: 'JournalStream' },
);

const JournalInstance = closed(
  {
    instance: text('instance, hexadecimal', '0f1e2d3c'),
    self: flag('the instance that answers', true),
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
export type JournalInstanceJson = JsonOf<typeof JournalInstance>;

const JournalRestore = closed(
  {
    no: count('number', 1),
    kind: Type.Enum(['heal', 'lost_shard', 'shipped'], {
      description:
        '`heal`: Redis lost changes · `shipped`: changes that arrived late are compared · `lost_shard`: rows of a removed shard go to their homes',
    }),
    about: text('shard; shipped: place', '0f1e2d3c4b5a6978'),
    state: Type.Enum(['open', 'done', 'failed'], { description: 'its progress' }),
    done: count('rows compared', 1_000),
    put: count('jobs put back', 10),
    removed: count('jobs removed that had ended', 1),
    kept: count('jobs that were as in the journal', 989),
    begunAt: instant('when it began'),
    endedAt: textOrNull('when it ended; null: it runs'),
  },
  { title: 'JournalRestore' },
);
export type JournalRestoreJson = JsonOf<typeof JournalRestore>;

export const journalSchema = {
  operationId: 'journal',
  tags: ['operation'],
  summary: 'How the journal is doing: spool, lag, instances, restores',
  response: {
    200: reply(
      'the journal',
      closed(
        {
          mode: Type.Enum(['off', 'sync'], { description: '`off`: there is no journal' }),
          lagMs: countOrNull('age of the oldest change that MySQL does not have; null: unknown', 0),
          spoolBytes: count('bytes of all files of the spool', 16_777_216),
          spoolBytesMax: count('journal.spoolBytes', 1_073_741_824),
          late: count('files in spool/late', 0),
          damaged: count('files in spool/damaged', 0),
          streams: Type.Array(JournalStream, { description: 'one per process that wrote to the spool' }),
          instances: orNull(Type.Array(JournalInstance), 'null: MySQL does not answer'),
          restores: orNull(
            Type.Array(JournalRestore),
            'the newest ones, newest first; null: MySQL does not answer',
          ),
        },
        { title: 'Journal' },
      ),
    ),
    ...problems(503),
  },
};
export type JournalJson = ReplyOf<typeof journalSchema>;

export const giveUpInstancesSchema = {
  operationId: 'giveUpInstances',
  tags: ['operation'],
  summary: 'Goes on without the changes of instances that give no sign',
  description:
    'A healing of Redis waits no longer for them. Jobs that only such an instance has cancelled or replaced can be called. They count again from their next sign on.',
  response: {
    200: reply(
      'these are given up',
      closed({ instances: Type.Array(JournalInstance) }, { title: 'GivenUpInstances' }),
    ),
    ...problems(409, 503),
  },
};
export type GivenUpInstancesJson = ReplyOf<typeof giveUpInstancesSchema>;
