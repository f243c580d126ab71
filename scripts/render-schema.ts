// Writes the schema scripts under sql/ from the migrations; a test compares the two.
import { writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { registrySchemaScript } from '../src/sql/registry-schema.ts';

writeFileSync(resolve(import.meta.dirname, '../sql/sqlite/registry.sql'), registrySchemaScript());
