// What a failed call to Redis means for its caller: surely not applied, or unknown. The one place that judges it. Every script
// checks before its first write, and what a server refuses it refuses at the first command of a script, so a refusal is no
// half. Invariant: whatever is not known to be a refusal is unknown.

import { StoreError, type StoreFailure } from '../../../ports/job-store.ts';

/** How a refusal begins, and the code it gets. */
const refusals: Readonly<Record<string, string>> = {
  OOM: 'redis_full',
  READONLY: 'redis_read_only',
  NOREPLICAS: 'redis_no_replicas',
  MISCONF: 'redis_cannot_write',
  LOADING: 'redis_loading',
  CLUSTERDOWN: 'redis_cluster_down',
  MASTERDOWN: 'redis_master_down',
  TRYAGAIN: 'redis_slot_moves',
  MOVED: 'redis_slot_moves',
  ASK: 'redis_slot_moves',
  NOAUTH: 'redis_denied',
  WRONGPASS: 'redis_denied',
  NOPERM: 'redis_denied',
  NOSCRIPT: 'redis_script_lost',
  BUSY: 'redis_busy',
  DQNOMARKER: 'no_marker',
  DQFOREIGN: 'foreign_marker',
  DQSTALELIST: 'stale_list',
};

/** Nothing was sent: the client says so itself, without a code. */
const unsent = [
  "Stream isn't writeable and enableOfflineQueue options is false",
  "Cluster isn't ready and enableOfflineQueue options is false",
];

/** What a script meets on its way, when it may have written, is no refusal, however it is worded: that of a command to which its
 *  user has no right is NOPERM from 7.2 on, and ERR before. */
const inside = / script: [0-9a-f]{40}, on @|^NOPERM ACL failure in script/;

/** The client follows redirections and waits for a slot that moves, each time because a node has refused the command; of the last
 *  refusal it makes an error of its own. */
const lastRefusal = /^Too many Cluster redirections\. Last error: ReplyError: /;

/** No byte of the command has left, or whoever got it has refused it. For a client that knows. */
export class UnsentError extends Error {
  constructor(cause: Error) {
    super(`never sent: ${cause.message}`, { cause });
  }
}

/** What the server answered; null = it answered nothing. */
function replyOf({ name, message }: Error): string | null {
  if (name === 'ReplyError') return message;
  return lastRefusal.test(message) ? message.replace(lastRefusal, '') : null;
}

/** A server has answered the command, and not by carrying it out; of a script that it began this is not said. */
export function isRefusal(error: Error): boolean {
  const reply = replyOf(error);
  return reply !== null && codeOf(reply) !== undefined;
}

/** A script met a command that was taken from its user, or from the server, since it was tried (lua/mark.lua). */
export function isRightDenied(error: unknown): boolean {
  return (
    isScriptError(error) &&
    /ACL failure in script|can't run this command or subcommand|Unknown Redis command/i.test(
      (error as Error).message,
    )
  );
}

/** A script that fails in the middle may be half applied: that is a mistake of ours, and the log must say so. */
export function isScriptError(error: unknown): boolean {
  return error instanceof Error && error.name === 'ReplyError' && failureOf(error).kind === 'unknown';
}

export function failureOf(error: unknown): StoreFailure {
  if (error instanceof StoreError) return error.failure;
  if (!(error instanceof Error)) return { kind: 'unknown', code: 'redis_failed' };
  if (error instanceof UnsentError) return { kind: 'not_stored', code: 'redis_away' };
  if (unsent.some((text) => error.message.startsWith(text)))
    return { kind: 'not_stored', code: 'redis_away' };
  const reply = replyOf(error);
  if (reply === null) return { kind: 'unknown', code: 'redis_no_answer' };
  const code = codeOf(reply);
  return code === undefined ? { kind: 'unknown', code: 'redis_script_failed' } : { kind: 'not_stored', code };
}

/** undefined: no refusal */
function codeOf(reply: string): string | undefined {
  const word = /^[A-Z]+(?=\s|$)/.exec(reply)?.[0] ?? '';
  return Object.hasOwn(refusals, word) && !inside.test(reply) ? refusals[word] : undefined;
}

/** The same as an error of the port. */
export function storeErrorOf(error: unknown): StoreError {
  return error instanceof StoreError ? error : new StoreError(failureOf(error), { cause: error });
}
