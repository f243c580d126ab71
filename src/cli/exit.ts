// How a command ends: the exit codes, which scripts rely on (README, "Exit codes"), and the one exception that carries one.
// Prints nothing: main.ts turns an Exit into its sentence and its code, and shows the stack of anything else. A command
// never calls process.exit(): what a pipe has not taken yet would be cut off.

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
  /** of a daemon in the foreground that was asked to start anew: its supervisor does (sysexits.h: EX_TEMPFAIL) */
  startAgain: 75,
  /** Redis or MySQL is away; later it may work, hence the same number */
  storeUnreachable: 75,
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
