// Renders the reference page of error codes and exit codes, and holds their remedies.
import { exitCodes } from '../../src/cli/exit.ts';
import { catalogue } from '../../src/core/errors.ts';
import { code, table } from './markdown.ts';

/** What the caller does. A test compares the names with the catalogue. */
export const remedies: Readonly<Record<string, string>> = {
  invalid: 'correct the parameter or member that `errors` names',
  malformed_json: 'send valid JSON; the message names the place',
  unauthorized: 'send `Authorization: Bearer dqk_…` with a known token',
  forbidden: 'use a token with the scope and topic that the message names; see [Security](../security.md)',
  no_route: 'correct the path; [HTTP API](http.md) lists the routes',
  method_not_allowed: 'use a method that the header `Allow` lists',
  topic_not_found: 'register the topic, or correct its name; the message suggests similar names',
  job_not_found: 'correct the id; an ended job is kept for `history.retention` only',
  token_not_found: 'correct the name; `dq token ls` lists the tokens',
  session_not_found: 'correct the id; `dq console sessions` lists the sessions',
  operation_not_found: 'correct the id; `dq op ls` lists the last 100 operations',
  schedule_not_found: 'correct the name; `dq schedule ls` lists the schedules',
  shard_not_found: 'correct the number; `dq shard ls` lists the shards',
  job_exists: 'nothing: with `mode=reject` the stored job stays as it is',
  token_exists: 'choose another name, or remove the old token first',
  topic_exists: 'change the topic with PATCH or PUT',
  schedule_exists: 'change the schedule (`dq schedule set`), or remove one',
  schedule_changed: 'read the schedule again, and repeat the change',
  topic_not_push: 'pull the jobs, or change `delivery` to `push`',
  lease_lost: 'stop the work: the job was cancelled, replaced or given to another client',
  topic_not_pull: 'change `delivery` to `pull`',
  topic_has_jobs: 'wait until the jobs are done, or delete them with `?jobs=purge`; repeat while jobs remain',
  job_changed:
    'the id was pushed, or the job was moved or edited, since you read it; read it again and decide again',
  topic_changed: 'read the topic again, compare, and repeat the change with its new revision',
  topic_in_use:
    'change the topic that the detail names, or have it changed: its `onDone` or `onDead` names this one',
  topic_offline: 'resume the topic (`dq topic resume`)',
  job_in_flight: 'try again after the running attempt',
  job_dead: 'requeue the job instead (`dq dead requeue`), also with an edit (`dq edit --requeue`)',
  no_journal:
    'set `journal.mode` with Redis and MySQL; for the embedded store put a backup of `dq backup` back',
  job_ended: 'push it again: the journal keeps no body of an ended job',
  no_shards: 'nothing: only jobs in Redis have shards',
  shard_refused: 'read the message: the server has other data, another registry or unsafe settings',
  shard_in_use: 'drain the shard first, and wait until it is empty; see [Shards](../shards.md)',
  work_running: 'wait for its end; GET on the same path shows the progress',
  trial_impossible: 'read the message; `dq sink` receives callbacks on any machine',
  too_many_operations: 'wait for the end of an operation, or stop one (`dq op stop`)',
  not_dead: 'use `run` or `reschedule`, or edit without `requeue`: the job is not a dead letter',
  body_too_large:
    'send a reference instead of the data, or raise `limits.bodyBytes` or `limits.batchBytes`; a `result` has at most 64 KiB',
  unsupported_media_type: 'send the body uncompressed, with the content type that the message names',
  too_many_sign_ins: 'wait a minute, then sign in again',
  too_many_test_calls: 'wait a minute, then send the test call again',
  hook_failed: 'correct the hook in `alerts.hooks`; the message quotes its reply',
  smtp_failed: 'correct `smtp.url`; the message quotes the mail server',
  shard_unreachable: 'repair the connection to the shard, then repeat the call',
  restoring:
    'repeat the call after `Retry-After`: Redis lost changes, and dq puts the jobs back from its journal',
  not_stored: 'push again after `Retry-After`: nothing was stored',
  unknown: 'push again **with the same id**: the job may be stored',
  survey_busy: 'repeat the search after `Retry-After`: dq examines the jobs for one search at a time',
  unavailable: 'repeat the call after `Retry-After`: nothing was changed',
};

/** A test compares the names with the exit codes. */
export const exitMeanings: Readonly<Record<string, string>> = {
  ok: 'success',
  failed: 'the operation failed, or the API rejected the call (4xx)',
  usage: 'wrong usage: unknown flag, missing argument, a mistake in the file of `dq apply`',
  notRunning: 'no daemon runs on this data directory',
  notFound: 'the topic, job, token or shard does not exist',
  notReady: '`dq start -d`, `dq restart`: the daemon runs and is not ready; the message names the reason',
  partlyFailed: 'a part failed; the message names the number',
  unreachable: 'the daemon does not answer',
  crashLoop: '`dq start`: a process failed again and again, and the daemon ended',
  startAgain: '`dq start` in the foreground: `dq restart` asked the supervisor for a new start',
  storeUnreachable: '`dq migrate`, `dq doctor`, `dq shard add`: MySQL or Redis does not answer',
  badConfiguration: 'wrong configuration; another start does not help',
};

export function errorsPage(): string {
  const codes = Object.entries(catalogue).map(([name, { status, title }]) => [
    code(name),
    String(status),
    title,
    remedies[name] ?? '',
  ]);
  const exits = Object.entries(exitCodes).map(([name, number]) => [String(number), exitMeanings[name] ?? '']);
  return `# Errors

Every reply of the API that is not a 2xx is \`application/problem+json\`:

\`\`\`json
{"title":"Invalid request","status":400,"detail":"delay: …","code":"invalid","errors":[{"field":"delay","message":"…"}]}
\`\`\`

\`code\` is one of the codes below and never changes; \`title\` and \`detail\` are for people. \`errors\` names each wrong
parameter or member; \`position\` counts characters from 0.

## Error codes

${table(['code', 'status', 'title', 'what to do'], codes)}
## Exit codes

The commands of \`dq\` end with these codes. [Troubleshooting](../troubleshooting.md#exit-codes) lists typical causes.

${table(['code', 'meaning'], exits)}
See also: [Troubleshooting](../troubleshooting.md) · [HTTP API](http.md) · [Command line](command-line.md)
`;
}
