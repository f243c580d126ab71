// Reads the flags of dq import that give every imported job attempts, waits and a deadline of its own. dq
// would reject each job of a wrong flag, so they are checked before the first one.

import { parseDuration, parseInstant } from '../../core/duration.ts';
import { FieldErrors } from '../../core/errors.ts';
import { limits } from '../../core/limits.ts';
import { parseBackoff } from '../../core/topic/backoff.ts';
import { Exit } from '../exit.ts';
import { wholeOf } from '../flags.ts';
import { backoffOf } from '../topic-flags.ts';

export interface JobSettingFlags {
  readonly maxAttempts?: string;
  readonly backoff?: string;
  readonly deadline?: string;
}

export interface JobSettings {
  /** members of each item of a batch */
  readonly members: { readonly maxAttempts?: number; readonly backoff?: unknown };
  /** epoch ms, of a job that is due then; null: none */
  deadlineOf(dueAt: number): number | null;
}

export const noSettings: JobSettings = { members: {}, deadlineOf: () => null };

/** Throws Exit `usage`. */
export function jobSettingsOf({ maxAttempts, backoff, deadline }: JobSettingFlags): JobSettings {
  const members = {
    ...(maxAttempts === undefined
      ? {}
      : { maxAttempts: wholeOf('--max-attempts', maxAttempts, 1, limits.attemptsMax) }),
    ...(backoff === undefined ? {} : { backoff: checkedBackoff(backoff) }),
  };
  if (deadline === undefined) return { ...noSettings, members };
  const duration = parseDuration(deadline);
  if (duration.ok) return { members, deadlineOf: (dueAt) => dueAt + duration.value };
  const instant = parseInstant(deadline);
  if (!instant.ok)
    throw new Exit(
      'usage',
      `--deadline: invalid time "${deadline}"; write a duration such as 2h, RFC 3339 with an offset, or epoch milliseconds`,
    );
  return { members, deadlineOf: () => instant.value };
}

function checkedBackoff(text: string): unknown {
  const flag = '--backoff';
  const backoff = backoffOf(flag, text);
  const errors = new FieldErrors();
  parseBackoff(backoff, flag, errors);
  const error = errors.error();
  if (error !== null) throw new Exit('usage', error.message);
  return backoff;
}
