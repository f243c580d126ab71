// The words of a mail. Pure. Whatever comes from outside (ids, replies, reasons) is one line of printable text here, and no
// job's body, callback URL or secret is ever in a letter: mails are read by many and kept for long.

import { formatInstant } from '../core/duration.ts';
import { limits } from '../core/limits.ts';
import type { AlertEntry } from '../ports/job-store.ts';
import { printable } from '../runtime/printable-text.ts';
import { mailLimits } from './limits.ts';

/** Who writes. */
export interface Sender {
  readonly host: string;
  readonly version: string;
}

export interface LetterText {
  readonly subject: string;
  readonly text: string;
}

/** `entries`: 1 or more of one topic, oldest first. */
export function deathLetter(topic: string, entries: readonly AlertEntry[], sender: Sender): LetterText {
  const jobs = entries.length === 1 ? '1 job' : `${entries.length} jobs`;
  const shown = entries.slice(0, mailLimits.alertsShown);
  const more = entries.length - shown.length;
  const times = entries.map(({ deadAt }) => deadAt).sort((a, b) => a - b);
  const [first = 0, last = first] = [times[0], times.at(-1)];
  const until = formatInstant(last + 1);
  return letter(
    `${jobs} died: ${topic}`,
    [
      `${jobs} of the topic ${topic} will not be tried again. They are kept as dead letters.`,
      '',
      ...shown.flatMap(described),
      ...(more > 0 ? [`and ${more} more`, ''] : []),
      'When the cause is gone, this delivers them again:',
      '',
      `  dq dead requeue --topic ${topic} --since ${formatInstant(first)} --until ${until}`,
    ],
    sender,
  );
}

function described({ id, deadAt, reason, failures, attempt }: AlertEntry): readonly string[] {
  const status = attempt?.status ?? null;
  return [
    `  id        ${line(id, limits.idBytesMax)}`,
    `  died      ${formatInstant(deadAt)} (${reason})`,
    `  attempts  ${failures}`,
    ...(attempt === null
      ? []
      : [
          `  last      ${line(attempt.reason ?? 'none', mailLimits.alertExcerptMax)}${status === null ? '' : `, status ${status}`}`,
          `  reply     ${line(attempt.replyExcerpt, mailLimits.alertExcerptMax) || '(empty)'}`,
        ]),
    '',
  ];
}

/** What every letter has: a cut subject of one line, and who wrote it. */
export function letter(subject: string, lines: readonly string[], { host, version }: Sender): LetterText {
  const text = [...lines, '', '-- ', `dq ${version} on ${line(host, limits.idBytesMax)}`, ''].join('\n');
  return { subject: line(`dq: ${subject}`, mailLimits.mailSubjectMax), text };
}

/** One line of at most so many characters. */
export function line(text: string, max: number): string {
  const characters = [...printable(text.slice(0, 2 * max + 2))];
  return characters.length <= max ? characters.join('') : `${characters.slice(0, max - 1).join('')}…`;
}
