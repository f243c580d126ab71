// dq apply: makes topics and schedules as a file has them.

import { readFileSync } from 'node:fs';
import type { Command } from 'commander';
import { type ConfigProblem, formatProblem } from '../../config/given.ts';
import { makeChanges } from '../apply/make-changes.ts';
import { type Change, makePlan, nameOf, pruneScope, readStored } from '../apply/plan.ts';
import { readTopicsFile } from '../apply/topics-file.ts';
import { clientOf, type DaemonOptions, daemonCommand } from '../daemon/daemon-options.ts';
import { Exit } from '../exit.ts';
import { agree, colors, escapeControls, printData, say } from '../output/output.ts';

interface Flags extends DaemonOptions {
  readonly file: string;
  readonly prune?: boolean;
  readonly dryRun?: boolean;
  readonly check?: boolean;
}

export function register(program: Command): void {
  daemonCommand(program, 'apply', 'make topics and schedules as a file has them', apply)
    .requiredOption('-f, --file <file>', 'YAML or JSON, as dq export writes it; - = standard input')
    .option('--prune', 'remove what the scope of the file has and the file lacks')
    .option('--dry-run', 'show the differences; change nothing')
    .option('--check', 'as --dry-run; exit with 1 if there are any')
    .option('-y, --yes', 'do not ask')
    .option('--json', 'the differences as JSON')
    .addHelpText(
      'after',
      `
Examples:
  dq export > dq-topics.yaml
  dq apply -f dq-topics.yaml --dry-run
  REMIND_SECRET=whsec_… dq apply -f dq-topics.yaml --prune -y`,
    );
}

async function apply(flags: Flags): Promise<void> {
  const label = flags.file === '-' ? 'stdin' : flags.file;
  const text = readFileSync(flags.file === '-' ? 0 : flags.file, 'utf8');
  const { file, problems } = readTopicsFile(text, label, process.env);
  endIfWrong(label, problems);
  const prune = flags.prune ? pruneScope(file) : null;
  const client = clientOf(flags);
  const plan = await makePlan(client, file, await readStored(client), prune);
  endIfWrong(label, plan.problems);
  const { changes } = plan;
  if (flags.json) printData(JSON.stringify({ changes: changes.map(({ calls: _, ...shown }) => shown) }));
  else for (const change of changes) printData(lineOf(change));
  if (changes.length === 0) {
    say('dq: no difference');
    return;
  }
  if (flags.check) throw new Exit('failed', `dq differs from ${label}`);
  if (flags.dryRun) return;
  await agree('Apply?', flags.yes);
  await makeChanges(client, changes);
}

function endIfWrong(label: string, problems: readonly ConfigProblem[]): void {
  if (problems.length === 0) return;
  throw new Exit(
    'usage',
    [`${label} is wrong; nothing was changed`, ...problems.map(formatProblem)].join('\n'),
  );
}

const signs = { add: colors.green('+'), change: colors.yellow('~'), remove: colors.red('-') };

function lineOf(change: Change): string {
  const fields = change.fields.map(
    ({ field, before, after }) => `${field}: ${JSON.stringify(before)} → ${JSON.stringify(after)}`,
  );
  return `${signs[change.verb]} ${escapeControls([nameOf(change), ...fields].join('   '))}`;
}
