// Adds the options of every command that calls a daemon, and makes the client from them.

import type { Command } from 'commander';
import { ApiClient } from './api-client.ts';
import type { DaemonFlags } from './find-daemon.ts';
import { findDaemon } from './find-daemon.ts';

export interface DaemonOptions extends DaemonFlags {
  readonly json?: boolean;
}

/** `concurrency`: -c is short for --concurrency of this command. */
export function withDaemonOptions(command: Command, { concurrency = false } = {}): Command {
  return command
    .option('--url <url>', 'address of the daemon, also on another machine (DQ_URL)')
    .option('--token <token>', 'access token (DQ_TOKEN)')
    .option('--data-dir <dir>', 'data directory of a daemon on this machine (DQ_DATA_DIR)')
    .option(
      concurrency ? '--config <file>' : '-c, --config <file>',
      'configuration that names the data directory',
    )
    .option('--json', 'the API reply unchanged');
}

export function clientOf(options: DaemonOptions): ApiClient {
  return new ApiClient(findDaemon(options, process.env));
}
