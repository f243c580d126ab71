// Reads the values of flags, and names flags in messages. A wrong value ends the command with Exit `usage`.

import { parseDuration } from '../core/duration.ts';
import { scopes } from '../core/token.ts';
import type { FlagNames } from './daemon/api-client.ts';
import { Exit } from './exit.ts';

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
