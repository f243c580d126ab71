// dq op: operations, which the daemon works on by itself.

import type { Command } from 'commander';
import type { DaemonOptions } from '../daemon/daemon-options.ts';
import { clientOf, withDaemonOptions } from '../daemon/daemon-options.ts';
import { printData, printTable, say } from '../output/output.ts';

interface Operation {
  readonly id: string;
  readonly kind: string;
  readonly state: string;
  readonly filter: Readonly<Record<string, unknown>>;
  readonly matched: number | null;
  readonly done: number;
  readonly skipped: number;
  readonly failed: number;
  readonly actor: string;
  readonly createdAt: string;
}

export function register(program: Command): void {
  const family = program.command('op').description('operations: bulk work on jobs that dq does by itself');
  withDaemonOptions(family.command('ls').description('list the last operations, newest first')).action(list);
  const get = family.command('get').description('show an operation').argument('<id>');
  withDaemonOptions(get).action(show);
  const stop = family
    .command('stop')
    .description('stop an operation; moved jobs stay moved')
    .argument('<id>');
  withDaemonOptions(stop).action(stopOne);
}

async function list(flags: DaemonOptions): Promise<void> {
  const { text, json } = await clientOf(flags).call<{ items: readonly Operation[] }>({
    method: 'GET',
    path: ['v1', 'operations'],
    needs: ['items'],
  });
  if (flags.json) {
    printData(text);
    return;
  }
  printTable(
    ['ID', 'KIND', 'STATE', 'FILTER', 'MATCHED', 'DONE', 'SKIPPED', 'FAILED', 'BY', 'CREATED AT'],
    json.items.map((one) => [
      one.id,
      one.kind,
      one.state,
      filterText(one),
      one.matched === null ? '' : String(one.matched),
      String(one.done),
      String(one.skipped),
      String(one.failed),
      one.actor,
      one.createdAt,
    ]),
  );
}

async function show(id: string, flags: DaemonOptions): Promise<void> {
  const { text } = await clientOf(flags).call({ method: 'GET', path: ['v1', 'operations', id] });
  printData(flags.json ? text : JSON.stringify(JSON.parse(text), null, 2));
}

async function stopOne(id: string, flags: DaemonOptions): Promise<void> {
  const { text, json } = await clientOf(flags).call<Operation>({
    method: 'DELETE',
    path: ['v1', 'operations', id],
    needs: ['state', 'done'],
  });
  if (flags.json) printData(text);
  else say(`dq: operation ${id} is ${json.state}; ${json.done} jobs were moved`);
}

function filterText({ filter }: Operation): string {
  const parts = Object.entries(filter).map(([name, value]) => `${name}=${value}`);
  return parts.length === 0 ? 'all' : parts.join(' ');
}
