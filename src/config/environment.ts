// Reads the environment: DQ_ and the option's name, upper-cased, `__` between levels. Every DQ_ variable must mean
// something, or a misspelt one would silently leave its option at the default.

import { readFileSync } from 'node:fs';
import { reasonOf } from '../core/errors.ts';
import type { ConfigProblem, Given } from './given.ts';
import type { Option } from './options.ts';
import { laterOptions } from './options.ts';
import { suggest } from './suggest.ts';

/** Read by others: the search for the file, the client commands, tests. */
const foreign = /^DQ_(CONFIG|URL|TOKEN|FAIL|TEST_.*)$/;
/** Names of two words, spelt as people expect them. */
const aliases: Readonly<Record<string, string>> = {
  DQ_DATA_DIR: 'dataDir',
  DQ_SECRET_KEY_FILE: 'secretKeyFile',
};

/** server.port → DQ_SERVER__PORT */
export function variableOf(name: string): string {
  return `DQ_${name.replaceAll('.', '__').toUpperCase()}`;
}

export function readEnvironment(
  env: Readonly<Record<string, string | undefined>>,
  cwd: string,
  declared: Readonly<Record<string, Option>>,
): { readonly given: Given[]; readonly problems: ConfigProblem[] } {
  const given: Given[] = [];
  const problems: ConfigProblem[] = [];
  const names = new Map(Object.entries(aliases));
  for (const [name, option] of Object.entries(declared))
    if (option.only === undefined) names.set(variableOf(name), name);

  for (const [variable, raw] of Object.entries(env)) {
    if (!variable.startsWith('DQ_') || raw === undefined || foreign.test(variable)) continue;
    const later = laterOptions.find((name) => new RegExp(`^${variableOf(name)}(_|$)`).test(variable));
    const name = names.get(variable) ?? later;
    if (name !== undefined) {
      given.push({ name, raw, source: 'environment', where: variable, base: cwd });
      continue;
    }
    const secretName = variable.endsWith('_FILE') ? names.get(variable.slice(0, -'_FILE'.length)) : undefined;
    if (secretName !== undefined && declared[secretName]?.secret === true) {
      try {
        const text = readFileSync(raw, 'utf8').trimEnd();
        given.push({ name: secretName, raw: text, source: 'environment', where: variable, base: cwd });
      } catch (error) {
        problems.push({ where: variable, message: `cannot be read: ${reasonOf(error)}` });
      }
      continue;
    }
    problems.push({ where: variable, message: unknownVariable(variable, declared, [...names.keys()]) });
  }
  return { given, problems };
}

function unknownVariable(
  variable: string,
  declared: Readonly<Record<string, Option>>,
  known: readonly string[],
): string {
  const elsewhere = Object.entries(declared).find(([name]) => variableOf(name) === variable);
  if (elsewhere?.[1].only === 'file') return `${elsewhere[0]} is read from the configuration file only`;
  if (elsewhere?.[1].only === 'flag') return `is given on the command line only, as ${elsewhere[1].flag}`;
  const near = suggest(variable, known);
  return `unknown variable${near === null ? '' : `; did you mean ${near}?`}`;
}
