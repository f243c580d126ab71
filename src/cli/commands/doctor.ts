// dq doctor: checks this machine and the configuration, before a start or beside a running daemon. Leaves no
// change.
// Each check is a function of src/doctor; doctor/doctor.ts orders them.

import type { Command } from 'commander';
import { loadConfig } from '../../config/load.ts';
import type { SummaryJson } from '../../contract/api/stats.ts';
import type { Finding } from '../../core/finding.ts';
import type { TopicJson } from '../../core/topic/settings.ts';
import type { MailTopicReader } from '../../doctor/alert-receivers.ts';
import type { DaemonReader } from '../../doctor/daemon.ts';
import { runDoctor } from '../../doctor/doctor.ts';
import { doctorLimits } from '../../doctor/limits.ts';
import { ApiClient } from '../daemon/api-client.ts';
import { findDaemon } from '../daemon/find-daemon.ts';
import { readPages } from '../daemon/read-pages.ts';
import { Exit } from '../exit.ts';
import { printData, printItems } from '../output/output.ts';

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
    .option('--json', 'a list of {check, state, code, values, about}')
    .addHelpText(
      'after',
      '\nExit codes: 1 a check failed, 75 Redis or MySQL is unavailable, 78 configuration',
    )
    .action(doctor);
}

const reader: DaemonReader & MailTopicReader = {
  ready: (dataDir) => read(dataDir, 'readyz'),
  held: async (dataDir) => {
    const { held, at = '', now = '' } = await read<Partial<SummaryJson>>(dataDir, 'v1', 'summary');
    if (held === undefined) throw new Exit('failed', 'the daemon is older than this command: dq reload');
    return { ...held, ageMs: Date.parse(now) - Date.parse(at) };
  },
  mailTopics: async (dataDir) => {
    const client = new ApiClient(findDaemon({ dataDir }, {}));
    const names: string[] = [];
    await readPages<TopicJson>(
      client,
      { path: ['v1', 'topics'] },
      doctorLimits.mailTopicsRead,
      ({ json: { items } }) => {
        names.push(...items.filter(({ alertEmails }) => alertEmails.length > 0).map(({ topic }) => topic));
      },
    );
    return names;
  },
};

async function read<T>(dataDir: string, ...path: string[]): Promise<T> {
  const client = new ApiClient(findDaemon({ dataDir }, {}));
  return (await client.call<T>({ path })).json;
}

async function doctor(flags: DoctorFlags): Promise<void> {
  const { dataDir, config: file } = flags;
  const loaded = loadConfig({ flags: { dataDir }, env: process.env, cwd: process.cwd(), file });
  const findings: Finding[] = [];
  const isReached = await runDoctor(loaded, reader, (some) => findings.push(...some));
  if (flags.json) printData(JSON.stringify(findings));
  else printItems(findings, { CHECK: 'check', STATE: 'state', FINDING: 'about' });
  const failed = findings.filter(({ state }) => state === 'failed').length;
  if (!loaded.ok) throw new Exit('badConfiguration', 'the configuration is wrong');
  if (failed > 0)
    throw new Exit(
      isReached ? 'failed' : 'storeUnreachable',
      `${failed} of ${findings.length} checks failed`,
    );
}
