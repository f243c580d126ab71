// dq fsck: checks the invariants of the store of a running daemon, and ends with exit 1 where one is broken.
// Changes nothing.

import type { Command } from 'commander';
import type { FsckJson } from '../../contract/api/store.ts';
import { clientOf, type DaemonOptions, daemonCommand } from '../daemon/daemon-options.ts';
import { doLongWork } from '../daemon/long-work.ts';
import { Exit } from '../exit.ts';
import { printData, printItems, say } from '../output/output.ts';

export function register(program: Command): void {
  daemonCommand(program, 'fsck', 'check the store of a running daemon (exit 1 for a broken invariant)', fsck);
}

async function fsck(flags: DaemonOptions): Promise<void> {
  const start = { method: 'POST', path: ['v1', 'fsck'] } as const;
  const { text, json } = await doLongWork<FsckJson>(clientOf(flags), start, 'checking');
  reportExamination(json, text, flags.json);
}

/** A difference from a journal that waits for an instance breaks no invariant. `text`: the unchanged reply,
 *  for --json. Throws Exit. */
export function reportExamination(
  { jobs = 0, problems = [] }: FsckJson,
  text: string,
  asJson: boolean | undefined,
): void {
  if (asJson) printData(text);
  else if (problems.length > 0)
    printItems(problems, {
      INVARIANT: 'invariant',
      WHAT: 'what',
      COUNT: 'count',
      EXAMPLES: ({ examples }) => examples.join(' '),
    });
  const broken = problems.filter(({ awaits }) => awaits === undefined);
  if (broken.length > 0) throw new Exit('failed', `${broken.length} invariants of the store are broken`);
  const awaited = new Set(problems.flatMap(({ awaits = [] }) => awaits));
  if (awaited.size === 0) say(`dq: ${jobs} jobs, no problem found`);
  else
    say(
      `dq: ${jobs} jobs, none broken; the journal lacks changes of ${[...awaited].join(', ')}: start it, or give it up (dq restore --now), then check again`,
    );
}
