// One value as somebody gave it, before it is judged, and one complaint about it: what the readers of the file, the
// environment and the command line hand to load.ts.

export interface Given {
  /** dotted name as the user wrote it: `server.port` */
  readonly name: string;
  /** text from flags and environment; whatever YAML made of it from the file */
  readonly raw: unknown;
  readonly source: 'flag' | 'environment' | 'file';
  /** `dq.yaml:3:5`, `DQ_SERVER__PORT`, `--port` */
  readonly where: string;
  /** absolute directory that a relative path starts from */
  readonly base: string;
}

export interface ConfigProblem {
  readonly where: string;
  readonly message: string;
}

/** `file:line:col  message`, as editors jump to it. */
export function formatProblem(problem: ConfigProblem): string {
  return `${problem.where}  ${problem.message}`;
}
