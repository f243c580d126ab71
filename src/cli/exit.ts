// How a command ends: the exit codes, on which scripts rely, and the one exception that carries a code.
// Prints nothing: main.ts prints the message of an Exit, and the stack of any other exception.
// A command never calls process.exit(): that would drop output which a pipe has not taken yet.

export const exitCodes = {
  ok: 0,
  /** also a 4xx of the API */
  failed: 1,
  usage: 2,
  notRunning: 3,
  notFound: 4,
  /** `dq start -d` and `dq restart`: the daemon runs, and is not ready yet */
  notReady: 4,
  partlyFailed: 5,
  /** a daemon is expected and does not answer */
  unreachable: 69,
  crashLoop: 70,
  /** `dq restart` of a daemon in the foreground: its supervisor starts it (sysexits.h: EX_TEMPFAIL) */
  startAgain: 75,
  /** Redis or MySQL is unavailable; a later call may succeed, hence the same number */
  storeUnreachable: 75,
  badConfiguration: 78,
} as const;

/** A message with a further part: a command, or a sentence. No second mark follows a question mark. */
export const joined = (message: string, part: string): string =>
  `${message}${message.endsWith('?') ? '' : ';'} ${part}`;

export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes];

/** Ends the command with a message for people and a code for scripts. */
export class Exit extends Error {
  readonly exitCode: ExitCode;

  constructor(code: keyof typeof exitCodes, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'Exit';
    this.exitCode = exitCodes[code];
  }
}
