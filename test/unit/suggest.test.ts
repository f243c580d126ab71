// Tests "did you mean": the same words for members of JSON, parameters, options, commands and variables.
import { describe, expect, it } from 'vitest';
import { frameworkProblem } from '../../src/api/http/problem.ts';
import { commandNames } from '../../src/cli/dq-command.ts';
import { buildProgram } from '../../src/cli/program.ts';
import { options } from '../../src/config/options.ts';
import { suggest } from '../../src/core/suggest.ts';
import { topicInputNames } from '../../src/core/topic/settings.ts';
import { batchMembers } from '../../src/use-cases/accept-job.ts';
import { runDqHere } from '../support/run-dq.ts';

describe('suggest', () => {
  it.each([
    ['name', 'topic'],
    ['queue', 'topic'],
    ['url', 'callbackUrl'],
    ['callback_url', 'callbackUrl'],
    ['webhook', 'callbackUrl'],
    ['retries', 'maxAttempts'],
    ['max_attempts', 'maxAttempts'],
    ['ttr', 'timeout'],
    ['tiemout', 'timeout'],
    ['rule', 'retryIf'],
    ['emails', 'alertEmails'],
    ['skip_tls_verify', 'dangerouslySkipTlsVerify'],
    ['verify', null],
    ['tls', null],
    ['tlsVerify', null],
    ['noTimeout', null],
    ['colour', null],
    ['__proto__', null],
    ['', null],
  ])('member %j of a topic: %j', (given, meant) => {
    expect(suggest(given, [...topicInputNames])).toBe(meant);
  });

  it.each([
    ['dely', 'delay'],
    ['delay_ms', 'delay'],
    ['payload', 'body'],
    ['queue', 'topic'],
    ['job_id', 'id'],
    ['runAt', 'at'],
    ['ttl', 'deadline'],
    ['priority', null],
  ])('member %j of a job: %j', (given, meant) => {
    expect(suggest(given, [...batchMembers])).toBe(meant);
  });

  it('the beginning of a name, although another one has nearer letters', () => {
    expect(suggest('sentinelpass', ['sentinelTls', 'sentinelPassword'])).toBe('sentinelPassword');
  });

  it.each([
    ['port', 'server.port'],
    ['server.prot', 'server.port'],
    ['data-dir', 'dataDir'],
    ['logDays', 'log.days'],
    ['noauth', 'noAuth'],
    ['no-deliverys', 'noDeliveries'],
    ['auth', null],
    ['deliveries', null],
  ])('option %j of the configuration: %j', (given, meant) => {
    expect(suggest(given, Object.keys(options))).toBe(meant);
  });

  it.each([
    ['requeue', 'dead requeue'],
    ['retry', 'dead requeue'],
    ['stats', 'status'],
    ['publish', 'push'],
    ['psuh', 'push'],
    ['consume', 'pull'],
    ['queues', 'topic'],
    ['pause', 'topic pause'],
    ['dlq', 'dead'],
    ['delete', 'cancel'],
    ['serve', 'start'],
    ['truncate', 'clear'],
    // Neither word says that the jobs end for good.
    ['drain', 'shard drain'],
    ['flush', null],
    ['frobnicate', null],
  ])('command %j: %j', async (given, meant) => {
    const names = commandNames(await buildProgram(null));
    expect(suggest(given, names)).toBe(meant);
  });
});

it.each(['--auth', '--console', '--deliveries'])('dq start %s: does not get its opposite', async (option) => {
  const { code, stderr } = await runDqHere(['start', option]);
  expect({ code, stderr }).toEqual({ code: 2, stderr: expect.not.stringContaining('--no-') });
});

describe('a wrong word of the command line', () => {
  it.each([
    [['requeue', 't'], '(Did you mean dq dead requeue?)\n(dq --help)'],
    [['topic', 'shw', 't'], '(Did you mean dq topic show?)\n(dq topic --help)'],
    [['topic', 'remove', 't'], '(Did you mean dq topic rm?)\n(dq topic --help)'],
    [['push', 't', '1', '--dely', '3s'], '(Did you mean --delay?)\n(dq push --help)'],
    [['push', 't', '1', '--retries', '3'], '(Did you mean --max-attempts?)\n(dq push --help)'],
    [
      ['topic', 'create', '--name', 't'],
      'Usage: dq topic add|create [options] <topic>\n(dq topic add --help)',
    ],
    [
      ['schedule', 'add', 'a', 'b'],
      'Usage: dq schedule add|create [options] <name>\n(dq schedule add --help)',
    ],
    [['get', 't'], 'Usage: dq get|show [options] <topic> <id>\n(dq get --help)'],
  ])('%j', async (words, hint) => {
    const run = await runDqHere(words);
    expect(run).toMatchObject({ code: 2, stdout: '' });
    expect(run.stderr).toContain(`\n${hint}\n`);
  });
});

describe('wrong names of a request', () => {
  const parentSchema = { properties: { name: {}, scopes: {}, expiresIn: {} }, required: ['name', 'scopes'] };
  const of = (data: object, context: string) =>
    frameworkProblem({
      validation: [{ keyword: 'required', instancePath: '', params: {}, parentSchema, data }],
      validationContext: context,
    })?.errors;

  it('all unknown and all missing ones', () => {
    expect(of({ scope: [], ttl: '3d', x: 1 }, 'body')).toEqual([
      { field: 'scope', message: 'unknown field; did you mean scopes?' },
      { field: 'ttl', message: 'unknown field; did you mean expiresIn?' },
      { field: 'x', message: 'unknown field; GET /openapi.json lists them' },
      { field: 'name', message: 'is required' },
      { field: 'scopes', message: 'is required' },
    ]);
    expect(of({ nme: 'x', scopes: 1 }, 'querystring')?.[0]).toEqual({
      field: 'nme',
      message: 'unknown query parameter; did you mean name?',
    });
  });

  it.each([
    ['', 'object', { field: 'body', message: 'must be a JSON object' }],
    ['/a/0', ['string', 'null'], { field: 'a[0]', message: 'must be a string' }],
    ['/status', 'integer', { field: 'status', message: 'must be a whole number' }],
  ])('a value of another type at %j', (instancePath, type, error) => {
    const validation = [{ keyword: 'type', instancePath, params: { type } }];
    expect(frameworkProblem({ validation, validationContext: 'body' })?.errors).toEqual([error]);
  });

  it('at most 20 unknown ones', () => {
    const many = Object.fromEntries(Array.from({ length: 10_000 }, (_, i) => [`x${i}`, 1]));
    expect(of({ ...many, name: 'x', scopes: [] }, 'body')).toHaveLength(20);
  });
});
