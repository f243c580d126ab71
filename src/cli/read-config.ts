// Reads the configuration of a command, and says what is wrong with it.

import { type LoadedConfig, loadConfig } from '../config/load.ts';
import { type ConfigProblem, formatProblem } from '../config/parse.ts';
import { Exit } from './exit.ts';

/** `flags`: by option name; `file`: of -c. Throws Exit with every problem, one per line, in the form that
 *  editors jump to. */
export function readConfig(
  flags: Readonly<Record<string, unknown>>,
  file: string | undefined,
): Extract<LoadedConfig, { ok: true }> {
  const loaded = loadConfig({ flags, env: process.env, cwd: process.cwd(), file });
  if (!loaded.ok) throw new Exit('badConfiguration', problemText(loaded.problems));
  return loaded;
}

export function problemText(problems: readonly ConfigProblem[]): string {
  return ['the configuration is wrong', ...problems.map(formatProblem)].join('\n');
}
