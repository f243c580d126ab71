// Reads options from the environment: DQ_ and the option's name in upper case, `__` between levels
// (`DQ_SERVER__PORT`), optionally `_` between the words of a level (`DQ_DATA_DIR`). An empty variable is
// not set. An unknown DQ_ variable is a problem, because a misspelt one would silently leave its option at
// the default. Exceptions: variables that Kubernetes and Docker set for a service called dq or dq-…,
// unless they name an option exactly.

import { readFileSync } from 'node:fs';
import { messageOf } from '../core/errors.ts';
import { unknownName } from '../core/suggest.ts';
import type { Option } from './options.ts';
import type { ConfigProblem, Given } from './parse.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/** Variables with other readers: the search for the file, the client commands, commands of dq pull --exec,
 *  tests. */
const foreign = /^DQ_(CONFIG|URL|TOKEN|TOPIC|ID|ATTEMPT|FAIL|TEST_.*)$/;

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
    if (!variable.startsWith('DQ_') || !raw || foreign.test(variable)) continue;
    const option = names.get(variable);
    if (option === undefined && isServiceLink(variable, env)) continue;
    if (option !== undefined) {
      add(option, raw, variable);
      continue;
    }
    const secretName = variable.endsWith('_FILE') ? names.get(variable.slice(0, -'_FILE'.length)) : undefined;
    if (secretName !== undefined && declared[secretName]?.secret === true) {
      try {
        add(secretName, readFileSync(raw, 'utf8').trimEnd(), variable);
      } catch (error) {
        problems.push({ where: variable, message: `cannot read the file: ${messageOf(error)}` });
      }
      continue;
    }
    const files = [...names]
      .filter(([, of]) => declared[of]?.secret === true)
      .map(([known]) => `${known}_FILE`);
    problems.push({
      where: variable,
      message: unknownVariable(variable, declared, [...names.keys(), ...files]),
    });
  }
  return { given: [...given.values()], problems };
}

/** Reads one option from the environment; null = not set. */
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
  if (elsewhere?.[1].only === 'file')
    return `${elsewhere[0]} is for the configuration file only; set it there`;
  if (elsewhere?.[1].only === 'flag') return `is for the command line only; write ${elsewhere[1].flag}`;
  return unknownName(
    'variable',
    variable,
    known,
    'remove it, or see `dq config init` for the names of all options',
  );
}

/** The names of both containers of a link of Docker: /web/dq */
const containers = /^\/[^/]+\/[^/]+$/;
/** Names and values of the variables that Kubernetes sets for each service of the namespace, and Docker for
 *  each legacy link. The values have forms that no option of dq has.
 *  https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables
 *  https://docs.docker.com/engine/network/links/#environment-variables */
const links: readonly { readonly name: RegExp; readonly value: RegExp }[] = [
  { name: /^DQ_(?:\w+_)?SERVICE_HOST$/, value: /^[\w.:-]*$/ },
  { name: /^DQ_(?:\w+_)?SERVICE_PORT(?:_\w+)?$/, value: /^\d+$/ },
  { name: /^DQ_(?:\w+_)?PORT$/, value: /^(?:tcp|udp|sctp):\/\// },
  {
    name: /^DQ_(?:\w+_)?PORT_\d+_(?:TCP|UDP|SCTP)(?:_(?:START|END))?$/,
    value: /^(?:tcp|udp|sctp):\/\//,
  },
  {
    name: /^DQ_(?:\w+_)?PORT_\d+_(?:TCP|UDP|SCTP)_(?:PROTO|ADDR|PORT(?:_START|_END)?)$/,
    value: /^[\w.:-]+$/,
  },
  { name: /^DQ_(?:\w+_)?NAME$/, value: containers },
];

/** Whether the variable is of a service called dq or dq-…, whose name must not fail a start. */
function isServiceLink(variable: string, env: Environment): boolean {
  const value = env[variable] ?? '';
  if (links.some((link) => link.name.test(variable) && link.value.test(value))) return true;
  // Docker passes on the environment of a linked container and sets `<prefix>NAME` to the names of both
  // containers.
  const linked = /^(DQ_(?:\w+?_)?)ENV_\w+$/.exec(variable)?.[1];
  return linked !== undefined && containers.test(env[`${linked}NAME`] ?? '');
}
