// dq doctor: whether this machine and this configuration are fit for dq, before a start or beside a running daemon. Changes nothing
// that stays. Each check is a function of src/cli/doctor; this file puts them in order.

import type { Command } from 'commander';
import { formatProblem } from '../../config/given.ts';
import { loadConfig } from '../../config/load.ts';
import { options } from '../../config/options.ts';
import { reasonOf } from '../../core/errors.ts';
import { checkDaemon } from '../doctor/daemon.ts';
import { checkDataDirectory, checkLogDirectory } from '../doctor/directories.ts';
import { type Finding, of } from '../doctor/finding.ts';
import { checkClock, checkLibrary, checkNode, checkOpenFiles, readLimits } from '../doctor/machine.ts';
import { checkMysql } from '../doctor/mysql.ts';
import { checkRedis } from '../doctor/redis.ts';
import { Exit } from '../exit.ts';
import { printData, printTable } from '../output/output.ts';

interface DoctorFlags {
  readonly config?: string;
  readonly dataDir?: string;
  readonly json?: boolean;
}

export function register(program: Command): void {
  program
    .command('doctor')
    .description(
      'check this machine and the configuration; 1 when something is wrong, 75 when Redis or MySQL is away, 78 for the configuration',
    )
    .option('-c, --config <file>', 'instead of $DQ_CONFIG, ./dq.yaml, /etc/dq/dq.yaml')
    .option('--data-dir <dir>', 'instead of the configured one (DQ_DATA_DIR)')
    .option('--json', 'a list of {check, state, about}')
    .action(doctor);
}

/** A check that this machine does not let finish has found something, too, and the others are still wanted. */
async function findingsOf(
  check: string,
  look: () => readonly Finding[] | Promise<readonly Finding[]>,
): Promise<readonly Finding[]> {
  try {
    return await look();
  } catch (error) {
    return [of(check)('failed', reasonOf(error))];
  }
}

async function doctor(flags: DoctorFlags): Promise<void> {
  const { dataDir } = flags;
  const loaded = loadConfig({
    flags: { dataDir },
    env: process.env,
    cwd: process.cwd(),
    file: flags.config,
  });
  const say = of('configuration');
  const findings: Finding[] = [
    checkNode(process.version),
    await checkLibrary(),
    checkOpenFiles(
      readLimits(),
      loaded.ok ? loaded.config['notifier.slots'] : options['notifier.slots'].default,
    ),
  ];
  let isReached = true;
  if (loaded.ok) {
    const { config, file, warnings } = loaded;
    const mysql = await checkMysql(config);
    const redis = await checkRedis(config, mysql.registryId);
    isReached = mysql.isReached && redis.isReached;
    findings.push(
      ...(warnings.length === 0
        ? [say('ok', file ?? 'no file; the defaults and the environment')]
        : warnings.map((warning) => say('warning', formatProblem(warning)))),
      ...(await findingsOf('clock', () => [checkClock(config.dataDir, Date.now())])),
      ...(await findingsOf('data directory', () => checkDataDirectory(config.dataDir))),
      ...(await findingsOf('log directory', () => [checkLogDirectory(config.logDir)])),
      ...mysql.findings,
      ...redis.findings,
      ...(await findingsOf('daemon', () => checkDaemon(config))),
    );
  } else
    findings.push(
      ...loaded.problems.map((problem) => say('failed', formatProblem(problem))),
      checkClock(null, Date.now()),
    );
  if (flags.json) printData(JSON.stringify(findings));
  else
    printTable(
      ['CHECK', 'STATE', 'FINDING'],
      findings.map(({ check, state, about }) => [check, state, about]),
    );
  const failed = findings.filter(({ state }) => state === 'failed').length;
  if (!loaded.ok) throw new Exit('badConfiguration', 'the configuration is wrong');
  if (failed > 0)
    throw new Exit(
      isReached ? 'failed' : 'storeUnreachable',
      `${failed} of ${findings.length} checks failed`,
    );
}
