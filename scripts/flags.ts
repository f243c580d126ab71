// Options of the programs of `npm run`: a wrong one ends the program with its usage, and not with a stack
// trace.

import { type ParseArgsConfig, parseArgs } from 'node:util';

type Options = NonNullable<ParseArgsConfig['options']>;

/** Ends the program with exit code 2. */
export function failUsage(text: string, usage: string): never {
  console.error(`${text}\n\n${usage}`);
  process.exit(2);
}

/** The options and the other words of the command line. Adds `--help`, which prints the usage. */
export function readFlags<T extends Options>(options: T, usage: string, allowPositionals = false) {
  const config = {
    allowPositionals,
    options: { ...options, help: { type: 'boolean', short: 'h' } },
  } as const;
  const { values, positionals } = parsed();
  if ((values as { readonly help?: boolean }).help === true) {
    console.log(usage);
    process.exit(0);
  }
  return { values, positionals };

  function parsed() {
    try {
      return parseArgs<{ options: T & { help: { type: 'boolean' } }; allowPositionals: boolean }>(config);
    } catch (error) {
      // Without the advice of Node about words that begin with a dash.
      return failUsage(String((error as Error).message).split('. To specify', 1)[0] ?? '', usage);
    }
  }
}
