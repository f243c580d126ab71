// What no option can know by itself: values that contradict one another, the machine, or a library's rules. Pure: facts
// about the machine are handed in.

import ipaddr from 'ipaddr.js';
import { parseRange } from '../core/egress-policy.ts';
import { limits } from '../core/limits.ts';
import type { ConfigProblem } from './given.ts';
import type { Config, OptionName } from './options.ts';

export interface Machine {
  /** file descriptors that one process may hold; null when unknown */
  readonly openFilesMax: number | null;
}

export type Origins = { readonly [K in OptionName]: string };

export function crossCheck(
  config: Config,
  origins: Origins,
  machine: Machine,
): { readonly problems: ConfigProblem[]; readonly warnings: ConfigProblem[] } {
  const problems: ConfigProblem[] = [];
  const warnings: ConfigProblem[] = [];
  const problem = (name: OptionName, message: string) =>
    problems.push({ where: origins[name], message: `${name}: ${message}` });
  const warning = (name: OptionName, message: string) =>
    warnings.push({ where: origins[name], message: `${name}: ${message}` });

  if (!isTimeZone(config.timezone))
    problem('timezone', `"${config.timezone}" is no IANA time zone such as Asia/Shanghai`);
  for (const name of ['egress.allow', 'egress.deny'] as const)
    for (const range of config[name]) {
      const parsed = parseRange(range);
      if (!parsed.ok) problem(name, `"${range}" ${parsed.message}`);
    }

  if (config['egress.policy'] === 'allowlist' && config['egress.allow'].length === 0)
    warning('egress.allow', 'is empty under egress.policy allowlist: no callback can be made');
  const needed = config['notifier.slots'] + limits.descriptorsBesideSlots;
  if (machine.openFilesMax !== null && needed > machine.openFilesMax)
    warning(
      'notifier.slots',
      `needs about ${needed} file descriptors in each notifier; the limit is ${machine.openFilesMax} (ulimit -n)`,
    );
  return { problems, warnings };
}

export function isLoopback(host: string): boolean {
  if (host === 'localhost') return true;
  return ipaddr.isValid(host) && ipaddr.process(host).range() === 'loopback';
}

function isTimeZone(name: string): boolean {
  try {
    new Intl.DateTimeFormat('en', { timeZone: name });
    return true;
  } catch {
    return false; // the one way to ask
  }
}
