// A given value before its check, and a problem with one: the readers of the file, the environment and the
// command line return these to load.ts.

export interface Given {
  /** dotted name as the user wrote it: `server.port` */
  readonly name: string;
  /** text from flags and environment, a YAML value from the file */
  readonly raw: unknown;
  readonly source: 'flag' | 'environment' | 'file';
  /** `dq.yaml:3:5`, `DQ_SERVER__PORT`, `--port` */
  readonly where: string;
  /** absolute directory for relative paths */
  readonly base: string;
}

export interface ConfigProblem {
  readonly where: string;
  readonly message: string;
}

/** `file:line:col  message`, which editors can open. */
export function formatProblem(problem: ConfigProblem): string {
  return problem.where === 'default' ? problem.message : `${problem.where}  ${problem.message}`;
}
