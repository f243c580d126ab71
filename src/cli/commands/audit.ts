// dq audit: lists who changed what, newest first.

import type { Command } from 'commander';
import type { DaemonOptions } from '../daemon/daemon-options.ts';
import { clientOf, withDaemonOptions } from '../daemon/daemon-options.ts';
import { readPages } from '../daemon/read-pages.ts';
import { excerpt, printData, printTable, say } from '../output/output.ts';
import { limitOf } from '../whole-number.ts';

interface Entry {
  readonly at: string;
  readonly actor: string;
  readonly address: string;
  readonly action: string;
  readonly topic: string | null;
  readonly jobId: string | null;
  readonly detail: {
    readonly changes?: readonly {
      readonly field: string;
      readonly before: unknown;
      readonly after: unknown;
    }[];
    readonly filter?: Readonly<Record<string, unknown>>;
    readonly count?: number;
  } | null;
  readonly status: number;
  readonly code: string | null;
}

interface Flags extends DaemonOptions {
  readonly topic?: string;
  readonly actor?: string;
  readonly since?: string;
  readonly limit: string;
}

const detailMax = 160;

export function register(program: Command): void {
  const command = program
    .command('audit')
    .description('list changes by operators and sign-ins, newest first')
    .option('--topic <topic>', 'only changes of this topic')
    .option('--actor <name>', 'only changes by this token, link or session')
    .option('--since <time>', 'earliest time: RFC 3339 with an offset, or epoch milliseconds')
    .option('--limit <n>', 'maximum number of entries', '100');
  withDaemonOptions(command).action(list);
}

async function list(flags: Flags): Promise<void> {
  const limit = limitOf(flags.limit);
  const entries: Entry[] = [];
  const { topic, actor, since } = flags;
  const call = {
    method: 'GET',
    path: ['v1', 'audit'],
    query: { topic, actor, since },
    flags: { topic: '--topic', actor: '--actor', since: '--since' },
  } as const;
  const more = await readPages<Entry>(clientOf(flags), call, limit, (page) => {
    if (flags.json) printData(page.text);
    entries.push(...page.json.items);
  });
  if (!flags.json)
    printTable(
      ['AT', 'ACTOR', 'ADDRESS', 'ACTION', 'TOPIC', 'ID', 'OUTCOME', 'DETAIL'],
      entries.map((entry) => [
        entry.at,
        entry.actor,
        entry.address,
        entry.action,
        entry.topic ?? '',
        entry.jobId ?? '',
        entry.code ?? 'ok',
        excerpt(detailOf(entry.detail), detailMax),
      ]),
    );
  if (more) say(`dq: more than ${limit} entries match; raise --limit`);
}

function detailOf(detail: Entry['detail']): string {
  const { changes = [], filter = {}, count } = detail ?? {};
  const text = (value: unknown) => (typeof value === 'string' ? value : JSON.stringify(value));
  return [
    ...changes.map(({ field, before, after }) => `${field}: ${text(before)} → ${text(after)}`),
    ...Object.entries(filter).map(([name, value]) => `${name}=${text(value)}`),
    ...(count === undefined ? [] : [`count=${count}`]),
  ].join(', ');
}
