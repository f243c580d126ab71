// dq reload: the running daemon takes the configuration and the code that are on the disk now, without a pause. Waits, and
// tells what the daemon says meanwhile.

import type { Command } from 'commander';
import { limits } from '../../core/limits.ts';
import { askDaemon } from '../daemon/ask-daemon.ts';
import type { DaemonFlags } from '../daemon/find-daemon.ts';
import { dataDirOf } from '../daemon/find-daemon.ts';
import { Exit, exitCodes } from '../exit.ts';
import { say } from '../output/output.ts';

export function register(program: Command): void {
  program
    .command('reload')
    .description('bring the changed configuration and code into force without a pause, or say why not')
    .option('--data-dir <dir>', 'its data directory (DQ_DATA_DIR)')
    .option('-c, --config <file>', 'configuration that names the data directory')
    .action(reload);
}

async function reload(flags: DaemonFlags): Promise<void> {
  const dataDir = dataDirOf(flags, process.env);
  let refused: string | null = null;
  const answered = await askDaemon(dataDir, { cmd: 'reload' }, limits.reloadAnswerMs, (answer) => {
    if ('message' in answer) say(`dq: ${answer.message}`);
    else if ('refused' in answer) refused = answer.refused;
  });
  if (refused !== null) throw new Exit('failed', `the reload was refused, nothing has changed: ${refused}`);
  if (answered.exit === exitCodes.partlyFailed) throw new Exit('partlyFailed', 'not everything works yet');
  if (answered.exit !== exitCodes.ok) throw new Exit('failed', 'the daemon ended before it had reloaded');
}
