// dq audit: lists who changed what, newest first.

import type { Command } from 'commander';
import type { AuditEntryJson } from '../../contract/api/access.ts';
import { type DaemonOptions, daemonCommand, type Texts } from '../daemon/daemon-options.ts';
import { printPages } from '../daemon/read-pages.ts';
import { flagNames, limitOf, timeOption } from '../flags.ts';
import { excerpt, instantOf } from '../output/output.ts';

type Flags = DaemonOptions & Texts<'topic' | 'actor' | 'since'> & { readonly limit: string };

const detailMax = 160;

export function register(program: Command): void {
  daemonCommand(program, 'audit', 'list changes by operators and sign-ins, newest first', list)
    .option('--topic <topic>', 'only changes of this topic')
    .option('--actor <name>', 'only changes by this token, link or session')
    .addOption(timeOption('--since', 'earliest time'))
    .option('--limit <n>', 'maximum number of entries', '100');
}

async function list(flags: Flags): Promise<void> {
  const { topic, actor, since } = flags;
  const query = { topic, actor, since };
  await printPages<AuditEntryJson>(
    flags,
    { path: ['v1', 'audit'], query, flags: flagNames(Object.keys(query)) },
    {
      AT: instantOf('at'),
      ACTOR: 'actor',
      ADDRESS: 'address',
      ACTION: 'action',
      TOPIC: 'topic',
      ID: 'jobId',
      OUTCOME: ({ code }) => code ?? 'ok',
      DETAIL: ({ detail }) => excerpt(detailOf(detail), detailMax),
    },
    { limit: limitOf(flags.limit), what: 'entries' },
  );
}

function detailOf(detail: AuditEntryJson['detail']): string {
  const { changes = [], filter = {}, count } = detail ?? {};
  const text = (value: unknown) => (typeof value === 'string' ? value : JSON.stringify(value));
  return [
    ...changes.map(({ field, before, after }) => `${field}: ${text(before)} → ${text(after)}`),
    ...Object.entries(filter).map(([name, value]) => `${name}=${text(value)}`),
    ...(count === undefined ? [] : [`count=${count}`]),
  ].join(', ');
}
