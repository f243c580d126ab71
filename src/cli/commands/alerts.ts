// dq alerts: lists alerts of dead jobs and incidents, with the state of their mails. dq alert test: tries the
// mail server or a hook.

import type { Command } from 'commander';
import type { AlertJson, AlertsJson } from '../../contract/api/alert.ts';
import { isMailAddress, noMail } from '../../core/alert-receiver.ts';
import { ask, clientOf, type DaemonOptions, daemonCommand } from '../daemon/daemon-options.ts';
import { readPages } from '../daemon/read-pages.ts';
import { limitOf } from '../flags.ts';
import { excerpt, printData, printTable, say, shownInstant, words } from '../output/output.ts';

const excerptMax = 60;
const detailMax = 160;

export function register(program: Command): void {
  daemonCommand(program, 'alerts', 'list alerts: incidents, then dead jobs; each newest first', list).option(
    '--limit <n>',
    'maximum number of rows',
    '100',
  );
  const family = program.command('alert').description('mail server and hooks of the alerts');
  daemonCommand(family, 'test', 'send a test alert now to a mail address or a hook', test).argument(
    '<recipient>',
  );
}

async function list(flags: DaemonOptions & { readonly limit: string }): Promise<void> {
  const limit = limitOf(flags.limit);
  const incidentRows: (readonly (string | number)[])[] = [];
  const jobRows: (readonly (string | number)[])[] = [];
  const states = new Set<string>();
  let reachesNobody = false;
  const more = await readPages<AlertJson>(clientOf(flags), { path: ['v1', 'alerts'] }, limit, (page) => {
    if (flags.json) printData(page.text);
    const { items, incidents, mail: channels } = page.json as AlertsJson;
    if (channels !== undefined) reachesNobody = !channels.server && channels.hooks.length === 0;
    for (const { at, kind, state, about, topic, id, alert: mail, detail } of incidents) {
      states.add(mail);
      const what = `${kind} ${state}`;
      incidentRows.push([
        shownInstant(at),
        what,
        topic ?? '',
        id ?? about,
        '',
        mail,
        excerpt(detail, detailMax),
      ]);
    }
    for (const one of items) {
      states.add(one.state);
      const last = words(
        one.lastReason,
        one.status,
        excerpt(one.replyExcerpt || (one.detail ?? ''), excerptMax),
      );
      jobRows.push([
        shownInstant(one.deadAt),
        one.deadReason,
        one.topic,
        one.id,
        one.attempt,
        one.state,
        last,
      ]);
    }
  });
  const rows = [...incidentRows, ...jobRows];
  if (!flags.json)
    printTable(['AT', 'WHAT', 'TOPIC', 'ID', 'ATTEMPTS', 'MAIL', 'LAST'], rows.slice(0, limit));
  if (!flags.json && reachesNobody && (states.has('owed') || states.has('nobody')))
    say(`dq: ${noMail}, and alerts.hooks names no hook; see dq help dead-letters-alerts`);
  if (more || (!flags.json && rows.length > limit))
    say(`dq: there are more than ${limit} alerts; raise --limit`);
}

async function test(to: string, flags: DaemonOptions): Promise<void> {
  await ask(flags, { method: 'POST', path: ['v1', 'alerts', 'test'], json: { to } });
  say(
    isMailAddress(to)
      ? `dq: the mail server accepted a test mail to ${to}`
      : `dq: the hook ${to} accepted a test message`,
  );
}
