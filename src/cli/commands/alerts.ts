// dq alerts: lists alerts of dead jobs and incidents, with the state of their mails.

import type { Command } from 'commander';
import type { DaemonOptions } from '../daemon/daemon-options.ts';
import { clientOf, withDaemonOptions } from '../daemon/daemon-options.ts';
import { readPages } from '../daemon/read-pages.ts';
import { excerpt, printData, printTable, say } from '../output/output.ts';
import { limitOf } from '../whole-number.ts';

interface Alert {
  readonly topic: string;
  readonly id: string;
  readonly deadAt: string;
  readonly reason: string;
  readonly attempt: number;
  readonly lastReason: string | null;
  readonly status: number | null;
  readonly replyExcerpt: string;
  readonly state: string;
}

interface Incident {
  readonly kind: string;
  readonly about: string;
  readonly state: string;
  readonly at: string;
  readonly detail: string;
  readonly alert: string;
}

const excerptMax = 60;
const detailMax = 160;

export function register(program: Command): void {
  const command = program
    .command('alerts')
    .description('list alerts of incidents and dead jobs, newest first')
    .option('--limit <n>', 'maximum number of dead jobs', '100');
  withDaemonOptions(command).action(list);
}

async function list(flags: DaemonOptions & { readonly limit: string }): Promise<void> {
  const limit = limitOf(flags.limit);
  const alerts: Alert[] = [];
  const incidents: Incident[] = [];
  const call = { method: 'GET', path: ['v1', 'alerts'] } as const;
  const more = await readPages<Alert>(clientOf(flags), call, limit, (page) => {
    if (flags.json) printData(page.text);
    alerts.push(...page.json.items);
    incidents.push(...(page.json as unknown as { incidents: readonly Incident[] }).incidents);
  });
  if (!flags.json) {
    printTable(
      ['AT', 'WHAT', 'TOPIC', 'ID', 'ATTEMPTS', 'MAIL', 'LAST'],
      [
        ...incidents.map((one) => [
          one.at,
          `${one.kind} ${one.state}`,
          '',
          one.about,
          '',
          one.alert,
          excerpt(one.detail, detailMax),
        ]),
        ...alerts.map((one) => [
          one.deadAt,
          one.reason,
          one.topic,
          one.id,
          String(one.attempt),
          one.state,
          [one.lastReason ?? '', one.status ?? '', excerpt(one.replyExcerpt, excerptMax)]
            .filter((part) => part !== '')
            .join(' '),
        ]),
      ],
    );
  }
  if (more) say(`dq: more than ${limit} dead jobs match; raise --limit`);
}
