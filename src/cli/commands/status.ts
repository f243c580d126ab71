// dq status: what runs, as the master itself sees it; works while the HTTP API does not.

import type { Command } from 'commander';
import { formatDuration } from '../../core/duration.ts';
import { askMaster } from '../../master/control-client.ts';
import type { DaemonStatus } from '../../master/control-protocol.ts';
import { Exit } from '../exit.ts';
import type { DaemonFlags } from '../find-daemon.ts';
import { dataDirOf } from '../find-daemon.ts';
import { printData, printTable, say } from '../output.ts';

interface StatusFlags extends DaemonFlags {
  readonly json?: boolean;
}

export function register(program: Command): void {
  program
    .command('status')
    .description('show the processes of the daemon (exit 3 when it is not running)')
    .option('--data-dir <dir>', 'its data directory (DQ_DATA_DIR)')
    .option('-c, --config <file>', 'configuration that names the data directory')
    .option('--json', 'one JSON object')
    .action(status);
}

async function status(flags: StatusFlags): Promise<void> {
  const dataDir = dataDirOf(flags, process.env);
  const answered = await askMaster(dataDir, { cmd: 'status' });
  if (answered === null) throw new Exit('notRunning', `no daemon is running on ${dataDir}`);
  const found = answered.answers.find((answer) => 'status' in answer);
  if (found === undefined) throw new Exit('failed', 'the daemon did not answer');
  if (flags.json) printData(JSON.stringify(found.status));
  else show(found.status);
}

function show(daemon: DaemonStatus): void {
  const up = formatDuration(Math.floor((Date.now() - daemon.startedAt) / 1000) * 1000);
  say(
    `dq ${daemon.version}: ${daemon.state} for ${up}, ${daemon.url ?? 'no server listens'}, ${daemon.dataDir}`,
  );
  if (daemon.durability !== null) say(`durability: ${daemon.durability}`);
  printTable(
    ['PROCESS', 'PID', 'STATE', 'CPU %', 'RSS MiB', 'IN FLIGHT', 'RESTARTS'],
    daemon.processes.map((one) => [
      one.title,
      String(one.pid),
      one.state,
      one.cpuPercent.toFixed(1),
      (one.rssBytes / 1024 / 1024).toFixed(1),
      String(one.inFlight),
      String(one.restarts),
    ]),
  );
}
