// Reads what a user gives to a command: the values of flags, a body, the configuration. Names flags in
// messages. A wrong value ends the command with Exit `usage`, a wrong configuration with `badConfiguration`.

import { readFile } from 'node:fs/promises';
import { Option } from 'commander';
import { type LoadedConfig, loadConfig } from '../config/load.ts';
import { type ConfigProblem, formatProblem } from '../config/parse.ts';
import { formatInstant, parseDuration, parseInstant } from '../core/duration.ts';
import { messageOf } from '../core/errors.ts';
import { scopes } from '../core/token.ts';
import { wallNow } from '../runtime/time.ts';
import type { FlagNames } from './daemon/api-client.ts';
import { Exit } from './exit.ts';
import { cliLimits } from './limits.ts';

/** A whole number from `min` to `max`. */
export function wholeOf(flag: string, text: string, min: number, max: number): number {
  const n = /^\d{1,9}$/.test(text) ? Number(text) : -1;
  if (n < min || n > max) throw new Exit('usage', `${flag} must be a whole number from ${min} to ${max}`);
  return n;
}

/** Of `--limit`: the API has its own page size, so every number is fine. */
export function limitOf(text: string): number {
  return wholeOf('--limit', text, 1, 999_999_999);
}

/** ms */
export function durationOf(flag: string, text: string): number {
  const duration = parseDuration(text);
  if (!duration.ok) throw new Exit('usage', `${flag}: ${duration.message}`);
  return duration.value;
}

/** --since and --until: the API gets an instant. `about`: what happened then. */
export const timeOption = (flag: '--since' | '--until', about: string): Option =>
  new Option(`${flag} <time>`, `${about}: ${timeForms}`).argParser((text) => {
    const at = timeOf(text, wallNow());
    // As for other texts that the API rejects.
    if (at === null) throw new Exit('failed', `${flag}: "${text}" is not one of ${timeForms}`);
    return formatInstant(at);
  });

const timeForms = 'today, yesterday, 24h (ago), 2030-01-31, 2030-01-31T09:00, RFC 3339, epoch ms';

/** Days and times without an offset are those of the local zone; a day is its begin. null: not a time. */
export function timeOf(text: string, now: number): number | null {
  if (/^\d+$/.test(text)) return instantOrNull(text);
  const daysAgo = ['today', 'yesterday'].indexOf(text.toLowerCase());
  const today = new Date(now);
  if (daysAgo >= 0)
    return new Date(today.getFullYear(), today.getMonth(), today.getDate() - daysAgo).getTime();
  const duration = parseDuration(text);
  if (duration.ok) return now - duration.value;
  const local = localPattern.exec(text);
  if (local === null) return instantOrNull(text);
  const [year = 0, month = 0, ...rest] = local.slice(1).map((part) => Number(part ?? 0));
  // UTC tells whether the calendar has this time: in a local zone an hour may be missing.
  if (instantOrNull(`${text.replace(' ', 'T')}${local[4] === undefined ? 'T00:00' : ''}Z`) === null)
    return null;
  const [day = 0, hour = 0, minute = 0, second = 0] = rest;
  return new Date(year, month - 1, day, hour, minute, second).getTime();
}

const localPattern = /^(\d{4})-(\d{2})-(\d{2})(?:[Tt ](\d{2}):(\d{2})(?::(\d{2}))?)?$/;

function instantOrNull(text: string): number | null {
  const instant = parseInstant(text);
  return instant.ok ? instant.value : null;
}

/** --at: a time of the local zone as an instant, other texts as they are: the API reads them. */
export const atOption = (about: string): Option =>
  new Option('--at <time>', `${about}: 2030-01-31T09:00, RFC 3339, or epoch milliseconds`).argParser(
    (text) => {
      const at = localPattern.test(text) ? timeOf(text, wallNow()) : null;
      return at === null ? text : formatInstant(at);
    },
  );

/** For commander: collects the values of a repeatable option. */
export function gather(text: string, before: readonly string[] = []): readonly string[] {
  return [...before, text];
}

/** As gather; a value is a list with commas. */
export function gatherItems(text: string, before: readonly string[] = []): readonly string[] {
  return [...before, ...text.split(',').map((item) => item.trim())];
}

/** `name: value`, repeatable, as curl writes it. Names become lower-case. */
export function headersOf(texts: readonly string[]): Record<string, string> {
  // No prototype: the API must see and reject the name __proto__.
  const headers: Record<string, string> = Object.create(null);
  for (const text of texts) {
    const colon = text.indexOf(':');
    const name = text.slice(0, Math.max(colon, 0)).trim().toLowerCase();
    if (name === '') throw new Exit('usage', `--header: "${text}" is not "name: value"`);
    headers[name] = text.slice(colon + 1).trim();
  }
  return headers;
}

/** The flags of API fields with the same name: `{ maxAttempts: '--max-attempts' }`. */
export function flagNames(fields: readonly string[]): FlagNames {
  return Object.fromEntries(
    fields.map((field) => [field, `--${field.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`]),
  );
}

/** The help of `--scope`. */
export const scopesHelp = `${scopes.join(', ')} (includes all); repeatable`;

/** Of a text, @FILE, or - for standard input. */
export async function readBody(body: string): Promise<Buffer> {
  if (body === '-') return readInput();
  if (!body.startsWith('@')) return Buffer.from(body);
  try {
    return await readFile(body.slice(1));
  } catch (error) {
    throw new Exit('usage', `cannot read the body: ${messageOf(error)}`, { cause: error });
  }
}

async function readInput(): Promise<Buffer> {
  const max = cliLimits.pushInputBytesMax;
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of process.stdin as AsyncIterable<Buffer>) {
    size += chunk.length;
    // No daemon accepts more, and an endless input must end.
    if (size > max)
      throw new Exit('failed', `standard input is longer than ${max} bytes, the largest job body`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/** `flags`: by option name; `file`: of -c. Throws Exit with every problem, one per line, in the form that
 *  editors jump to. */
export function readConfig(
  flags: Readonly<Record<string, unknown>>,
  file: string | undefined,
): Extract<LoadedConfig, { ok: true }> {
  const loaded = loadConfig({ flags, env: process.env, cwd: process.cwd(), file });
  if (!loaded.ok) throw new Exit('badConfiguration', problemText(loaded.problems));
  return loaded;
}

export function problemText(problems: readonly ConfigProblem[]): string {
  return ['the configuration is wrong', ...problems.map(formatProblem)].join('\n');
}
