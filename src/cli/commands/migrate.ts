// dq migrate: brings the registry's schema in MySQL to the state that this version knows, or says what that would take, for whoever
// may not be given the right to make tables. With --encrypt-headers it also encrypts headers from before they were encrypted.
// The embedded registry is brought up to date by each start.

import { join } from 'node:path';
import type { Command } from 'commander';
import { formatProblem } from '../../config/given.ts';
import { loadConfig } from '../../config/load.ts';
import { DqError, reasonOf } from '../../core/errors.ts';
import { limits } from '../../core/limits.ts';
import { parseMysqlUrl, placeOf } from '../../core/url/mysql-url.ts';
import { existingCipher } from '../../registry/sql/keys/registry-key.ts';
import { encryptPlainHeaders } from '../../registry/sql/keys/stored-headers.ts';
import { kyselyOverMysql } from '../../registry/sql/mysql/mysql-dialect.ts';
import { mysqlEngine } from '../../registry/sql/mysql/mysql-engine.ts';
import { migrateMysql } from '../../registry/sql/mysql/mysql-migrate.ts';
import { MysqlConnections } from '../../registry/sql/mysql/mysql-pool.ts';
import { mysqlSchemaScript } from '../../registry/sql/schema/mysql-schema.ts';
import type { RegistrySchema } from '../../registry/sql/schema/registry-schema.ts';
import { Exit } from '../exit.ts';
import { printData, say } from '../output/output.ts';

interface MigrateFlags {
  readonly config?: string;
  readonly mysql?: string;
  readonly printSql?: boolean;
  readonly encryptHeaders?: boolean;
}

export function register(program: Command): void {
  program
    .command('migrate')
    .description("bring the registry's schema in MySQL up to date; changes nothing when it is")
    .option('-c, --config <file>', 'instead of $DQ_CONFIG, ./dq.yaml, /etc/dq/dq.yaml')
    .option('--mysql <url>', 'instead of mysql.url')
    .option('--encrypt-headers', 'encrypt old plain headers; every instance must have this version')
    .option('--print-sql', 'print the whole schema as a script for the mysql shell, and touch nothing')
    .action(migrate);
}

async function migrate(flags: MigrateFlags): Promise<void> {
  if (flags.printSql) {
    printData(mysqlSchemaScript().trimEnd());
    return;
  }
  const { env } = process;
  const loaded = loadConfig({
    flags: { 'mysql.url': flags.mysql },
    env,
    cwd: process.cwd(),
    file: flags.config,
  });
  if (!loaded.ok)
    throw new Exit(
      'badConfiguration',
      ['the configuration is wrong', ...loaded.problems.map(formatProblem)].join('\n'),
    );
  const server = parseMysqlUrl(loaded.config['mysql.url']);
  if (!server.ok)
    throw new Exit(
      'badConfiguration',
      'mysql.url is not set; the embedded registry is brought up to date by each start',
    );
  const what = `the registry in MySQL ${placeOf(server.value)}`;
  const connections = new MysqlConnections(server.value);
  try {
    const db = kyselyOverMysql<RegistrySchema>(connections, limits.mysqlCallMs);
    const { before, after } = await migrateMysql(db, server.value, what);
    say(`dq: ${what} ${before === after ? `has schema ${after}` : `went from schema ${before} to ${after}`}`);
    if (flags.encryptHeaders) {
      const { secretKeyFile, dataDir } = loaded.config;
      const keyPath = secretKeyFile === '' ? join(dataDir, 'secret.key') : secretKeyFile;
      const cipher = await existingCipher(db, what, { keyPath, isShared: true, warn: () => {} });
      // Without a key no topic was ever stored.
      const changed = cipher === null ? 0 : await encryptPlainHeaders(mysqlEngine(db), cipher);
      say(`dq: encrypted the headers of ${changed} topics`);
    }
  } catch (error) {
    if (error instanceof DqError) throw new Exit('failed', error.message, { cause: error });
    throw new Exit('storeUnreachable', `${what}: ${reasonOf(error)}`, { cause: error });
  } finally {
    await connections.close();
  }
}
