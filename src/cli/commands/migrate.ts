// dq migrate: updates the registry's schema in MySQL to this version, or prints it as a script for users
// without the right to create tables.
// Each start updates the embedded registry, so it needs no command.

import type { Command } from 'commander';
import { DqError, messageOf } from '../../core/errors.ts';
import { limits } from '../../core/limits.ts';
import { parseMysqlUrl, placeOf } from '../../core/url/server-url.ts';
import { kyselyOverMysql, migrateMysql } from '../../registry/sql/mysql/mysql-engine.ts';
import { MysqlConnections } from '../../registry/sql/mysql/mysql-pool.ts';
import { mysqlSchemaScript } from '../../registry/sql/schema/mysql-schema.ts';
import type { RegistrySchema } from '../../registry/sql/schema/registry-schema.ts';
import { Exit } from '../exit.ts';
import { readConfig } from '../flags.ts';
import { printData, say } from '../output/output.ts';

interface MigrateFlags {
  readonly config?: string;
  readonly mysql?: string;
  readonly printSql?: boolean;
}

export function register(program: Command): void {
  program
    .command('migrate')
    .description("update the registry's schema in MySQL")
    .option('-c, --config <file>', 'instead of $DQ_CONFIG, ./dq.yaml, /etc/dq/dq.yaml')
    .option('--mysql <url>', 'URL instead of mysql.url')
    .option('--print-sql', 'print the schema as a script for the mysql shell; change nothing')
    .action(migrate);
}

async function migrate(flags: MigrateFlags): Promise<void> {
  if (flags.printSql) {
    printData(mysqlSchemaScript().trimEnd());
    return;
  }
  const { config } = readConfig({ 'mysql.url': flags.mysql }, flags.config);
  const server = parseMysqlUrl(config['mysql.url']);
  if (!server.ok)
    throw new Exit('badConfiguration', 'mysql.url is not set; each start updates the embedded registry');
  const what = `the registry in MySQL ${placeOf(server.value)}`;
  const connections = new MysqlConnections(server.value);
  try {
    const db = kyselyOverMysql<RegistrySchema>(connections, limits.mysqlCallMs);
    const { before, after } = await migrateMysql(db, server.value, what);
    say(`dq: ${what} ${before === after ? `has schema ${after}` : `went from schema ${before} to ${after}`}`);
  } catch (error) {
    if (error instanceof DqError) throw new Exit('failed', error.message, { cause: error });
    throw new Exit('storeUnreachable', `${what}: ${messageOf(error)}`, { cause: error });
  } finally {
    await connections.close();
  }
}
