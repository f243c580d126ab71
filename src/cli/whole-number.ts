// Reads whole numbers of flags.

import { Exit } from './exit.ts';

/** 1 to `max`; Exit `usage` for any other text. */
export function wholeOf(flag: string, text: string, max: number): number {
  const n = /^\d{1,9}$/.test(text) ? Number(text) : 0;
  if (n < 1 || n > max) throw new Exit('usage', `${flag} must be a whole number from 1 to ${max}`);
  return n;
}

/** Of `--limit`: the API has its own page size, so every number is fine. */
export function limitOf(text: string): number {
  return wholeOf('--limit', text, 999_999_999);
}
