// Describes the configuration for the console: the values in force with their origins, and what a reload
// would change. Masks secrets here, so that none of them leaves the master.

import { restartOptions } from '../config/needs-restart.ts';
import { type OptionName, options } from '../config/options.ts';
import { defaultText, describeConfig, sourceOf } from '../config/show.ts';
import type { ConfigState } from '../process/messages.ts';
import type { ReadConfig, ReadFacts } from './reload.ts';

/** `onDisk`: what a reload would read now */
export function describeState(inForce: ReadFacts, onDisk: ReturnType<ReadConfig>): ConfigState {
  const next = onDisk.ok
    ? new Map(describeConfig(onDisk.config, onDisk.origins).map((row) => [row.name, row.value]))
    : null;
  const isOther = (name: OptionName): boolean =>
    onDisk.ok && JSON.stringify(onDisk.config[name]) !== JSON.stringify(inForce.config[name]);
  return {
    file: (onDisk.ok ? onDisk.file : null) ?? inForce.file,
    problem: onDisk.ok ? null : onDisk.reason,
    items: describeConfig(inForce.config, inForce.origins).map(({ name, value, origin }) => {
      const source = sourceOf(origin);
      // Flags and environment are those of the start.
      const isFixed = source === 'flag' || source === 'environment' || options[name].only === 'flag';
      return {
        name,
        value,
        origin,
        source,
        defaultValue: defaultText(options[name]),
        needsRestart: isFixed || restartOptions.has(name),
        next: isOther(name) ? (next?.get(name) ?? null) : null,
        help: options[name].help,
      };
    }),
  };
}
