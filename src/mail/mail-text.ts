// Writes subject and text of a mail. Pure.
// Invariant: text from outside (ids, replies, reasons) becomes one printable line of bounded length. A mail
// never contains a body, a callback URL or a secret: many people read mails, and archives keep them.

import { formatDuration, formatInstant } from '../core/duration.ts';
import { type Help, helpOf, type Incident, receiverCommands } from '../core/incident.ts';
import { deathWords } from '../core/job.ts';
import { limits } from '../core/limits.ts';
import { grouped } from '../core/lists.ts';
import type { AlertEntry } from '../ports/job-store.ts';
import { printable } from '../runtime/printable-text.ts';
import { mailLimits } from './limits.ts';

/** The daemon that writes, named at the end of each mail. */
interface Daemon {
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

/** `entries`: 1 or more dead jobs of one topic, oldest first. `waiting`: its delayed and ready jobs; null:
 *  not counted */
export function deadJobsMail(
  topic: string,
  entries: readonly AlertEntry[],
  daemon: Daemon,
  waiting: number | null,
): MailText {
  const count = entries.length;
  const jobs = `${count} job${count === 1 ? '' : 's'} died`;
  const times = entries.map(({ deadAt }) => deadAt).sort((a, b) => a - b);
  const [first = 0, last = first] = [times[0], times.at(-1)];
  // The largest group: the oldest one of several.
  const byCause = [...grouped(entries, causeOf)].sort(([, a], [, b]) => b.length - a.length);
  const [[cause, same]] = byCause as [(typeof byCause)[number]];
  const of = count === 1 ? '' : same.length === count ? ', all' : `, ${same.length} of them`;
  const rest = waiting === null ? '' : `; ${waiting === 0 ? 'none' : waiting} still waiting`;
  const [since, until] = [formatInstant(first), formatInstant(last + 1)];
  const command = `dq dead requeue ${topic} --since ${since} --until ${until}`;
  const link = linkTo(daemon, ['dead'], { topic });
  const mail = mailText(
    `${jobs}: ${topic}`,
    [
      `${jobs} ${count === 1 ? 'at' : 'since'} ${since}${of}: ${cause}${rest}`,
      '',
      ...commandLines(isPulled(same[0]) ? receiverCommands(topic).slice(0, 1) : receiverCommands(topic)),
      '',
      `When the cause is gone, this command delivers ${count === 1 ? 'it' : `these ${count}`} again:`,
      '',
      `  ${command}`,
      '',
      ...sampleLines(same, count),
      ...linkLines(link),
    ],
    daemon,
  );
  const data = {
    type: 'dq.dead_jobs',
    host: daemon.host,
    version: daemon.version,
    topic,
    count,
    since,
    until,
    cause,
    waiting,
    command,
    link,
    jobs: entries.slice(0, mailLimits.alertsShown).map(jobData),
  };
  return { ...mail, data };
}

/** `incidents`: 1 or more that have one mail, oldest first. */
export function incidentsMail(incidents: readonly Reported[], daemon: Daemon): MailText {
  // The last state of each decides. Those that still fail are the last ones, and lead.
  const states = new Map(incidents.map((one) => [`${one.kind} ${one.about}`, one]));
  const isOpen = (one: Reported) => one.state === 'begun' && states.get(`${one.kind} ${one.about}`) === one;
  const open = incidents.filter(isOpen);
  const sorted = [...incidents.filter((one) => !isOpen(one)), ...open];
  const shown = sorted.slice(-mailLimits.alertsShown);
  const last = sorted.at(-1) as Reported;
  const { command, does, also = [], logs, screen } = helpOf(last);
  const isOver = last.state === 'over';
  const link = linkTo(daemon, screen);
  const over = states.size - open.length;
  const sum = open.length > 0 && over > 0 ? `${open.length} open, ${over} over` : `${states.size} incidents`;
  const subject = `${states.size > 1 ? `${sum}: ` : ''}${last.detail}`;
  const isSaid = incidents.length === 1 && subjectOf(subject) === `dq: ${subject}`;
  const single = also.length === 0 ? [`This command ${does}:`, '', `  ${command}`] : [];
  const lines = [
    ...(incidents.length > shown.length ? [`${incidents.length - shown.length} others, then:`] : []),
    // The subject says it.
    ...(isSaid ? [] : shown.map(({ at, detail }) => `${formatInstant(at)}  ${detail}`)),
    ...(isSaid && !isOver ? [`Reported at ${formatInstant(last.at)}.`] : []),
    ...factLines(last),
    ...(last.since === undefined ? [] : [...(isSaid ? [] : ['']), reportedText(last.since, last.at)]),
    ...(isOver ? [] : ['', ...(single.length > 0 ? single : commandLines([{ command, does }, ...also]))]),
    ...(isOver || logs === undefined ? [] : ['', `${logs[0]?.toUpperCase()}${logs.slice(1)}.`]),
    ...linkLines(link),
  ];
  const data = {
    type: 'dq.incident',
    host: daemon.host,
    version: daemon.version,
    command: isOver ? null : command,
    link,
    count: states.size,
    open: open.length,
    incidents: shown.map(incidentData),
  };
  return { ...mailText(subject, lines, daemon), data };
}

type Reported = Pick<
  Incident,
  'kind' | 'about' | 'state' | 'at' | 'detail' | 'oldest' | 'topic' | 'waiting' | 'since'
>;

function incidentData({ kind, about, state, at, detail, oldest, topic, waiting, since }: Reported): object {
  return {
    kind,
    about,
    state,
    detail,
    at: formatInstant(at),
    since: formatInstant(since ?? at),
    topic: topic ?? oldest?.topic ?? null,
    id: oldest?.id ?? null,
    waiting: waiting ?? null,
  };
}

function factLines({ oldest, waiting }: Reported): readonly string[] {
  if (oldest === undefined) return [];
  return [
    '',
    `  oldest job  ${oneLine(oldest.id, limits.idBytesMax)}`,
    `  due         ${formatInstant(oldest.dueAt)}`,
    ...(waiting === undefined ? [] : [`  waiting     ${waiting} of ${oldest.topic}`]),
  ];
}

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
    deadReason: reason,
    attempts: failures,
    lastReason: attempt?.reason ?? null,
    status: attempt?.status ?? null,
  };
}

const causeOf = ({ reason, attempt }: AlertEntry): string =>
  oneLine(deathWords(reason, attempt), mailLimits.alertExcerptMax);

/** A client, which dq does not call, had the job. */
const isPulled = (entry: AlertEntry | undefined): boolean =>
  entry?.attempt?.reason === 'nacked' || entry?.attempt?.reason === 'lease_expired';

/** Ids of some jobs that died of one cause, and what the first of them knows. `count`: dead jobs of all
 *  causes */
function sampleLines(same: readonly AlertEntry[], count: number): readonly string[] {
  const shown = same.slice(0, mailLimits.samplesShown).map(({ id }) => oneLine(id, limits.idBytesMax));
  const more = count - shown.length;
  const [{ failures, attempt }] = same as [AlertEntry];
  const reply = oneLine(attempt?.replyExcerpt ?? '', mailLimits.alertExcerptMax);
  return [
    `  ${count === 1 ? 'id ' : 'ids'}       ${shown.join(', ')}${more > 0 ? ` and ${more} more` : ''}`,
    `  attempts  ${failures}`,
    ...(typeof attempt?.status === 'number' ? [`  reply     ${reply || '(empty)'}`] : []),
  ];
}

/** The commands among each other, each with what it does. */
function commandLines(commands: readonly Pick<Help, 'command' | 'does'>[]): readonly string[] {
  const width = Math.max(...commands.map(({ command }) => command.length));
  return commands.map(({ command, does }) => `  ${command.padEnd(width)}   ${does}`);
}

/** Cuts the subject to one line and names the daemon at the end of the text. */
function mailText(subject: string, lines: readonly string[], { host, version }: Daemon): MailText {
  const text = [...lines, '', '-- ', `dq ${version} on ${oneLine(host, limits.idBytesMax)}`, ''].join('\n');
  return { subject: subjectOf(subject), text };
}

const subjectOf = (subject: string): string => oneLine(`dq: ${subject}`, mailLimits.mailSubjectMax);

/** One line of at most `max` characters. */
export function oneLine(text: string, max: number): string {
  const characters = [...printable(text.slice(0, 2 * max + 2))];
  return characters.length <= max ? characters.join('') : `${characters.slice(0, max - 1).join('')}…`;
}
