// dq version: which dq this is, for people and for scripts. `dq --version` prints the number alone.

import type { Command } from 'commander';
import { commit, version } from '../../core/version.ts';
import { printData, printRecord } from '../output/output.ts';

export function register(program: Command): void {
  program
    .command('version')
    .description('show version, commit, Node and platform')
    .option('--json', 'one JSON object: {version, commit, node, platform}')
    .action(showVersion);
}

function showVersion({ json }: { readonly json?: boolean }): void {
  const facts = { version, commit, node: process.version, platform: `${process.platform}-${process.arch}` };
  if (json) printData(JSON.stringify(facts));
  else printRecord(Object.entries(facts));
}
