// dq doctor: checks this machine and the configuration, before a start or beside a running daemon. Leaves no
// change.
// Each check is a function of src/cli/doctor; this file orders them.

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
    .description('check this machine and the configuration')
    .option('-c, --config <file>', 'instead of $DQ_CONFIG, ./dq.yaml, /etc/dq/dq.yaml')
    .option('--data-dir <dir>', 'data directory instead of the configured one (DQ_DATA_DIR)')
    .option('--json', 'a list of {check, state, about}')
    .addHelpText(
      'after',
      '\nExit codes: 1 a check failed, 75 Redis or MySQL is unavailable, 78 configuration',
    )
    .action(doctor);
}

/** An exception in one check is a finding; the other checks go on. */
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
  const finding = of('configuration');
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
        ? [finding('ok', file ?? 'no file; defaults and environment')]
        : warnings.map((warning) => finding('warning', formatProblem(warning)))),
      ...(await findingsOf('clock', () => [checkClock(config.dataDir, Date.now())])),
      ...(await findingsOf('data directory', () => checkDataDirectory(config.dataDir))),
      ...(await findingsOf('log directory', () => [checkLogDirectory(config.logDir)])),
      ...mysql.findings,
      ...redis.findings,
      ...(await findingsOf('daemon', () => checkDaemon(config))),
    );
  } else
    findings.push(
      ...loaded.problems.map((problem) => finding('failed', formatProblem(problem))),
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
