// Writes subject and text of a mail. Pure.
// Invariant: text from outside (ids, replies, reasons) becomes one printable line of bounded length. A mail
// never contains a body, a callback URL or a secret: many people read mails, and archives keep them.

import { formatDuration, formatInstant } from '../core/duration.ts';
import { helpOf, type Incident } from '../core/incident.ts';
import { limits } from '../core/limits.ts';
import type { AlertEntry } from '../ports/job-store.ts';
import { printable } from '../runtime/printable-text.ts';
import { mailLimits } from './limits.ts';

/** The daemon that writes, named at the end of each mail. */
export interface Daemon {
  readonly host: string;
  readonly version: string;
  /** console.publicUrl; '' = not set */
  readonly publicUrl: string;
}

export interface MailText {
  readonly subject: string;
  readonly text: string;
  /** the same as members of a webhook's body */
  readonly data?: Readonly<Record<string, unknown>>;
}

/** `entries`: 1 or more dead jobs of one topic, oldest first. */
export function deadJobsMail(topic: string, entries: readonly AlertEntry[], daemon: Daemon): MailText {
  const isOne = entries.length === 1;
  const jobs = isOne ? '1 job' : `${entries.length} jobs`;
  const shown = entries.slice(0, mailLimits.alertsShown);
  const more = entries.length - shown.length;
  const times = entries.map(({ deadAt }) => deadAt).sort((a, b) => a - b);
  const [first = 0, last = first] = [times[0], times.at(-1)];
  const command = `dq dead requeue --topic ${topic} --since ${formatInstant(first)} --until ${formatInstant(last + 1)}`;
  const link = linkTo(daemon, ['dead'], { topic });
  const mail = mailText(
    `${jobs} died: ${topic}`,
    [
      `${jobs} of the topic ${topic} will not be tried again. ${
        isOne ? 'It is kept as a dead letter.' : 'They are kept as dead letters.'
      }`,
      '',
      ...shown.flatMap(described),
      ...(more > 0 ? [`and ${more} more`, ''] : []),
      `When the cause is gone, this command delivers ${isOne ? 'it' : 'them'} again:`,
      '',
      `  ${command}`,
      ...linkLines(link),
    ],
    daemon,
  );
  const data = {
    type: 'dq.dead_jobs',
    host: daemon.host,
    version: daemon.version,
    topic,
    count: entries.length,
    since: formatInstant(first),
    until: formatInstant(last + 1),
    command,
    link,
    jobs: shown.map(jobData),
  };
  return { ...mail, data };
}

/** `incidents`: 1 or more of one failure state, oldest first. */
export function incidentsMail(incidents: readonly Reported[], daemon: Daemon): MailText {
  const shown = incidents.slice(-mailLimits.alertsShown);
  const last = incidents.at(-1) as Reported;
  const { command, does, logs, screen } = helpOf(last);
  const isOver = last.state === 'over';
  const link = linkTo(daemon, screen);
  const lines = [
    ...shown.map(({ at, detail }) => `${formatInstant(at)}  ${detail}`),
    ...(last.oldest === undefined ? [] : ['', ...lateJobLines(last.oldest)]),
    ...(last.since === undefined ? [] : ['', reportedText(last.since, last.at)]),
    ...(isOver ? [] : ['', `This command ${does}:`, '', `  ${command}`]),
    ...(isOver || logs === undefined ? [] : ['', `${logs[0]?.toUpperCase()}${logs.slice(1)}.`]),
    ...linkLines(link),
  ];
  const data = {
    type: 'dq.incident',
    host: daemon.host,
    version: daemon.version,
    command: isOver ? null : command,
    link,
    incidents: shown.map(incidentData),
  };
  return { ...mailText(last.detail, lines, daemon), data };
}

type Reported = Pick<Incident, 'kind' | 'about' | 'state' | 'at' | 'detail' | 'oldest' | 'since'>;

function incidentData({ kind, about, state, at, detail, oldest, since }: Reported): object {
  return {
    kind,
    about,
    state,
    detail,
    at: formatInstant(at),
    since: formatInstant(since ?? at),
    topic: oldest?.topic ?? null,
    id: oldest?.id ?? null,
  };
}

const lateJobLines = ({ id, dueAt }: NonNullable<Incident['oldest']>): readonly string[] => [
  `  oldest job  ${oneLine(id, limits.idBytesMax)}`,
  `  due         ${formatInstant(dueAt)}`,
];

const reportedText = (since: number, until: number): string =>
  `Reported at ${formatInstant(since)}, over after ${formatDuration(Math.max(0, Math.round((until - since) / 1_000)) * 1_000)}.`;

/** Address of a screen of the console; null without console.publicUrl. */
function linkTo(
  { publicUrl }: Daemon,
  path: readonly string[],
  query: Readonly<Record<string, string>> = {},
): string | null {
  if (publicUrl === '') return null;
  const names = new URLSearchParams(query).toString();
  const page = path.map(encodeURIComponent).join('/');
  return `${publicUrl.replace(/\/$/, '')}/${page}${names === '' ? '' : `?${names}`}`;
}

const linkLines = (link: string | null): readonly string[] =>
  link === null ? [] : ['', `In the console: ${link}`];

function jobData({ id, version, deadAt, reason, failures, attempt }: AlertEntry): object {
  return {
    id,
    version: String(version),
    deadAt: formatInstant(deadAt),
    reason,
    attempts: failures,
    lastReason: attempt?.reason ?? null,
    status: attempt?.status ?? null,
  };
}

function described({ id, deadAt, reason, failures, attempt }: AlertEntry): readonly string[] {
  const status = typeof attempt?.status === 'number' ? `, status ${attempt.status}` : '';
  const last = attempt && [
    `  last      ${oneLine(attempt.reason ?? 'none', mailLimits.alertExcerptMax)}${status}`,
    `  reply     ${oneLine(attempt.replyExcerpt, mailLimits.alertExcerptMax) || '(empty)'}`,
  ];
  return [
    `  id        ${oneLine(id, limits.idBytesMax)}`,
    `  died      ${formatInstant(deadAt)} (${reason})`,
    `  attempts  ${failures}`,
    ...(last ?? []),
    '',
  ];
}

/** Cuts the subject to one line and names the daemon at the end of the text. */
function mailText(subject: string, lines: readonly string[], { host, version }: Daemon): MailText {
  const text = [...lines, '', '-- ', `dq ${version} on ${oneLine(host, limits.idBytesMax)}`, ''].join('\n');
  return { subject: oneLine(`dq: ${subject}`, mailLimits.mailSubjectMax), text };
}

/** One line of at most `max` characters. */
export function oneLine(text: string, max: number): string {
  const characters = [...printable(text.slice(0, 2 * max + 2))];
  return characters.length <= max ? characters.join('') : `${characters.slice(0, max - 1).join('')}…`;
}
