// Reads the environment: DQ_ and the option's name, upper-cased, `__` between levels; words of one level with or without `_`.
// Every DQ_ variable must mean something, or a misspelt one would silently leave its option at the default. Variables that
// Kubernetes and Docker make for a service called dq or dq-… are not dq's, and are passed over.

import { readFileSync } from 'node:fs';
import { reasonOf } from '../core/errors.ts';
import type { ConfigProblem, Given } from './given.ts';
import type { Option } from './options.ts';
import { laterOptions } from './options.ts';
import { isServiceLink } from './service-links.ts';
import { suggest } from './suggest.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/** Read by others: the search for the file, the client commands, tests. */
const foreign = /^DQ_(CONFIG|URL|TOKEN|FAIL|TEST_.*)$/;

/** server.port → DQ_SERVER__PORT; shutdownTimeout → DQ_SHUTDOWNTIMEOUT */
export function variableOf(name: string): string {
  return `DQ_${name.replaceAll('.', '__').toUpperCase()}`;
}

/** Every spelling: shutdownTimeout → DQ_SHUTDOWNTIMEOUT, DQ_SHUTDOWN_TIMEOUT */
export function variablesOf(name: string): readonly string[] {
  const inWords = variableOf(name.replaceAll(/(?<=[a-z])(?=[A-Z])/g, '_'));
  return [...new Set([variableOf(name), inWords])];
}

export function readEnvironment(
  env: Environment,
  cwd: string,
  declared: Readonly<Record<string, Option>>,
): { readonly given: Given[]; readonly problems: ConfigProblem[] } {
  const given = new Map<string, Given>();
  const problems: ConfigProblem[] = [];
  const names = new Map<string, string>();
  for (const [name, option] of Object.entries(declared))
    if (option.only === undefined) for (const variable of variablesOf(name)) names.set(variable, name);
  const add = (name: string, raw: string, where: string): void => {
    const earlier = given.get(name);
    if (earlier === undefined) given.set(name, { name, raw, source: 'environment', where, base: cwd });
    else if (earlier.raw !== raw) problems.push({ where, message: setTwice(name, earlier.where) });
  };

  for (const [variable, raw] of Object.entries(env)) {
    if (!variable.startsWith('DQ_') || raw === undefined || foreign.test(variable)) continue;
    if (isServiceLink(variable, env)) continue;
    const later = laterOptions.find((name) => new RegExp(`^${variableOf(name)}(_|$)`).test(variable));
    const name = names.get(variable) ?? later;
    if (name !== undefined) {
      add(name, raw, variable);
      continue;
    }
    const secretName = variable.endsWith('_FILE') ? names.get(variable.slice(0, -'_FILE'.length)) : undefined;
    if (secretName !== undefined && declared[secretName]?.secret === true) {
      try {
        add(secretName, readFileSync(raw, 'utf8').trimEnd(), variable);
      } catch (error) {
        problems.push({ where: variable, message: `cannot be read: ${reasonOf(error)}` });
      }
      continue;
    }
    problems.push({ where: variable, message: unknownVariable(variable, declared, [...names.keys()]) });
  }
  return { given: [...given.values()], problems };
}

/** What the environment says for one option, for a caller that reads nothing else; null = nothing. */
export function readVariable(
  env: Environment,
  name: string,
): { readonly raw: string } | { readonly problem: ConfigProblem } | null {
  const [first, ...others] = variablesOf(name).filter((variable) => env[variable]);
  if (first === undefined) return null;
  const other = others.find((variable) => env[variable] !== env[first]);
  if (other !== undefined) return { problem: { where: other, message: setTwice(name, first) } };
  return { raw: env[first] as string };
}

function setTwice(name: string, where: string): string {
  return `${name}: ${where} sets another value; remove one of them`;
}

function unknownVariable(
  variable: string,
  declared: Readonly<Record<string, Option>>,
  known: readonly string[],
): string {
  const elsewhere = Object.entries(declared).find(([name]) => variablesOf(name).includes(variable));
  if (elsewhere?.[1].only === 'file') return `${elsewhere[0]} is read from the configuration file only`;
  if (elsewhere?.[1].only === 'flag') return `is given on the command line only, as ${elsewhere[1].flag}`;
  const near = withGroup(variable, known) ?? suggest(variable, known);
  return near === null
    ? 'unknown variable; remove it, or see `dq config init` for the names of all options'
    : `unknown variable; did you mean ${near}?`;
}

/** DQ_PORT → DQ_SERVER__PORT, where one group alone has such an option. */
function withGroup(variable: string, known: readonly string[]): string | null {
  const [found = null, ...more] = known.filter((name) => name.endsWith(`__${variable.slice('DQ_'.length)}`));
  return more.length === 0 ? found : null;
}
