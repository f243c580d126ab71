// dq backup: copies the store and the registry of a running daemon. The daemon makes the copy, on its own
// machine, because a file copy of a live database is not consistent.

import { resolve } from 'node:path';
import type { Command } from 'commander';
import type { BackupJson } from '../../contract/api/store.ts';
import { clientOf, type DaemonOptions, daemonCommand } from '../daemon/daemon-options.ts';
import { doLongWork } from '../daemon/long-work.ts';
import { printData, say } from '../output/output.ts';

export function register(program: Command): void {
  const description = 'copy store and registry of a running daemon into a new directory';
  daemonCommand(program, 'backup', description, backup).argument(
    '<directory>',
    'path of the copy; must not exist',
  );
}

async function backup(directory: string, flags: DaemonOptions): Promise<void> {
  const start = { method: 'POST', path: ['v1', 'backup'], json: { directory: resolve(directory) } } as const;
  const { text, json } = await doLongWork<BackupJson>(clientOf(flags), start, 'copying');
  printData(flags.json ? text : (json.directory ?? resolve(directory)));
  say(`dq: ${json.bytes} bytes; keep secret.key of the data directory too: the secrets in the copy need it`);
  if (json.notCopied !== undefined) say(`dq: ${json.notCopied}`);
}
