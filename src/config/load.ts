// Loads the configuration of a start or a reload: flag > environment > file > default, then checks it as a
// whole. Reports all problems at once, including those of overridden values. Writes nothing.

import { unknownName } from '../core/suggest.ts';
import { findConfigFile, isGroup, readConfigFile } from './config-file.ts';
import { crossCheck, type Origins } from './cross-checks.ts';
import { readEnvironment } from './environment.ts';
import { openFilesMax } from './open-files.ts';
import { type Config, defaultOf, type Option, options } from './options.ts';
import { type ConfigProblem, type Given, parseValue } from './parse.ts';

export interface ConfigInput {
  /** by option name: `{'server.port': '6790', noAuth: true}`; undefined = not given */
  readonly flags: Readonly<Record<string, unknown>>;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  /** -c */
  readonly file?: string | undefined;
}

export type LoadedConfig =
  | {
      readonly ok: true;
      readonly config: Config;
      /** source of each value: `--port`, `DQ_SERVER__PORT`, `dq.yaml:3:5`, `default` */
      readonly origins: Origins;
      readonly warnings: readonly ConfigProblem[];
      /** absolute; null without a file */
      readonly file: string | null;
    }
  | { readonly ok: false; readonly problems: readonly ConfigProblem[] };

const usualFiles = ['dq.yaml', '/etc/dq/dq.yaml'];
const declared: Readonly<Record<string, Option>> = options;

export function loadConfig(input: ConfigInput): LoadedConfig {
  const problems: ConfigProblem[] = [];
  const found = findConfigFile(input.file ?? (input.env['DQ_CONFIG'] || undefined), input.cwd, usualFiles);
  if (found.problem !== null) problems.push(found.problem);
  const file = found.file === null ? { given: [], problems: [] } : readConfigFile(found.file);
  const environment = readEnvironment(input.env, input.cwd, declared);
  problems.push(...file.problems, ...environment.problems);

  const values: Record<string, unknown> = {};
  const origins: Record<string, string> = {};
  for (const [name, option] of Object.entries(declared)) {
    // The default of a path is relative and needs parsing.
    const value = option.kind === 'path' ? parseValue(option, option.default, input.cwd) : null;
    values[name] = value?.ok ? value.value : option.default;
    origins[name] = 'default';
  }
  const sources = new Map<string, Given>();
  for (const given of [...file.given, ...environment.given, ...flagsOf(input)]) {
    const message = problemOf(given, sources.get(given.name));
    sources.set(given.name, given);
    const option = declared[given.name];
    if (message !== null || option === undefined) {
      problems.push({ where: given.where, message: message ?? 'unknown option' });
      continue;
    }
    const parsed = parseValue(option, given.raw, given.base);
    if (!parsed.ok) problems.push({ where: given.where, message: `${given.name}: ${parsed.message}` });
    else {
      values[given.name] = parsed.value;
      origins[given.name] = given.where;
    }
  }

  for (const name of Object.keys(declared))
    if (origins[name] === 'default') values[name] = defaultOf(name, values as Config);
  const config = Object.freeze(values) as Config;
  const checked = crossCheck(config, origins as Origins, { openFilesMax: openFilesMax() });
  problems.push(...checked.problems);
  if (problems.length > 0) return { ok: false, problems };
  return {
    ok: true,
    config,
    origins: Object.freeze(origins) as Origins,
    warnings: checked.warnings,
    file: found.file?.path ?? null,
  };
}

function flagsOf({ flags, cwd }: ConfigInput): Given[] {
  return Object.entries(flags)
    .filter(([, raw]) => raw !== undefined)
    .map(([name, raw]) => ({
      name,
      raw,
      source: 'flag',
      where: declared[name]?.flag ?? `--${name.split('.')[0]}`,
      base: cwd,
    }));
}

/** Why this source cannot give this option; null = check the value. */
function problemOf({ name, source }: Given, earlier: Given | undefined): string | null {
  const option = Object.hasOwn(declared, name) ? declared[name] : undefined;
  if (option === undefined) {
    if (isGroup(name)) return `${name}: is a group of options; name one of them`;
    return unknownName(`option "${name}"`, name, Object.keys(declared), 'see `dq config init` for the names');
  }
  if (option.only === 'flag' && source !== 'flag')
    return `${name}: is for the command line only; write ${option.flag}`;
  if (earlier?.source === source) return `${name}: is given twice; remove it here or at ${earlier.where}`;
  return null;
}
