// `npm run sim -- …`: bundles the simulated worlds and runs them with the options of test/sim/main.ts.
// --coverage prints, after the worlds, the code of the parts under test that no world reached.

import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { bundleWorlds, nodeFlags, root } from './bundle.ts';
import { reportUnreached } from './coverage.ts';

const coverage = '--coverage';
const given = process.argv.slice(2);
const isCovered = given.includes(coverage);
const flags = given.filter((flag) => flag !== coverage);
const outfile = join(root, 'dist.sim', 'main.cjs');
const lua = await bundleWorlds({ outfile, isCounted: isCovered });

function run(env: NodeJS.ProcessEnv): void {
  const program = [...nodeFlags, outfile, ...flags];
  const { status } = spawnSync(process.execPath, program, { cwd: root, env, stdio: 'inherit' });
  process.exitCode = status ?? 1;
}

if (!isCovered) run(process.env);
else {
  const directory = mkdtempSync(join(tmpdir(), 'dq-coverage-'));
  try {
    run({ ...process.env, NODE_V8_COVERAGE: directory });
    reportUnreached(directory, outfile, lua);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}
