// Decides what a failed call to Redis means for its caller: not applied, or unknown. The only place that
// does. Every script checks before its first write, and a server rejects a script at its first command, so a
// rejection never leaves a half-applied script. Invariant: every failure that is not a known rejection is
// unknown.

import { StoreError, type StoreFailure } from '../../../ports/store-error.ts';

/** First word of a rejection, and its code. */
const rejections: Readonly<Record<string, string>> = {
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
  DQRESTORING: 'restoring',
};

/** Errors of the client for commands it did not send; they have no code. */
const unsent = [
  "Stream isn't writeable and enableOfflineQueue options is false",
  "Cluster isn't ready and enableOfflineQueue options is false",
];

/** Errors from inside a script, which may have written already, are never rejections. A denied command there
 *  is NOPERM from Redis 7.2 on, and ERR before. */
const inside = / script: [0-9a-f]{40}, on @|^NOPERM ACL failure in script/;

/** The client follows redirections, and retries while a slot moves, each time after a rejection by a node. It
 *  wraps the last one in an error of its own. */
const lastRejection = /^Too many Cluster redirections\. Last error: ReplyError: /;

/** No byte of the command was sent, or the node that got it rejected it (cluster-client.ts). */
export class UnsentError extends Error {
  constructor(cause: Error) {
    super(`never sent: ${cause.message}`, { cause });
  }
}

/** The server's error reply; null = there was none. */
function replyOf({ name, message }: Error): string | null {
  if (name === 'ReplyError') return message;
  return lastRejection.test(message) ? message.replace(lastRejection, '') : null;
}

/** A server rejected the command before it ran. */
export function isRejection(error: Error): boolean {
  const reply = replyOf(error);
  return reply !== null && codeOf(reply) !== undefined;
}

/** A server rejected the login, or a right of its user. */
export function isDenied(error: unknown): boolean {
  const reply = error instanceof Error ? replyOf(error) : null;
  return reply !== null && (codeOf(reply) === 'redis_denied' || /^ERR (?:Client sent )?AUTH\b/.test(reply));
}

/** A script met a command that its user, or the server, has lost since mark.lua tried it. */
export function isRightDenied(error: unknown): boolean {
  return (
    isScriptError(error) &&
    /ACL failure in script|can't run this command or subcommand|Unknown Redis command/i.test(
      (error as Error).message,
    )
  );
}

/** A script failed in the middle and may be half applied: a defect, and the log must say so. */
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

/** undefined: not a rejection */
function codeOf(reply: string): string | undefined {
  const word = /^[A-Z]+(?=\s|$)/.exec(reply)?.[0] ?? '';
  return Object.hasOwn(rejections, word) && !inside.test(reply) ? rejections[word] : undefined;
}

/** failureOf as an error of the port. */
export function storeErrorOf(error: unknown): StoreError {
  return error instanceof StoreError ? error : new StoreError(failureOf(error), { cause: error });
}
