// Findings of `dq doctor`: what a check found, by a stable code with its values, and the English text of each
// code. The console has the Chinese texts of the same codes.

import { noMail } from './alert-receiver.ts';
import { filled } from './filled.ts';

const files =
  'limit {soft} (at most {hard}); with {slots} slots a notifier needs {least}, for all slow calls {full}; a server needs {server} and one for each client';
const raise = 'raise it to {wanted} (ulimit -n {wanted}[ as {user}], LimitNOFILE={wanted})';
const sync = 'fdatasync of 4 KiB: {median} ms, the slowest of {count} {worst} ms';
const broker = '{name} at {place}: {reason} ({why})';
const clock = 'the clock of {server} is {ms} ms';
const clockRemedy =
  'the clock of this machine: a restore may take an older push for the newer one; synchronise both (chrony)';
const spool = '{free} MiB free for a spool of up to {max} MiB';

/** By code. Values as in filled(). */
export const findingTexts = {
  check_failed: '{why}',

  node_ok: '{version}',
  node_old: '{version}: dq needs 20.19 or newer',
  node_ended: '{version} works but gets no security fixes any more; install the newest LTS',
  authorities_read: 'NODE_EXTRA_CA_CERTS: {file}, certificates: {count}',
  authorities_wrong: '{why}',
  sqlite_ok: 'SQLite {version}',
  sqlite_missing: 'cannot load the library: {why}; install dq again on this machine',
  files_unknown: 'cannot read the limit',
  files_ok: files,
  files_none: `${files}: ${raise}`,
  files_slow: `${files}: {fitting} of {slow} slow calls fit; ${raise}`,
  files_clients: `${files}: few clients fit; ${raise}`,
  proxy_unused:
    '{names}: dq uses no outgoing proxy; callbacks, alert hooks and mails go out directly. Receivers must be reachable from this machine without it',
  configuration_problem: '{problem}',
  configuration_file: '{file}',
  configuration_none: 'no file; defaults and environment',
  clock_behind_files:
    'the clock is behind: {file} is {seconds} s in the future; set the clock before dq starts',
  clock_ok: 'synchronized',
  clock_free: 'not synchronized with a time server; run chrony or systemd-timesyncd',
  clock_unknown: 'cannot read the synchronization (no timedatectl)',

  directory_ok: '{path}',
  directory_later: '{path} will be made',
  directory_none: '{path} is not a directory',
  directory_unusable: 'cannot use {path}: {why}',
  directory_remote: '{path} is on {system}: the store needs a local disk (locks, fsync, shared memory)',
  directory_volatile: '{path} is on {system}: a reboot loses everything',
  directory_writable: 'others may write to {path} (mode 0{mode}): chmod 700',
  log_output: 'the standard output',
  space_ok: '{free} GiB free',
  space_low: '{free} GiB free: dq rejects pushes when the disk is full',
  space_none: '{free} GiB free: a start needs {least} KiB',
  sync_ok: sync,
  sync_slow: `${sync}: every push waits for one`,
  sync_failed: 'cannot write a file to the disk: {why}',

  packet_ok: 'max_allowed_packet of MySQL is {packet}',
  packet_small: 'max_allowed_packet of MySQL is {packet}: set it to at least {least}',
  clock_ahead: `${clock} ahead of ${clockRemedy}`,
  clock_behind: `${clock} behind ${clockRemedy}`,
  spool_ok: spool,
  spool_large: `${spool}: the disk is full before the spool is; lower journal.spoolBytes`,

  mysql_ok: '{place} answers in {ms} ms, version {version}',
  mysql_failed: '{place}: {why}',
  mysql_flush:
    'innodb_flush_log_at_trx_commit is {flush}: a power cut of that machine loses changes of topics',
  mysql_characters:
    'the connection has the character set {sets} although dq asks for utf8mb4: a proxy changes it; set it to utf8mb4 there',
  mysql_column:
    '{column} has the character set {set}, which lacks emoji and rare characters: change the column to utf8mb4, as in sql/mysql/dq.sql',
  schema_ok: 'schema {step}',
  schema_later: 'the first start or dq migrate creates the tables',
  schema_old: 'schema {step}: the next start or dq migrate updates it to {newest}',
  registry_failed: '{why}',
  key_open: '{warning}',
  key_failed: '{why}',
  key_missing: "{key} is missing: without it the topics' secrets are lost",

  redis_ok: '{server} answers in {ms} ms, version {version}',
  redis_old: '{server}: {why}',
  redis_failed: '{server}: {why}',
  redis_rights: '{server} {why}',
  redis_settings_unknown: '{server}: cannot read the persistence settings ({why})',
  redis_settings: '{server}: {warning}',
  redis_clock: '{warning}',
  marker_ok: '{server} belongs to this registry: shard {shard} of {registry}',
  marker_none: '{server} has no marker yet: the first start writes it',
  marker_wrong: '{server} is not ours: {why}',
  marker_unknown: '{server} belongs to the registry {registry}; the id of the own registry is unknown',
  durability: '{durability}',

  broker_ok: '{name} at {place} accepts the connection and the login, in {ms} ms',
  broker_dns: `${broker}; check the name {host} in brokers`,
  broker_blocked: `${broker}; add the address to egress.allow, or remove it from egress.deny`,
  broker_tls: `${broker}; check that the port serves TLS, and set NODE_EXTRA_CA_CERTS for a private authority`,
  broker_refused: `${broker}; check user, password and virtual host in brokers, and the rights of the user`,
  broker_failed: `${broker}; check that the broker runs and that its port serves {type} without TLS`,
  broker_failed_tls: `${broker}; check that the broker runs and that its port serves {type} with TLS`,
  mail_ok: '{server} answers, in {ms} ms',
  mail_login: '{server} accepts the login, in {ms} ms',
  mail_failed: '{server}: {why}; no alert by mail goes out: check smtp.url, then dq alert test',
  mail_none: `${noMail} to the alert addresses of {topics}[ and {more} more]: set it, and reload`,
  hook_ok: '{name} at {place} accepts the connection, in {ms} ms',
  hook_failed: '{name} at {place}: {why}; no alert reaches it: check alerts.hooks, then dq alert test {name}',

  daemon_ready: 'dq {version}, pid {pid}, {state}, {restarts} restarts',
  daemon_none: 'not running',
  daemon_silent: 'the daemon on {directory} does not answer: {why}',
  store_failed: '{why}',
  store_later: 'the first start creates it',
  store_missing: '{files} is missing: restore a backup',
  store_foreign: '{files} is not a SQLite file',
  store_size: '{size} MiB; dq fsck checks it while dq runs',
  readyz_warning: '{warning}',
  held_none: 'no waiting jobs are held',
  held_some: 'dq calls no job of these topics: {topics}; dq explain TOPIC says what to do',
  held_unknown: '{why}',
  port_free: '{place} is free',
  port_any: 'dq will choose a free port',
  port_failed: 'cannot open {place}: {why}',
  port_taken: 'another program uses {place}',
  port_other_dq: 'a dq of another data directory serves {place}; to check it give -c or --data-dir',
} as const;

export const checkNames = [
  'node',
  'authorities',
  'sqlite',
  'open files',
  'proxy',
  'configuration',
  'clock',
  'data directory',
  'disk space',
  'disk sync',
  'journal',
  'log directory',
  'mysql',
  'redis',
  'broker',
  'mail server',
  'hook',
  'daemon',
  'store',
  'readyz',
  'topics',
  'port',
] as const;
export type CheckName = (typeof checkNames)[number];

export type FindingCode = keyof typeof findingTexts;

export const findingStates = ['ok', 'warning', 'failed', 'unknown'] as const;

/** A line for people, and what scripts decide by. */
export interface Finding {
  readonly check: CheckName;
  /** failed: dq does not start or breaks its guarantees · warning: dq works, but not well · unknown: not
   *  testable */
  readonly state: (typeof findingStates)[number];
  /** stable */
  readonly code: FindingCode;
  readonly values: Readonly<Record<string, string | number>>;
  /** the fact and the remedy, in English */
  readonly about: string;
}

type NamesIn<T extends string> = T extends `${string}{${infer Name}}${infer Rest}`
  ? Name | NamesIn<Rest>
  : never;
type WithoutOptional<T extends string> = T extends `${infer A}[${string}]${infer B}`
  ? `${A}${WithoutOptional<B>}`
  : T;
/** The values that the text of a code has; those in [ ] may be absent. */
type ValuesOf<C extends FindingCode> = Readonly<
  Record<NamesIn<WithoutOptional<(typeof findingTexts)[C]>>, string | number> &
    Partial<Record<NamesIn<(typeof findingTexts)[C]>, string | number>>
>;

export type Judge = <C extends FindingCode>(
  state: Finding['state'],
  code: C,
  ...values: NamesIn<(typeof findingTexts)[C]> extends never ? [] : [ValuesOf<C>]
) => Finding;

/** Findings of one check. */
export const findingsOf =
  (check: CheckName): Judge =>
  (state, code, ...[values = {}]) => ({
    check,
    state,
    code,
    values,
    about: filled(findingTexts[code], values),
  });
