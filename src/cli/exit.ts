// How a command ends: the exit codes, which scripts rely on (README, "Exit codes"), and the one exception that carries one.
// Owns no output but the sentence that explains a failure. Anything thrown that is no Exit is a mistake in dq and shows
// its stack. Never calls process.exit(): what a pipe has not taken yet would be cut off.

import { reasonOf } from '../core/errors.ts';

export const exitCodes = {
  ok: 0,
  /** also a 4xx of the API */
  failed: 1,
  usage: 2,
  notRunning: 3,
  notFound: 4,
  partlyFailed: 5,
  /** a daemon should be there and does not answer */
  unreachable: 69,
  crashLoop: 70,
  badConfiguration: 78,
} as const;

export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes];

/** Ends the command with a sentence for people and a code for scripts. */
export class Exit extends Error {
  readonly exitCode: ExitCode;

  constructor(code: keyof typeof exitCodes, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'Exit';
    this.exitCode = exitCodes[code];
  }
}

/** Wraps a command's body for commander's action(): an Exit becomes its sentence on stderr and its code. */
export function endsWell<A extends unknown[]>(
  body: (...args: A) => Promise<void>,
): (...args: A) => Promise<void> {
  return async (...args) => {
    try {
      await body(...args);
    } catch (error) {
      if (!(error instanceof Exit)) throw error;
      process.stderr.write(`dq: ${reasonOf(error)}\n`);
      process.exitCode = error.exitCode;
    }
  };
}
