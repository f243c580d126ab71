// dq op: operations, which the daemon works on by itself.

import type { Command } from 'commander';
import type { listOperationsSchema, OperationJson } from '../../contract/api/operation.ts';
import type { ReplyOf } from '../../contract/api/schema.ts';
import { ask, clientOf, type DaemonOptions, daemonCommand } from '../daemon/daemon-options.ts';
import { instantOf, printData, printItems, say } from '../output/output.ts';

export function register(program: Command): void {
  const family = program.command('op').description('operations: bulk work on jobs that dq does by itself');
  daemonCommand(family, 'ls', 'list the last operations, newest first', list);
  daemonCommand(family, 'get', 'show an operation', show).argument('<id>');
  daemonCommand(family, 'stop', 'stop an operation; moved jobs stay moved', stopOne).argument('<id>');
}

async function list(flags: DaemonOptions): Promise<void> {
  const call = { path: ['v1', 'operations'], needs: ['items'] };
  const { json } = await ask<ReplyOf<typeof listOperationsSchema>>(flags, call);
  if (!flags.json)
    printItems(json.items, {
      ID: 'id',
      KIND: 'kind',
      STATE: 'state',
      FILTER: filterText,
      MATCHED: 'matched',
      DONE: 'done',
      SKIPPED: 'skipped',
      FAILED: 'failed',
      BY: 'actor',
      'CREATED AT': instantOf('createdAt'),
    });
}

async function show(id: string, flags: DaemonOptions): Promise<void> {
  const { text } = await clientOf(flags).call({ path: ['v1', 'operations', id] });
  printData(flags.json ? text : JSON.stringify(JSON.parse(text), null, 2));
}

async function stopOne(id: string, flags: DaemonOptions): Promise<void> {
  const path = ['v1', 'operations', id];
  const { json } = await ask<OperationJson>(flags, { method: 'DELETE', path, needs: ['state', 'done'] });
  if (!flags.json) say(`dq: operation ${id} is ${json.state}; ${json.done} jobs were moved`);
}

function filterText({ filter }: OperationJson): string {
  const parts = Object.entries(filter).map(([name, value]) => `${name}=${value}`);
  return parts.length === 0 ? 'all' : parts.join(' ');
}
