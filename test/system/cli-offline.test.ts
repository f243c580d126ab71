// Tests the commands that need no daemon.
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { whyNotInstalled } from '../../scripts/services/binaries.ts';
import { commands } from '../../src/cli/program.ts';
import { testDirectory } from '../support/directory.ts';
import { runDq, runDqProcess } from '../support/run-dq.ts';

const root = join(import.meta.dirname, '../..');

let cwd: string;
beforeEach(() => {
  cwd = testDirectory();
});

it('dq: prints help to stdout when asked for, with 0', async () => {
  const run = await runDq(['topic', 'add', '--help'], { cwd });
  expect(run).toMatchObject({ code: 0, stderr: '' });
  expect(run.stdout).toContain('--callback');
});

describe('dq version', () => {
  it('version: --json gives version, commit, Node and platform', async () => {
    const run = await runDqProcess(['version', '--json'], { cwd });
    expect(run).toMatchObject({ code: 0, stderr: '' });
    const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
    expect(JSON.parse(run.stdout)).toEqual({
      version,
      commit: expect.stringMatching(/^([0-9a-f]{40}(-dirty)?|unknown)$/),
      node: process.version,
      platform: `${process.platform}-${process.arch}`,
    });
    expect((await runDqProcess(['--version'], { cwd })).stdout).toBe(`${version}\n`);
  });
});

describe('dq help', () => {
  const help = (...words: string[]) => runDq(['help', ...words], { cwd });
  const page = (name: string) => readFileSync(join(root, 'src/manual', name), 'utf8');

  it('help: lists every command and every page, and prints a page or the help of a command', async () => {
    const run = await help();
    expect(run).toMatchObject({ code: 0, stderr: '' });
    for (const name of Object.keys(commands)) expect(run.stdout).toMatch(new RegExp(`^  ${name}\\b`, 'm'));
    for (const line of [/\n {2}reference\/http +HTTP API\n/, /\n {2}retry-rules +Retry rules\n/])
      expect(run.stdout).toMatch(line);
    expect(await help('retry-rules')).toMatchObject({ code: 0, stdout: page('retry-rules.md') });
    for (const name of ['reference/http', 'http'])
      expect(await help(name)).toMatchObject({ code: 0, stdout: page('reference/http.md') });
    const { stdout } = await runDq(['topic', 'add', '--help'], { cwd });
    expect((await help('topic', 'add')).stdout).toBe(stdout);
    // A synonym is the command.
    expect((await runDq(['topic', 'create', '--help'], { cwd })).stdout).toBe(stdout);
    expect((await runDq(['list', '--help'], { cwd })).stdout).toContain('Usage: dq ls|list');
  });

  it.each([
    ['stats', 'status'],
    ['incidents', 'dead-letters-alerts'],
    ['retry-rule', 'retry-rules'],
  ])('help %s: suggests %s, with 2', async (name, near) => {
    const run = await help(name);
    expect(run).toMatchObject({ code: 2, stdout: '' });
    expect(run.stderr).toContain(`did you mean ${near}?`);
  });
});

describe('dq completion', () => {
  const wordsOf = (line: string) => line.replace(/ $/, " ''");
  /** A program for each shell that prints what it offers after this line and TAB. */
  const programs: Readonly<Record<string, (script: string, line: string) => string>> = {
    bash: (script, line) =>
      `${script}\nCOMP_WORDS=(${wordsOf(line)}); COMP_CWORD=$((\${#COMP_WORDS[@]} - 1)); _dq; printf '%s\\n' "\${COMPREPLY[@]}"`,
    // Without a terminal zsh has no completion system: these two functions stand for it.
    zsh: (script, line) =>
      `compdef() {}\ncompadd() { shift; print -rl -- \${(M)@:#\${words[CURRENT]}*} }\n${script}\nwords=(${wordsOf(line)}); CURRENT=\${#words}; _dq`,
    fish: (script, line) => `${script}\ncomplete -C '${line}'`,
  };

  // An installation stops after five minutes.
  const timeout = 330_000;
  it.for(Object.keys(programs))('completion %s: completes words', { timeout }, async (shell, { skip }) => {
    const why = shell === 'bash' ? null : await whyNotInstalled('shells');
    if (why !== null) skip(why);
    const { code, stdout } = await runDq(['completion', shell], { cwd });
    expect(code).toBe(0);
    const complete = (line: string) => {
      const program = programs[shell]?.(stdout, line) ?? '';
      const env = { ...process.env, HOME: cwd };
      const run = spawnSync(shell, ['-c', program], { encoding: 'utf8', cwd, env });
      expect([run.status, run.stderr]).toEqual([0, '']);
      return run.stdout.trim().split('\n').sort();
    };
    expect(complete('dq to')).toEqual(['token', 'topic']);
    expect(complete('dq topic cr')).toEqual(['create']);
    expect(complete('dq topic create a --call')).toEqual(['--callback']);
    expect(complete('dq ')).toEqual(expect.arrayContaining(Object.keys(commands)));
    if (shell !== 'fish') expect(complete('dq ')).not.toContain('--help');
  });
});

describe('dq rule test', () => {
  it('prints the value of each reference and the result', async () => {
    const run = await runDq(
      [
        ...['rule', 'test', "{res.code}!=200 && {header.X-Why}=='忙' && {status}<300 && {res.none}==null"],
        ...['--reply', '{"code":"500"}', '--status', '202', '--header', 'x-why: 忙'],
      ],
      { cwd },
    );
    expect(run).toMatchObject({ code: 0, stderr: '' });
    expect(run.stdout).toBe(
      '{res.code}      "500"\n{header.X-Why}  "忙"\n{status}        202\n{res.none}      null\nretry           yes\n',
    );
    expect((await runDq(['rule', 'test', '{res.code}!=200', '--reply', '{"code":200}'])).stdout).toMatch(
      /retry +no\n$/,
    );
  });

  it('says that the reply is not JSON where the rule reads members of it', async () => {
    const why = /^why +the reply is not JSON, so each \{res…\} is null\n$/m;
    for (const reply of ['', 'ok', '{"code":200'])
      expect((await runDq(['rule', 'test', '{res.code}!=200', '--reply', reply])).stdout).toMatch(why);
    const others = [
      ['{res.code}!=200', 'null'],
      ['{status}>=500', 'ok'],
    ] as const;
    for (const [rule, reply] of others)
      expect((await runDq(['rule', 'test', rule, '--reply', reply])).stdout).not.toContain('JSON');
  });

  it('prints one object with --json', async () => {
    const run = await runDq(['rule', 'test', '{attempt}>1', '--reply', '', '--attempt', '2', '--json'], {
      cwd,
    });
    expect(JSON.parse(run.stdout)).toEqual({ retry: true, values: { '{attempt}': 2 } });
  });

  it('shows a mistake below its place, with 1', async () => {
    const run = await runDq(['rule', 'test', "{res.msg}=='返回失败' and 1", '--reply', '{}'], { cwd });
    expect(run).toMatchObject({ code: 1, stdout: '' });
    const [message, source, caret] = run.stderr.split('\n') as [string, string, string];
    expect(message).toContain('&&');
    expect(source).toBe("  {res.msg}=='返回失败' and 1");
    // Each of the four Chinese characters takes two columns.
    expect(caret.indexOf('^')).toBe(source.indexOf('and') + 4);
  });
});

describe('dq config', () => {
  it('test: names every problem with its place, with 78', async () => {
    writeFileSync(join(cwd, 'dq.yaml'), 'server:\n  prot: 1\nretry.unit: soon\n');
    const run = await runDq(['config', 'test'], { cwd });
    expect(run).toMatchObject({ code: 78, stdout: '' });
    expect(run.stderr).toMatch(/^dq\.yaml:2:3 {2}.*server\.port/m);
    expect(run.stderr).toMatch(/^dq\.yaml:3:1 {2}.*retry\.unit/m);
    expect(await runDq(['topic', 'ls'], { cwd })).toMatchObject({
      ...{ code: 78, stderr: expect.stringContaining('dq.yaml:2:3') },
    });
  });

  it('test: names the valid file', async () => {
    writeFileSync(join(cwd, 'other.yaml'), 'server.port: 1\n');
    const run = await runDq(['config', 'test', '-c', 'other.yaml'], { cwd });
    expect(run).toMatchObject({ code: 0, stdout: '' });
    expect(run.stderr).toContain(join(cwd, 'other.yaml'));
  });

  it('show: prints the origin of each value', async () => {
    writeFileSync(join(cwd, 'dq.yaml'), 'server:\n  port: 7000\n');
    const env = { DQ_RETRY__UNIT: '5s' };
    const run = await runDq(['config', 'show'], { cwd, env });
    expect(run.code).toBe(0);
    expect(run.stdout).toMatch(/^server\.port +7000 +dq\.yaml:2:3$/m);
    expect(run.stdout).toMatch(/^retry\.unit +5s +DQ_RETRY__UNIT$/m);
    expect(run.stdout).toMatch(/^log\.days +14 +default$/m);
    const json = JSON.parse((await runDq(['config', 'show', '--json'], { cwd, env })).stdout);
    expect(json).toContainEqual({ name: 'retry.unit', value: '5s', origin: 'DQ_RETRY__UNIT' });
  });

  it('init: writes a valid file, and replaces none', async () => {
    expect((await runDq(['config', 'init'], { cwd })).code).toBe(0);
    expect((await runDq(['config', 'test'], { cwd })).code).toBe(0);
    writeFileSync(join(cwd, 'dq.yaml'), 'server.port: 1\n');
    expect((await runDq(['config', 'init'], { cwd })).code).toBe(1);
    expect(readFileSync(join(cwd, 'dq.yaml'), 'utf8')).toBe('server.port: 1\n');
    expect((await runDq(['config', 'init', '-'], { cwd })).stdout).toContain('retry');
  });
});
