// /openapi.json is enough to use dq from a program: the document is valid, and a client that
// openapi-typescript generates from it compiles, pushes the right bytes to a real daemon, and understands
// its replies.
import { execFile } from 'node:child_process';
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { expect, it, onTestFinished } from 'vitest';
import { sharedDaemon } from '../support/shared-daemon.ts';

const root = join(import.meta.dirname, '../..');
const program = join(root, 'test/generated-client');

/** What a script of a package prints, of the version that the user's program finds. */
async function run(name: string, script: string, args: readonly string[], cwd: string): Promise<string> {
  const directory = dirname(createRequire(join(program, 'package.json')).resolve(`${name}/package.json`));
  const ran = await promisify(execFile)(process.execPath, [join(directory, script), ...args], { cwd }).catch(
    (error: { stdout: string; stderr: string }) => {
      throw new Error(`${name} ${args.join(' ')}: ${error.stderr}${error.stdout}`);
    },
  );
  return ran.stdout;
}

// Four programs, of which two read the whole of TypeScript.
it('openapi: a generated client pushes, reads, and handles problems', { timeout: 300_000 }, async () => {
  const daemon = await sharedDaemon();
  const { body } = await daemon.api('GET', '/openapi.json');
  // Below the packages, so that the imports of the program find them.
  const directory = mkdtempSync(join(program, 'node_modules/.run-'));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  writeFileSync(join(directory, 'openapi.json'), JSON.stringify(body));
  writeFileSync(join(directory, 'package.json'), '{"type":"module"}');

  const validated = await run(
    '@seriousme/openapi-schema-validator',
    'bin/validate-api-cli.js',
    ['openapi.json'],
    directory,
  );
  expect(JSON.parse(validated)).toEqual({ valid: true });

  await run('openapi-typescript', 'bin/cli.js', ['openapi.json', '-o', 'schema.ts'], directory);
  copyFileSync(join(program, 'client.ts'), join(directory, 'client.ts'));
  const strict = ['--strict', '--noUncheckedIndexedAccess', '--exactOptionalPropertyTypes', '--skipLibCheck'];
  const modules = ['--module', 'nodenext', '--target', 'es2023', '--allowImportingTsExtensions', '--noEmit'];
  const types = ['--types', 'node', '--typeRoots', join(root, 'node_modules/@types')];
  expect(await run('typescript', 'bin/tsc', [...strict, ...modules, ...types, 'client.ts'], directory)).toBe(
    '',
  );

  const printed = await run('tsx', 'dist/cli.mjs', ['client.ts', daemon.url], directory);
  expect(JSON.parse(printed)).toEqual({
    name: 'dq',
    created: 201,
    pushed: { status: 201, id: '4711', state: 'delayed' },
    bytes: 201,
    batch: [1, 1],
    job: { body: '{"order":4711,"note":"订单"}', contentType: 'application/json' },
    raw: { bodyBase64: 'AP8=', contentType: 'application/octet-stream' },
    topic: { delay: '1h', attempts: 10, priority: 'high' },
    missing: { status: 404, code: 'topic_not_found' },
  });
});
