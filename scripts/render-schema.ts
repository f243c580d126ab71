// Writes the schema scripts under sql/; tests compare them with what dq creates.
import { writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { mysqlSchemaScript } from '../src/registry/sql/schema/mysql-schema.ts';
import { registrySchemaScript } from '../src/registry/sql/schema/registry-schema.ts';
import { schema } from '../src/store/sqlite/file/schema.ts';

const write = (path: string, script: string) =>
  writeFileSync(resolve(import.meta.dirname, '../sql', path), script);

write('sqlite/jobs.sql', schema);
write('sqlite/registry.sql', registrySchemaScript());
write('mysql/dq.sql', mysqlSchemaScript());
