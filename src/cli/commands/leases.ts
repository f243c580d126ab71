// dq ack, dq nack, dq extend: answer the leases of pulled jobs, and report each lease that dq did not accept.

import type { Command } from 'commander';
import type { LeaseResultsJson } from '../../contract/api/pull.ts';
import { messageOf } from '../../core/errors.ts';
import type { ApiCall } from '../daemon/api-client.ts';
import {
  ask,
  type DaemonOptions,
  daemonCommand,
  type Switches,
  type Texts,
} from '../daemon/daemon-options.ts';
import { Exit } from '../exit.ts';
import { flagNames } from '../flags.ts';
import { printData, say } from '../output/output.ts';
import { readBody } from './push.ts';

type Verb = 'ack' | 'nack' | 'extend';

/** Flags that are members of the call. */
type LeaseFlags = DaemonOptions & Texts<'for' | 'result' | 'delay' | 'reason'> & Switches<'dead' | 'release'>;

export function register(program: Command): void {
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

export const leaseCall = (verb: Verb, json: object): ApiCall => ({
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
