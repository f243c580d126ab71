// dq reload: the running daemon loads the configuration and the code on the disk without a pause. Prints the
// messages of the daemon and waits for the result.

import type { Command } from 'commander';
import { askDaemon } from '../daemon/ask-daemon.ts';
import type { DaemonFlags } from '../daemon/find-daemon.ts';
import { dataDirOf } from '../daemon/find-daemon.ts';
import { Exit, exitCodes } from '../exit.ts';
import { cliLimits } from '../limits.ts';
import { say } from '../output/output.ts';

export function register(program: Command): void {
  program
    .command('reload')
    .description('load changed configuration and code without a pause')
    .option('--data-dir <dir>', 'data directory of the daemon (DQ_DATA_DIR)')
    .option('-c, --config <file>', 'configuration that names the data directory')
    .action(reload);
}

async function reload(flags: DaemonFlags): Promise<void> {
  const dataDir = dataDirOf(flags, process.env);
  let rejection: string | null = null;
  const answered = await askDaemon(dataDir, { cmd: 'reload' }, cliLimits.reloadAnswerMs, (answer) => {
    if ('message' in answer) say(`dq: ${answer.message}`);
    else if ('refused' in answer) rejection = answer.refused;
  });
  if (rejection !== null)
    throw new Exit('failed', `the reload was rejected, nothing has changed: ${rejection}`);
  if (answered.exit === exitCodes.partlyFailed)
    throw new Exit('partlyFailed', 'the reload is not complete yet');
  if (answered.exit !== exitCodes.ok) throw new Exit('failed', 'the daemon ended during the reload');
}
