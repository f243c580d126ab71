// Checks values against each other, the machine and the rules of libraries. Pure: the caller passes facts
// about the machine.

import ipaddr from 'ipaddr.js';
import { isMailAddress, parseAlertHook } from '../core/alert-receiver.ts';
import { parseBroker } from '../core/broker.ts';
import { readZone } from '../core/calendar.ts';
import type { Parsed } from '../core/duration.ts';
import { parseRange } from '../core/egress-policy.ts';
import { limits } from '../core/limits.ts';
import { scopes } from '../core/token.ts';
import { parseRedisUrl, uncheckedSentence } from '../core/url/redis-url.ts';
import { parseMysqlUrl, parsePublicUrl, parseSmtpUrl } from '../core/url/server-url.ts';
import { leastDescriptors } from './open-files.ts';
import { type Config, compatPortOptions, compatPortsOf, fitsJournal, type OptionName } from './options.ts';
import type { ConfigProblem } from './parse.ts';

interface Machine {
  /** open files that one process may have; null when unknown */
  readonly openFilesMax: number | null;
}

export type Origins = { readonly [K in OptionName]: string };

export function crossCheck(
  config: Config,
  origins: Origins,
  machine: Machine,
): { readonly problems: ConfigProblem[]; readonly warnings: ConfigProblem[] } {
  const problems: ConfigProblem[] = [];
  const warnings: ConfigProblem[] = [];
  const problem = (name: OptionName, message: string) =>
    problems.push({ where: origins[name], message: `${name}: ${message}` });
  const warning = (name: OptionName, message: string) =>
    warnings.push({ where: origins[name], message: `${name}: ${message}` });

  const zone = readZone(config.timezone);
  if (!zone.ok) problem('timezone', zone.message);
  for (const name of ['egress.allow', 'egress.deny', 'compat.allow'] as const)
    for (const range of config[name]) {
      const parsed = parseRange(range);
      if (!parsed.ok) problem(name, `"${range}" ${parsed.message}`);
    }

  checkConsole(config, problem);
  checkCompat(config, problem);
  checkRedis(config, problem, warning);
  checkMail(config, problem, warning);
  checkHooks(config, problem);
  checkBrokers(config, problem, warning);
  checkMysql(config, problem, warning);
  checkJournal(config, problem);
  if (config.standby && !hasBoth(config))
    problem('standby', 'needs redis and mysql.url, which the instances share; set both, or remove it');
  if (origins['journal.mode'] === 'default' && hasBoth(config) && !fitsJournal(config))
    warning(
      'journal.mode',
      'is off, because limits.bodyBytes is above 1mib or history.retention below 1h; set it to off to accept that jobs that Redis loses are lost',
    );
  if (config['egress.policy'] === 'allowlist' && config['egress.allow'].length === 0)
    warning('egress.allow', 'is empty with egress.policy allowlist: dq can call nothing');
  const needed = leastDescriptors(config['notifier.slots']);
  if (machine.openFilesMax !== null && needed > machine.openFilesMax)
    warning(
      'notifier.slots',
      `needs about ${needed} file descriptors in each notifier; the limit is ${machine.openFilesMax} (ulimit -n)`,
    );
  return { problems, warnings };
}

function checkConsole(config: Config, problem: Report): void {
  const port = config['console.port'];
  if (config['console.enabled'] && port !== null && port !== 0 && port === config['server.port'])
    problem('console.port', `${port} is the port of the HTTP API (server.port); choose another one`);
  const publicUrl = config['console.publicUrl'];
  const parsed = publicUrl === '' ? null : parsePublicUrl(publicUrl);
  if (parsed?.ok === false) problem('console.publicUrl', parsed.message);
}

function checkCompat(config: Config, problem: Report): void {
  const ports = compatPortsOf(config);
  const others: [OptionName, number | null][] = [['server.port', config['server.port']]];
  if (config['console.enabled']) others.push(['console.port', config['console.port']]);
  for (const { protocol, port } of ports) {
    const name = compatPortOptions[protocol];
    const other = others.find(([, taken]) => port !== 0 && taken === port)?.[0];
    if (other !== undefined) problem(name, `${port} is also the port of ${other}; choose another one`);
    others.push([name, port]);
  }
  for (const scope of config['compat.scopes'])
    if (!(scopes as readonly string[]).includes(scope))
      problem('compat.scopes', `unknown scope "${scope}"; write ${scopes.join(', ')}`);
  const host = config['compat.host'];
  if (ports.length > 0 && !isLoopback(host) && config['compat.allow'].length === 0 && !config.noAuth)
    problem(
      'compat.host',
      `${host} can be reached from other machines; list the callers in compat.allow, or add --no-auth to accept every caller while no access token exists`,
    );
}

function checkRedis({ redis }: Config, problem: Report, warning: Report): void {
  for (const [i, url] of redis.entries()) {
    const parsed = parseRedisUrl(url);
    if (!parsed.ok) problem('redis', redis.length > 1 ? `item ${i + 1} ${parsed.message}` : parsed.message);
    else if (!parsed.value.verifyTls) warning('redis', uncheckedSentence(parsed.value.shown));
  }
}

type Report = (name: OptionName, message: string) => void;

function checkMail(config: Config, problem: Report, warning: Report): void {
  const url = config['smtp.url'];
  const from = config['smtp.from'];
  const server = url === '' ? null : parseSmtpUrl(url);
  if (server?.ok === false) problem('smtp.url', server.message);
  if (server?.ok && !server.value.verifyTls)
    warning(
      'smtp.url',
      'dq does not check the certificate of the mail server (tls.rejectUnauthorized=false)',
    );
  if (url !== '' && from === '') problem('smtp.url', 'needs smtp.from, the sender address of mails');
  if (url === '' && from !== '') problem('smtp.from', 'needs smtp.url, the mail server');
  if (from !== '' && !isMailAddress(from))
    problem('smtp.from', `invalid mail address "${from}"; write one such as dq@example.org`);
  for (const address of config['alerts.emails'])
    if (!isMailAddress(address))
      problem('alerts.emails', `invalid mail address "${address}"; write one such as ops@example.org`);
  if (config['alerts.emails'].length > limits.topicEmailsMax)
    problem('alerts.emails', `must be at most ${limits.topicEmailsMax} addresses`);
  if (url === '' && config['alerts.emails'].length > 0)
    warning('alerts.emails', 'has no effect without smtp.url');
}

function checkHooks(config: Config, problem: Report): void {
  const hooks = named('alerts.hooks', config['alerts.hooks'].map(parseAlertHook), '', problem);
  const names = hooks.map(({ name }) => name);
  if (config['alerts.hooks'].length > limits.alertHooksMax)
    problem('alerts.hooks', `must be at most ${limits.alertHooksMax} hooks`);
  for (const name of config['alerts.defaultHooks'])
    if (!names.includes(name))
      problem('alerts.defaultHooks', `"${name}" is not a name of alerts.hooks; add the hook there`);
}

function checkBrokers(config: Config, problem: Report, warning: Report): void {
  const remedy = '; give one of them another name';
  for (const { name, secure, verifyTls } of named(
    'brokers',
    config.brokers.map(parseBroker),
    remedy,
    problem,
  ))
    if (secure && !verifyTls)
      warning('brokers', `dq does not check the certificate of ${name} (tls.rejectUnauthorized=false)`);
  if (config.brokers.length > limits.brokersMax)
    problem('brokers', `must be at most ${limits.brokersMax} brokers`);
}

/** The valid items of a list. Each needs a name of its own. */
function named<T extends { readonly name: string }>(
  option: OptionName,
  items: readonly Parsed<T>[],
  remedy: string,
  problem: Report,
): readonly T[] {
  const valid: T[] = [];
  for (const [i, item] of items.entries()) {
    if (!item.ok) problem(option, `item ${i + 1} ${item.message}`);
    else if (valid.some(({ name }) => name === item.value.name))
      problem(option, `"${item.value.name}" is named twice${remedy}`);
    else valid.push(item.value);
  }
  return valid;
}

function checkMysql(config: Config, problem: Report, warning: Report): void {
  const url = config['mysql.url'];
  const server = url === '' ? null : parseMysqlUrl(url);
  if (server?.ok === false) problem('mysql.url', server.message);
  if (server?.ok && server.value.tls === 'unverified')
    warning('mysql.url', 'dq does not check the certificate of MySQL (tls.rejectUnauthorized=false)');
}

const hasBoth = (config: Config): boolean => config.redis.length > 0 && config['mysql.url'] !== '';

function checkJournal(config: Config, problem: Report): void {
  if (config['journal.mode'] === 'off') return;
  if (!hasBoth(config))
    problem(
      'journal.mode',
      'sync needs redis and mysql.url; the embedded store syncs every job itself: remove this option',
    );
  if (config['limits.bodyBytes'] > limits.journalBodyBytesMax)
    problem('limits.bodyBytes', 'must be at most 1mib with journal.mode');
  if (config['history.retention'] < limits.journalHistoryMsMin)
    problem('history.retention', 'must be at least 1h with journal.mode');
}

export function isLoopback(host: string): boolean {
  if (host === 'localhost') return true;
  return ipaddr.isValid(host) && ipaddr.process(host).range() === 'loopback';
}
