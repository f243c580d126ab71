import { configDefaults, defineConfig } from 'vitest/config';
import { compileSrc } from './scripts/tests/compiled-src.ts';
import { topicFormFile, topicFormText } from './scripts/topic-form.ts';

/** `npm run test:slow`, not part of `npm test`: what a newcomer's change seldom breaks, or what takes minutes. */
const slow = [
  // Kills, full disks, broken networks
  'test/fault/*.test.ts',
  'test/role/{endpoints-broken,endpoints-kept,intake-failures,notifier-neighbours,store-death}.test.ts',
  // The suite again on further stores
  'test/conformance/{redis-journaled,redis-shards}.test.ts',
  'test/role/{journal-audit,journal-fsck,journal-late,journal-recorder,journal-ship}.test.ts',
  'test/role/{journal-shards,registry-mysql,restore-operation}.test.ts',
  // Processes that wait for real limits, that reload, or that share servers
  'test/role/{broker,console-system,incidents,intake-body-budget,intake-connections,intake-drain,mailer}.test.ts',
  'test/role/{compat-php,compat-http,grpc}.test.ts',
  'test/clients/*.test.ts',
  'test/system/compat.test.ts',
  'test/role/{console-access,operations,queued-lookups,remove-topic,services}.test.ts',
  'test/role/{store-maintenance,test-call}.test.ts',
  'test/system/{console,console-glance,console-jobs,console-screens,console-secrets}.test.ts',
  'test/system/{console-shell,console-system,console-topics,journal-views}.test.ts',
  'test/system/{alerts,container,crash-loop,endpoints,first-start,front-door,left-behind}.test.ts',
  'test/system/{mysql,process-death,reload,reload-*,restart}.test.ts',
  'test/system/{secrets,shards,signals,small-profile,start,stop,systemd}.test.ts',
  // Every command of the manual and of the command line, where the unit and role tests show most of it
  'test/system/{apply,cli-answers,cli-daemon,cli-offline,doctor,examples,exit-codes}.test.ts',
  'test/system/{logs,manual,metrics,move,no-deliveries,package,pull,tokens}.test.ts',
];
/** Part of `npm run test:all` only: long random runs, mutants, and servers in their full extent, which are worth
 *  their time before a release. */
const release = [
  'test/conformance/{model,mutants,random-operations}.test.ts',
  'test/conformance/{redis-groups,redis-random,redis-whole}.test.ts',
  'test/role/{intake-bad-input,schedule-zones}.test.ts',
  'test/fault/{broker-daemon,journal-daemon,redis-groups-daemon,redis-tls}.test.ts',
  'test/fault/{registry-gone-back,standby,total-queue-stores}.test.ts',
  'test/system/{bench,deb,fuzz-http,generated-client,hung-names,import,instances}.test.ts',
  'test/system/{many-topics,service}.test.ts',
  // Every screen in every size, colour and language; the calls of the page with many jobs
  'test/system/{console-all-widths,console-looks,console-scale}.test.ts',
];
const include = {
  unit: ['test/unit/*.test.ts'],
  roles: ['test/{conformance,role}/*.test.ts'],
  processes: ['test/{clients,fault,system}/*.test.ts'],
};

// Without --mode every test can be named: `npx vitest run test/fault/kill.test.ts`.
export default defineConfig(async ({ mode }) => {
  const src = ['main', 'slow', 'release'].includes(mode) ? await compileSrc() : null;
  const common = {
    plugins: [
      ...(src === null ? [] : [src.plugin]),
      // As in the build: a script is the text of its file, and the console's page has the topic fields.
      {
        name: 'topic-form',
        load: (id: string) => (topicFormFile.test(id) ? topicFormText(id) : null),
      },
      {
        name: 'files-as-text',
        transform: (code: string, id: string) =>
          /\.(lua|proto)$/.test(id) ? `export default ${JSON.stringify(code)}` : null,
      },
    ],
  };
  const settings = {
    pool: 'forks',
    // A worker has one process: to load the code of dq for each file would take longer than the tests of most.
    isolate: false,
    server: { deps: { external: src === null ? [] : [src.external] } },
    setupFiles: ['./test/support/own-process.ts'],
    // Deadlines, not measurements: a slow or busy machine takes many times as long as a quiet one.
    testTimeout: 300_000,
    hookTimeout: 300_000,
  };
  const unit = { ...settings, name: 'unit', include: include.unit };
  const listed = mode === 'slow' ? slow : mode === 'release' ? release : null;
  const left = mode === 'main' ? [...slow, ...release] : mode === 'slow' ? release : [];
  const roles = {
    ...settings,
    name: 'roles',
    include: listed ?? include.roles,
    exclude: [...configDefaults.exclude, ...left, ...include.processes],
  };
  // The longest, so they begin: vitest takes the projects by their names.
  const processes = {
    ...settings,
    name: 'processes',
    include: listed ?? include.processes,
    exclude: [...configDefaults.exclude, ...left, ...include.roles],
  };
  return {
    test: {
      globalSetup: ['./test/support/services-setup.ts'],
      // More than the cores of a small machine: tests mostly wait for processes, sockets and leases. Kills and
      // broken networks need the processor more.
      maxWorkers: mode === 'main' ? 5 : mode === 'slow' ? 4 : 3,
      reporters: ['default', './test/support/summary-reporter.ts'],
      projects: (listed === null ? [unit, roles, processes] : [roles, processes]).map((test) => ({
        ...common,
        test,
      })),
    },
  };
});
