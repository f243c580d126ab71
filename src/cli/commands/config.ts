// dq config: checks, shows and writes a configuration, without a daemon.

import { writeFileSync } from 'node:fs';
import type { Command } from 'commander';
import { formatProblem } from '../../config/parse.ts';
import { describeConfig, renderConfigFile } from '../../config/show.ts';
import { messageOf } from '../../core/errors.ts';
import { askMaster } from '../../master/control/control-client.ts';
import { whoElseListens } from '../daemon/find-daemon.ts';
import { Exit } from '../exit.ts';
import { readConfig } from '../flags.ts';
import { printData, printItems, say } from '../output/output.ts';

interface ConfigFlags {
  readonly config?: string;
  readonly json?: boolean;
}

export function register(program: Command): void {
  const family = program.command('config').description('check, show or write a configuration');
  const withFile = (command: Command) =>
    command.option('-c, --config <file>', 'instead of $DQ_CONFIG, ./dq.yaml, /etc/dq/dq.yaml');
  withFile(family.command('test').description('check the configuration and list all problems')).action(test);
  withFile(family.command('show').description('show every value with its origin; secrets are masked'))
    .option('--json', 'a list of {name, value, origin}')
    .action(show);
  family
    .command('init')
    .description('write a file with every option and its default, commented out')
    .argument('[file]', 'never overwritten; - writes to standard output', 'dq.yaml')
    .action(init);
}

function load(flags: ConfigFlags): ReturnType<typeof readConfig> {
  const loaded = readConfig({}, flags.config);
  for (const warning of loaded.warnings) say(`dq: ${formatProblem(warning)}`);
  return loaded;
}

async function test(flags: ConfigFlags): Promise<void> {
  const { file, config } = load(flags);
  const isThere = await askMaster(config.dataDir, { cmd: 'where' }).then(
    (answered) => answered !== null,
    () => true,
  );
  const other = isThere ? null : await whoElseListens(config);
  if (other !== null) say(`dq: warning: no daemon runs on ${config.dataDir}; ${other}`);
  say(`dq: ${file ?? 'no configuration file; defaults and environment'}: correct`);
}

async function show(flags: ConfigFlags): Promise<void> {
  const { config, origins } = load(flags);
  const rows = describeConfig(config, origins);
  if (flags.json) printData(JSON.stringify(rows));
  else printItems(rows, { OPTION: 'name', VALUE: 'value', ORIGIN: 'origin' });
}

async function init(file: string): Promise<void> {
  const text = renderConfigFile();
  if (file === '-') {
    printData(text);
    return;
  }
  try {
    writeFileSync(file, text, { flag: 'wx' });
  } catch (error) {
    throw new Exit('failed', `cannot write ${file}: ${messageOf(error)}`, { cause: error });
  }
  say(`dq: wrote ${file}`);
}
