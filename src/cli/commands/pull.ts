// dq pull: takes due jobs of a pull topic and prints them. With --exec it takes jobs one by one, runs a
// command for each, answers its lease by the exit code, and waits for a daemon that does not answer.
// dq ack, dq nack, dq extend: answer the leases of printed jobs, and report each that dq did not accept.
// Invariant: a job that was received is answered, or its lease ends; its command is never ended from here.

import { spawn } from 'node:child_process';
import type { Command } from 'commander';
import { contractLimits } from '../../contract/api/limits.ts';
import type { LeaseResultsJson, PulledJobJson, PulledJson } from '../../contract/api/pull.ts';
import { parseDuration } from '../../core/duration.ts';
import { messageOf } from '../../core/errors.ts';
import { sleep, timeoutSignal, wallNow } from '../../runtime/time.ts';
import { type ApiCall, type ApiClient, ApiRefusal, type ApiReply } from '../daemon/api-client.ts';
import {
  ask,
  clientOf,
  type DaemonOptions,
  daemonCommand,
  type Switches,
  type Texts,
} from '../daemon/daemon-options.ts';
import { Exit, exitCodes } from '../exit.ts';
import { flagNames, readBody, wholeOf } from '../flags.ts';
import { cliLimits } from '../limits.ts';
import { escapeControls, printData, say } from '../output/output.ts';

type PullFlags = DaemonOptions & Texts<'max' | 'wait' | 'lease' | 'exec' | 'concurrency'>;

type Verb = 'ack' | 'nack' | 'extend';

/** Flags that are members of the call. */
type LeaseFlags = DaemonOptions & Texts<'for' | 'result' | 'delay' | 'reason'> & Switches<'dead' | 'release'>;

export function register(program: Command): void {
  daemonCommand(program, 'pull', 'take due jobs of a pull topic: print them, or run a command', pull)
    .argument('<topic>', 'topic with delivery pull')
    .option('--max <n>', 'jobs at most, 1 to 100; default 1')
    .option('--wait <duration>', 'time to wait for a job, at most 3m; default 0')
    .option('--lease <duration>', 'lease of the jobs, 1s to 1d; default: that of the topic')
    .option('--exec <command>', 'run a shell command for each job, with the body as its input')
    .option(
      '-c, --concurrency <n>',
      `with --exec: commands at once, 1 to ${cliLimits.pullCommandsMax}; default 1`,
    )
    .addHelpText(
      'after',
      `
A printed job is a JSON object on one line. Answer its lease with dq ack, nack or extend.
With --exec, dq acks a job when the command exits with 0, and makes it a dead letter at 65.
At 126 and 127 the shell cannot run the command: dq releases the job, and ends with 1.
Every other exit is a failed attempt, also one by a signal. dq extends the lease meanwhile.
The command has DQ_TOPIC, DQ_ID and DQ_ATTEMPT in its environment. SIGINT and SIGTERM end
dq when the commands that run have ended.

Examples:
  dq pull report.build --wait 30s
  dq pull report.build --max 100 | jq -r .lease | xargs -r dq ack
  dq pull report.build --exec ./build-report.sh -c 4`,
    );
  const add = (verb: Verb, description: string): Command =>
    daemonCommand(program, verb, description, (leases: readonly string[], flags: LeaseFlags) =>
      answerLeases(verb, leases, flags),
    ).argument('<lease...>', 'leases of dq pull, at most 1000');
  add('ack', 'end pulled jobs as done').option(
    '--result <json>',
    'reply for the jobs that onDone pushes: JSON, @FILE or -',
  );
  add('nack', 'end attempts of pulled jobs as failed')
    .option('--delay <duration>', 'wait before the next attempt; default: the backoff of the topic')
    .option('--reason <text>', 'reason, kept with the attempt')
    .option('--dead', 'no further attempt: the jobs become dead letters')
    .option('--release', 'back in their places, or after --delay; no attempt counted');
  add('extend', 'let leases of pulled jobs end later, and print when').requiredOption(
    '--for <duration>',
    'from now on, 1s to 1d',
  );
}

async function pull(topic: string, flags: PullFlags): Promise<void> {
  const { max, wait, lease, exec, concurrency } = flags;
  if (exec === undefined) {
    if (concurrency !== undefined) throw new Exit('usage', '--concurrency goes with --exec');
    return printJobs(topic, flags);
  }
  if ([max, wait, flags.json].some((given) => given !== undefined))
    throw new Exit('usage', '--max, --wait and --json do not go with --exec, which runs until a signal');
  // The shell exits with 0 for an empty command: each job would be acked.
  if (exec.trim() === '') throw new Exit('usage', '--exec: give a command');
  const commands = wholeOf('--concurrency', concurrency ?? '1', 1, cliLimits.pullCommandsMax);
  await runPuller({ client: () => clientOf(flags), topic, lease, command: exec, commands });
}

async function printJobs(topic: string, flags: PullFlags): Promise<void> {
  const { max, wait, lease } = flags;
  const query = { max, wait, lease };
  const waiting = wait === undefined ? null : parseDuration(wait);
  const { json } = await ask<PulledJson>(flags, {
    method: 'POST',
    path: ['v1', 'topics', topic, 'pull'],
    query,
    needs: ['items'],
    flags: flagNames(Object.keys(query)),
    // The API rejects an invalid duration.
    waitMs: waiting?.ok ? Math.min(waiting.value, contractLimits.pullWaitMsMax) : 0,
  });
  if (!flags.json) for (const item of json.items) printData(JSON.stringify(item));
}

interface PullerOptions {
  /** Finds the daemon again: its address and token may change with a restart. */
  readonly client: () => ApiClient;
  readonly topic: string;
  readonly lease: string | undefined;
  /** for sh -c */
  readonly command: string;
  /** at the same time */
  readonly commands: number;
}

/** Exit code of a command that makes its job a dead letter (sysexits.h: EX_DATAERR). */
const deadExit = 65;
/** Exit codes of sh for a command that it cannot execute, and that it does not find. Each job would fail. */
const missingExits: ReadonlySet<number | null> = new Set([126, 127]);

/** Resolves after SIGINT or SIGTERM, when the commands have ended. Throws Exit when dq rejects a pull, and
 *  when the command cannot run: its job is released. */
async function runPuller(options: PullerOptions): Promise<void> {
  const stop = new AbortController();
  const onSignal = (): void => stop.abort();
  // Once: a second signal ends this process at once, and its leases end by time.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, onSignal);
  const puller = new CommandPuller(options, stop.signal);
  const lines = Array.from({ length: options.commands }, () =>
    puller.run().catch((error: unknown) => {
      stop.abort(); // the others finish, too
      throw error;
    }),
  );
  const failed = (await Promise.allSettled(lines)).find((line) => line.status === 'rejected');
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.removeListener(signal, onSignal);
  if (failed !== undefined) throw failed.reason;
}

class CommandPuller {
  readonly #options: PullerOptions;
  readonly #stop: AbortSignal;
  /** whether the last call had no answer: said once */
  #isLost = false;

  constructor(options: PullerOptions, stop: AbortSignal) {
    this.#options = options;
    this.#stop = stop;
  }

  /** Takes one job after the other until the stop. */
  async run(): Promise<void> {
    const { topic, lease } = this.#options;
    const call: ApiCall = {
      method: 'POST',
      path: ['v1', 'topics', topic, 'pull'],
      query: { wait: `${cliLimits.pullWaitMs}ms`, lease },
      needs: ['items'],
      flags: { lease: '--lease' },
      waitMs: cliLimits.pullWaitMs,
      signal: this.#stop,
    };
    while (!this.#stop.aborted) {
      const reply = await this.#answered<PulledJson>(call, this.#stop);
      for (const item of reply?.json.items ?? []) await this.#finish(item, leaseMsOf(item.leaseUntil, reply));
    }
  }

  async #finish(item: PulledJobJson, leaseMs: number): Promise<void> {
    const ended = new AbortController();
    const extending = this.#extend(item, leaseMs, ended.signal);
    const { code, reason, isMissing } = await runCommand(this.#options.command, item);
    ended.abort();
    await extending;
    const leases = [item.lease];
    if (code === 0) return this.#settle(item, 'ack', { leases });
    if (isMissing) {
      await this.#settle(item, 'nack', { leases, release: true });
      throw new Exit(
        'failed',
        `the command cannot run (${reason}), so dq pull stops; ${nameOf(item)} is released. Correct --exec`,
      );
    }
    say(`dq: ${nameOf(item)}: ${reason}, attempt ${item.attempt}`);
    await this.#settle(item, 'nack', { leases, reason, ...(code === deadExit ? { dead: true } : {}) });
  }

  /** Extends the lease at half of its time until `ended`. */
  async #extend({ lease, ...item }: PulledJobJson, leaseMs: number, ended: AbortSignal): Promise<void> {
    const json = { leases: [lease], for: `${Math.max(leaseMs, 1_000)}ms` };
    const call: ApiCall = { ...leaseCall('extend', json), signal: ended };
    for (;;) {
      await sleep(Math.max(leaseMs / 2, cliLimits.pullExtendMsMin), { signal: ended }).catch(() => undefined);
      if (ended.aborted) return;
      const reply = await this.#answered<LeaseResultsJson>(call, ended).catch((error: unknown) => {
        say(`dq: ${nameOf(item)}: cannot extend the lease: ${messageOf(error)}`);
        return null;
      });
      const status = reply?.json.results[0]?.status;
      if (status !== 409 && status !== 403) continue;
      // The ack reports the loss.
      return;
    }
  }

  async #settle(item: PulledJobJson, verb: 'ack' | 'nack', json: object): Promise<void> {
    const over = timeoutSignal(cliLimits.pullSettleMs);
    while (!over.aborted) {
      const reply = await this.#answered<LeaseResultsJson>(leaseCall(verb, json), over).catch(
        (error: unknown) => {
          say(`dq: ${nameOf(item)}: cannot ${verb} it: ${messageOf(error)}`);
          return undefined;
        },
      );
      if (reply === undefined) return;
      const result = reply?.json.results[0];
      if (result?.status === 200) return;
      if (result !== undefined && result.status !== 503) {
        say(`dq: ${nameOf(item)}: cannot ${verb} it: ${result.code ?? result.status}`);
        return;
      }
      await pause(over);
    }
    say(`dq: ${nameOf(item)}: no answer to ${verb}; the job comes again when its lease ends`);
  }

  /** Repeats a call until the daemon answers; null = `over` came first. Throws ApiRefusal and Exit for what a
   *  repeat cannot mend. */
  async #answered<T>(call: ApiCall, over: AbortSignal): Promise<ApiReply<T> | null> {
    while (!over.aborted) {
      try {
        const reply = await this.#options.client().call<T>(call);
        if (this.#isLost) say('dq: the daemon answers again');
        this.#isLost = false;
        return reply;
      } catch (error) {
        if (over.aborted) return null;
        if (!mayPass(error)) throw error;
        if (!this.#isLost) say(`dq: ${messageOf(error)}; trying again`);
        this.#isLost = true;
        await pause(over);
      }
    }
    return null;
  }
}

function mayPass(error: unknown): boolean {
  if (error instanceof ApiRefusal) return error.problem.status >= 500 || error.problem.status === 429;
  if (!(error instanceof Exit)) return false;
  return error.exitCode === exitCodes.unreachable || error.exitCode === exitCodes.notRunning;
}

async function pause(over: AbortSignal): Promise<void> {
  await sleep(cliLimits.pullAgainMs, { signal: over }).catch(() => undefined);
}

const nameOf = ({ topic, id }: Pick<PulledJobJson, 'topic' | 'id'>): string =>
  `${topic} ${escapeControls(id)}`;

/** By the daemon's clock, which a reply has in whole seconds: the result is whole seconds, too. */
function leaseMsOf(leaseUntil: string, reply: ApiReply | null): number {
  const now = reply?.at ?? wallNow();
  return Math.floor((Date.parse(leaseUntil) - now) / 1_000) * 1_000;
}

interface CommandEnd {
  /** null: ended by a signal, or not started */
  readonly code: number | null;
  readonly reason: string;
  /** no job can be done with this command */
  readonly isMissing: boolean;
}

function runCommand(command: string, item: PulledJobJson): Promise<CommandEnd> {
  return new Promise((resolve) => {
    const child = spawn('/bin/sh', ['-c', command], {
      stdio: ['pipe', 'inherit', 'inherit'],
      env: { ...process.env, DQ_TOPIC: item.topic, DQ_ID: item.id, DQ_ATTEMPT: String(item.attempt) },
      // Its own process group: Ctrl-C on a terminal ends dq pull, not the commands.
      detached: true,
    });
    child.once('error', (error) =>
      resolve({ code: null, reason: `cannot start: ${messageOf(error)}`, isMissing: true }),
    );
    child.once('close', (code, signal) => {
      const reason = code === null ? `ended by ${signal}` : `exit ${code}`;
      resolve({ code, reason, isMissing: missingExits.has(code) });
    });
    child.stdin.on('error', () => {}); // a command need not read its input
    child.stdin.end(
      item.bodyBase64 === undefined ? (item.body ?? '') : Buffer.from(item.bodyBase64, 'base64'),
    );
  });
}

const leaseCall = (verb: Verb, json: object): ApiCall => ({
  method: 'POST',
  path: ['v1', 'leases', verb],
  json,
  needs: ['results'],
});

/** Prints the ends of extended leases, one per line. Throws Exit when a lease was not accepted. */
async function answerLeases(verb: Verb, leases: readonly string[], flags: LeaseFlags): Promise<void> {
  const { for: length, delay, reason, dead, release } = flags;
  const result = flags.result === undefined ? undefined : await readResult(flags.result);
  const members = { for: length, delay, reason, dead, release, result };
  const call = { ...leaseCall(verb, { leases, ...members }), flags: flagNames(Object.keys(members)) };
  const { results } = (await ask<LeaseResultsJson>(flags, call)).json;
  if (!flags.json) for (const { leaseUntil } of results) if (leaseUntil !== undefined) printData(leaseUntil);
  const failed = results.flatMap(({ status, code }, n) =>
    status === 200 ? [] : [{ n, code: code ?? status }],
  );
  for (const { n, code } of failed) say(`dq: ${leases[n]}: ${code}`);
  if (failed.length === 0) return;
  throw new Exit(
    failed.length < results.length ? 'partlyFailed' : 'failed',
    `${failed.length} of ${results.length} leases failed`,
  );
}

async function readResult(given: string): Promise<unknown> {
  const text = String(await readBody(given));
  try {
    return JSON.parse(text);
  } catch (error) {
    const remedy = `write JSON, a text in quotes: '"done"'`;
    throw new Exit('usage', `--result: ${messageOf(error)}; ${remedy}`, { cause: error });
  }
}
