// Runs the checks of `dq doctor` in their order. Leaves no change. An exception in one check is a finding;
// the other checks go on.

import type { LoadedConfig } from '../config/load.ts';
import { options } from '../config/options.ts';
import { type ConfigProblem, formatProblem } from '../config/parse.ts';
import { messageOf } from '../core/errors.ts';
import { type CheckName, type Finding, findingsOf } from '../core/finding.ts';
import { wallNow } from '../runtime/time.ts';
import { checkHooks, checkMailServer, type MailTopicReader } from './alert-receivers.ts';
import { checkBrokers } from './brokers.ts';
import { checkDaemon, type DaemonReader } from './daemon.ts';
import { checkDataDirectory, checkLogDirectory, freeBytesAt } from './directories.ts';
import { checkSpoolSpace, wantsJournal } from './journal.ts';
import {
  checkAuthorities,
  checkClock,
  checkLibrary,
  checkNode,
  checkOpenFiles,
  checkProxy,
  readLimits,
} from './machine.ts';
import { checkMysql } from './mysql.ts';
import { checkRedis } from './redis.ts';

/** The configuration to check, with its problems or warnings. */
export type Checked =
  | Pick<Extract<LoadedConfig, { readonly ok: true }>, 'ok' | 'config' | 'file' | 'warnings'>
  | Extract<LoadedConfig, { readonly ok: false }>;

/** `add` receives the findings of each check as it ends. Resolves to whether Redis and MySQL were reached. */
export async function runDoctor(
  checked: Checked,
  reader: DaemonReader & MailTopicReader,
  add: (findings: readonly Finding[]) => void,
): Promise<boolean> {
  const check = async (
    name: CheckName,
    look: () => Finding | readonly Finding[] | Promise<Finding | readonly Finding[]>,
  ): Promise<void> => {
    try {
      add([await look()].flat());
    } catch (error) {
      add([findingsOf(name)('failed', 'check_failed', { why: messageOf(error) })]);
    }
  };
  const slots = checked.ok ? checked.config['notifier.slots'] : options['notifier.slots'].default;
  await check('node', () => checkNode(process.version));
  await check('authorities', () => checkAuthorities());
  await check('sqlite', checkLibrary);
  await check('open files', () => checkOpenFiles(readLimits(), slots));
  await check('proxy', () => checkProxy(process.env));
  await check('configuration', () => configurationOf(checked));
  await check('clock', () => checkClock(checked.ok ? checked.config.dataDir : null, wallNow()));
  if (!checked.ok) return true;
  const { config } = checked;
  await check('data directory', () => checkDataDirectory(config.dataDir));
  if (wantsJournal(config))
    await check('journal', () => checkSpoolSpace(config, freeBytesAt(config.dataDir)));
  await check('log directory', () => checkLogDirectory(config.logDir));
  const mysql = await checkMysql(config);
  add(mysql.findings);
  const redis = await checkRedis(config, mysql.registryId);
  add(redis.findings);
  await check('broker', () => checkBrokers(config));
  await Promise.all([
    check('mail server', () => checkMailServer(config, reader)),
    check('hook', () => checkHooks(config)),
  ]);
  await check('daemon', () => checkDaemon(config, reader));
  return mysql.isReached && redis.isReached;
}

function configurationOf(checked: Checked): Finding[] {
  const finding = findingsOf('configuration');
  const all = (state: Finding['state'], problems: readonly ConfigProblem[]) =>
    problems.map((one) => finding(state, 'configuration_problem', { problem: formatProblem(one) }));
  if (!checked.ok) return all('failed', checked.problems);
  const { file, warnings } = checked;
  if (warnings.length > 0) return all('warning', warnings);
  return [
    file === null ? finding('ok', 'configuration_none') : finding('ok', 'configuration_file', { file }),
  ];
}
