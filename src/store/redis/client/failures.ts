// Decides what a failed call to Redis means for its caller: not applied, or unknown. The only place that
// does. Every script checks before its first write, and a server rejects a script at its first command, so a
// rejection never leaves a half-applied script. Managed servers and proxies write `ERR ` before the words of
// Redis, or put them into a sentence of their own.
// Invariant: every failure that is not a known rejection is unknown, and leads to a new connection.

import { StoreError, type StoreFailure } from '../../../ports/store-error.ts';
import { HopError } from './hops.ts';
import { SetUpError } from './set-up.ts';

interface Rejection {
  readonly code: string;
  /** of Redis and dq: the first word, where `ERR ` is not counted */
  readonly words: readonly string[];
  /** anywhere in the reply: only what no sentence has by chance */
  readonly text?: RegExp;
}

/** The first row that matches counts. A command that has one of these replies was not applied. */
const rejections: readonly Rejection[] = [
  { code: 'redis_full', words: ['OOM'], text: /\bOOM command not allowed|used memory > 'maxmemory'/ },
  {
    code: 'redis_read_only',
    words: ['READONLY'],
    text: /\bREADONLY\b|\bread[ -]?only (replica|slave|instance|node|server)|(instance|node|server) is read[ -]?only/i,
  },
  { code: 'redis_no_replicas', words: ['NOREPLICAS'], text: /\bNOREPLICAS\b/ },
  { code: 'redis_cannot_write', words: ['MISCONF'], text: /\bMISCONF\b/ },
  { code: 'redis_loading', words: ['LOADING'], text: /\bloading the dataset\b/i },
  { code: 'redis_cluster_down', words: ['CLUSTERDOWN'], text: /\bCLUSTERDOWN\b/ },
  { code: 'redis_master_down', words: ['MASTERDOWN'], text: /\bMASTERDOWN\b/ },
  { code: 'redis_slot_moves', words: ['TRYAGAIN', 'MOVED', 'ASK'] },
  {
    code: 'redis_denied',
    words: ['NOAUTH', 'WRONGPASS', 'NOPERM', 'DENIED', 'AUTH'],
    // Redis before 6, and managed servers.
    text: /\b(NOAUTH|WRONGPASS|NOPERM)\b|Client sent AUTH|invalid password|operation not permitted/i,
  },
  { code: 'redis_script_lost', words: ['NOSCRIPT'], text: /\bNOSCRIPT\b/ },
  { code: 'redis_busy', words: ['BUSY'], text: /\bBUSY Redis is busy\b/ },
  { code: 'redis_too_many_clients', words: [], text: /\bmax number of clients\b/i },
  { code: 'redis_no_database', words: [], text: /\bDB index\b|\bSELECT is not allowed\b/i },
  {
    code: 'redis_unsupported',
    words: ['CROSSSLOT'],
    // The probes of rights.ts are incomplete on purpose.
    text: /^ERR (unknown (sub)?command|command not supported|command .{0,40} not supported|wrong number of arguments)/i,
  },
  // A proxy without a server behind it: it has sent the command to none.
  { code: 'redis_away', words: [], text: /\bno upstream host\b|\bConnection refused\b/i },
  { code: 'no_marker', words: ['DQNOMARKER'] },
  { code: 'foreign_marker', words: ['DQFOREIGN'] },
  { code: 'stale_list', words: ['DQSTALELIST'] },
  { code: 'restoring', words: ['DQRESTORING'] },
];

/** Errors of the client for commands it did not send; they have no code. */
const unsent = [
  "Stream isn't writeable and enableOfflineQueue options is false",
  "Cluster isn't ready and enableOfflineQueue options is false",
];

/** Errors from inside a script, which may have written already. A denied command there is NOPERM from Redis
 *  7.2 on, and ERR before. */
const inside = /\bscript: [0-9a-f]+, on @|\buser_script:\d|^NOPERM ACL failure in script|^(ERR )?WRONGTYPE\b/;

/** The client follows redirections, and retries while a slot moves, each time after a rejection by a node. It
 *  wraps the last one in an error of its own. */
const lastRejection = /^Too many Cluster redirections\. Last error: ReplyError: /;

/** No byte of the command was sent, or the node that got it rejected it (connection.ts). */
export class UnsentError extends Error {
  constructor(cause: Error) {
    super(`never sent: ${cause.message}`, { cause });
  }
}

/** The server's error reply; null = there was none. */
function replyOf(error: Error): string | null {
  const { name, message } = error;
  if (error instanceof HopError) return replyOf(error.origin);
  if (error instanceof SetUpError) return error.reply;
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
  return error instanceof Error && failureOf(error).code === 'redis_denied';
}

/** After this reply the connection may lead to a server that will never apply a write: a former master, or a
 *  proxy that has lost its server. The address may lead to another one by now. */
export function wantsNewConnection(error: Error): boolean {
  const { code } = failureOf(error);
  return replyOf(error) !== null && (code === 'redis_read_only' || code === unknownReply);
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
  return failureOf(error).code === 'redis_script_failed';
}

/** of a reply that is in no row of the table */
export const unknownReply = 'redis_unknown_reply';

export function failureOf(error: unknown): StoreFailure {
  if (error instanceof HopError) return failureOf(error.origin);
  if (error instanceof StoreError) return error.failure;
  if (!(error instanceof Error)) return { kind: 'unknown', code: 'redis_failed' };
  if (error instanceof UnsentError) return { kind: 'not_stored', code: 'redis_away' };
  if (unsent.some((text) => error.message.startsWith(text)))
    return { kind: 'not_stored', code: 'redis_away' };
  const reply = replyOf(error);
  if (reply === null) return { kind: 'unknown', code: 'redis_no_answer' };
  const code = codeOf(reply);
  if (code !== undefined) return { kind: 'not_stored', code };
  // Before the set-up no command was sent.
  if (error instanceof SetUpError) return { kind: 'not_stored', code: 'redis_set_up' };
  return { kind: 'unknown', code: inside.test(reply) ? 'redis_script_failed' : unknownReply };
}

/** undefined: not a rejection */
function codeOf(reply: string): string | undefined {
  const isInside = inside.test(reply);
  const word = /^(?:ERR:? )?([A-Z]+)(?=[\s,:]|$)/.exec(reply)?.[1] ?? '';
  const code = rejections.find(({ words, text }) => words.includes(word) || text?.test(reply) === true)?.code;
  // A server does not change its role while a script runs, so it has rejected the first write too.
  return isInside && code !== 'redis_read_only' ? undefined : code;
}

/** failureOf as an error of the port. */
export function storeErrorOf(error: unknown): StoreError {
  return error instanceof StoreError ? error : new StoreError(failureOf(error), { cause: error });
}
