// Reads the file of `dq apply`: topics and schedules by the members of the API, and the globs that bound
// --prune. Fills in variables of the environment. Checks everything that needs no daemon, and collects each
// mistake with its line and column.

import { Value } from 'typebox/value';
import { isAlias, isMap, isScalar, isSeq, type Node, type Pair, visit } from 'yaml';
import { parseYaml, type YamlText } from '../../config/config-file.ts';
import type { ConfigProblem } from '../../config/parse.ts';
import { ScheduleInput as ScheduleBody } from '../../contract/api/schedule.ts';
import { DqError, type FieldError } from '../../core/errors.ts';
import type { ScheduleRecord } from '../../core/schedule.ts';
import { unknownName } from '../../core/suggest.ts';
import { matchesGlob } from '../../core/token.ts';
import { anyPolicy } from '../../core/topic/field-kinds.ts';
import { parseTopicInput, type TopicInput } from '../../core/topic/settings.ts';
import { wallNow } from '../../runtime/time.ts';
import { newSchedule, type ScheduleInput } from '../../use-cases/change-schedule.ts';
import { withCaret } from '../output/output.ts';

type Json = Readonly<Record<string, unknown>>;
type Environment = Readonly<Record<string, string | undefined>>;

/** A topic or schedule of the file. */
interface Entry {
  readonly name: string;
  /** its members as the API takes them, with the variables filled in */
  readonly json: Json;
  /** members whose values come from the environment, and that no output shows */
  readonly hidden: ReadonlySet<string>;
  /** the mistake of a member, with its place */
  problem(error: FieldError): ConfigProblem;
}

export interface TopicEntry extends Entry {
  readonly input: TopicInput;
}

export interface ScheduleEntry extends Entry {
  readonly input: ScheduleInput;
  /** as dq would store a new one */
  readonly record: ScheduleRecord;
}

export interface TopicsFile {
  /** globs of topics; null: the file has none */
  readonly scope: readonly string[] | null;
  readonly topics: readonly TopicEntry[];
  readonly schedules: readonly ScheduleEntry[];
  /** the parts without a value; `topics: {}` has one */
  readonly lacks: readonly string[];
}

export function isInScope(scope: readonly string[], topic: string): boolean {
  return scope.some((glob) => matchesGlob(glob, topic));
}

const parts = ['scope', 'topics', 'schedules'];

/** The members whose texts may name variables, with all texts inside them. */
const withVariables: ReadonlySet<string> = new Set(['secret', 'headers', 'callbackUrl']);

/** `label`: of the file, in messages. A file with problems may lack entries. */
export function readTopicsFile(
  text: string,
  label: string,
  env: Environment,
): { readonly file: TopicsFile; readonly problems: readonly ConfigProblem[] } {
  const yaml = parseYaml(text, label);
  const unreadable = [...yaml.problems, ...nodeProblems(yaml)];
  const empty = { scope: null, topics: [], schedules: [], lacks: parts };
  if (unreadable.length > 0) return { file: empty, problems: unreadable };
  const reader = new Reader(yaml, env);
  return { file: reader.read(), problems: reader.problems };
}

class Reader {
  readonly problems: ConfigProblem[] = [];
  readonly #yaml: YamlText;
  readonly #env: Environment;

  constructor(yaml: YamlText, env: Environment) {
    this.#yaml = yaml;
    this.#env = env;
  }

  read(): TopicsFile {
    const root = this.#yaml.document.contents as Node | null;
    const members = this.#members(root, root, `must have the members ${parts.join(', ')}`);
    for (const { key, name } of members)
      if (!parts.includes(name))
        this.#report(key, `${name}: ${unknownName('member', name, parts, 'leave it out')}`);
    const part = (name: string) => members.find((one) => one.name === name);
    const scope = this.#scope(part('scope'));
    const topics = this.#entries(part('topics'), readTopic);
    const schedules = this.#entries(part('schedules'), readSchedule);
    for (const entry of topics) this.#requireScope(scope, entry, entry.name, '');
    for (const entry of schedules) this.#requireScope(scope, entry, entry.record.topic, 'topic');
    return {
      scope,
      topics,
      schedules,
      lacks: parts.filter((name) => isEmpty(part(name)?.value ?? null)),
    };
  }

  #report(at: Node | null, message: string): void {
    this.problems.push({ where: this.#yaml.whereOf(at?.range?.[0] ?? 0), message });
  }

  #members(node: Node | null, at: Node | null, otherwise: string): readonly Member[] {
    const members = membersOf(node);
    if (members === null) this.#report(at, otherwise);
    return members ?? [];
  }

  #scope(part: Member | undefined): readonly string[] | null {
    const given: unknown = part?.value?.toJS(this.#yaml.document) ?? null;
    if (part === undefined || given === null) return null;
    if (Array.isArray(given) && given.every((glob) => typeof glob === 'string' && glob !== '')) return given;
    this.#report(part.key, 'scope: must be a list of globs of topics, such as [order.*]');
    return null;
  }

  /** --prune of this file would never remove what is outside. */
  #requireScope(scope: readonly string[] | null, { problem }: Entry, topic: string, field: string): void {
    if (scope === null || isInScope(scope, topic)) return;
    this.problems.push(problem({ field, message: `${topic} is outside the scope of this file` }));
  }

  #entries<T extends Entry>(part: Member | undefined, read: (entry: Entry) => T): readonly T[] {
    if (part === undefined) return [];
    const named = this.#members(part.value, part.key, `${part.name}: must be a list of "name: …"`);
    return named.flatMap((one) => this.#entry(one, part.name, read) ?? []);
  }

  /** null: it has a mistake. */
  #entry<T extends Entry>(member: Member, part: string, read: (entry: Entry) => T): T | null {
    const { key, name, value } = member;
    const before = this.problems.length;
    const unfilled: string[] = [];
    const json: Record<string, unknown> = {};
    const members = this.#members(value, key, `${name}: must be a list of "member: value"`);
    if (this.problems.length > before) return null;
    const hidden = new Set<string>();
    for (const one of members) {
      const plain: unknown = one.value === null ? null : one.value.toJS(this.#yaml.document);
      const value = part === 'topics' ? this.#filled(one, plain, unfilled) : plain;
      if (value !== plain) hidden.add(one.name);
      defineMember(json, one.name, value);
    }
    const problem = (error: FieldError): ConfigProblem => {
      const at = placeOf(value, key, error.field);
      return { where: this.#yaml.whereOf(at?.range?.[0] ?? 0), message: sentence(error, json) };
    };
    try {
      const entry = read({ name, json, hidden, problem });
      return this.problems.length === before ? entry : null;
    } catch (error) {
      if (!(error instanceof DqError) || error.code !== 'invalid') throw error;
      // A value without its variable has no other mistake to tell.
      const others = error.errors.filter(({ field }) => !unfilled.some((one) => isStartOf(one, field)));
      this.problems.push(...others.map(problem));
      return null;
    }
  }

  /** `plain` with its variables. `unfilled` gets the name of a member without one of them. */
  #filled({ key, name }: Member, plain: unknown, unfilled: string[]): unknown {
    if (!withVariables.has(name)) return plain;
    return filled(plain, this.#env, (message) => {
      this.#report(key, `${name}: ${message}`);
      unfilled.push(name);
    });
  }
}

function nodeProblems({ document, whereOf }: YamlText): readonly ConfigProblem[] {
  const problems: ConfigProblem[] = [];
  const report = (at: Node | null, message: string) =>
    problems.push({ where: whereOf(at?.range?.[0] ?? 0), message });
  visit(document, {
    // An alias could name its own ancestor, or expand a small file without bound.
    Alias: (_key, node) => {
      report(node, 'aliases are not supported; write the value here, and a glob such as "*.close" in quotes');
    },
    // The number 007 would name the topic 7.
    Pair: (_index, { key }) => {
      if (isAlias(key) || (isScalar(key) && typeof key.value === 'string')) return;
      report(
        key as Node | null,
        `${(isScalar(key) && key.source) || 'this name'}: is not a text in YAML; write it in quotes`,
      );
    },
  });
  return problems;
}

interface Member {
  readonly key: Node | null;
  readonly name: string;
  readonly value: Node | null;
}

const isEmpty = (node: Node | null): boolean => node === null || (isScalar(node) && node.value === null);

/** Without a value: no members. null: no map. */
function membersOf(node: Node | null): readonly Member[] | null {
  if (node === null || isEmpty(node)) return [];
  if (!isMap(node)) return null;
  return (node.items as Pair<Node | null, Node | null>[]).map(({ key, value }) => ({
    key,
    name: String(isScalar(key) ? key.value : key),
    value,
  }));
}

/** Also one with the name __proto__, which the checks then reject. */
function defineMember(json: Record<string, unknown>, name: string, value: unknown): void {
  Object.defineProperty(json, name, { value, enumerable: true, writable: true, configurable: true });
}

function readTopic(entry: Entry): TopicEntry {
  refuseName(entry, 'topic');
  const parsed = parseTopicInput({ ...entry.json, topic: entry.name }, anyPolicy, true, true);
  if (!parsed.ok) throw parsed.error;
  return { ...entry, input: parsed.input };
}

const scheduleMembers: Json = ScheduleBody.properties;

function readSchedule(entry: Entry): ScheduleEntry {
  refuseName(entry, 'name');
  const json = { name: entry.name, ...entry.json };
  const names = Object.keys(scheduleMembers);
  const unknown = Object.keys(json).filter((name) => !names.includes(name));
  const errors = [
    ...unknown.map((field) => ({ field, message: unknownName('field', field, names, 'leave it out') })),
    ...Value.Errors(ScheduleBody, json).flatMap(schemaMistakes),
  ];
  if (errors.length > 0) throw new DqError('invalid', entry.name, { errors });
  const { name, ...input } = json as { readonly name: string } & ScheduleInput;
  // The daemon has its own time zone for a schedule that names none.
  return { ...entry, input, record: newSchedule(name, input, 'UTC', wallNow()) };
}

/** A mistake by the schema, by the name of its member. Unknown members have their own sentence. */
function schemaMistakes({ keyword, instancePath, params, message }: SchemaError): readonly FieldError[] {
  const field = instancePath.slice(1).replaceAll('/', '.');
  const names = (member: string) => params[member] as readonly string[];
  switch (keyword) {
    case 'boolean':
    case 'additionalProperties':
      return [];
    case 'required':
      return names('requiredProperties').map((name) => ({ field: name, message: 'is required' }));
    case 'enum':
      return [{ field, message: `must be one of ${names('allowedValues').join(', ')}` }];
    case 'pattern':
      // The description instead of a regular expression: a person can act on it.
      return [{ field, message: `must be ${Object(scheduleMembers[field]).description}` }];
    default:
      return [{ field, message }];
  }
}

interface SchemaError {
  readonly keyword: string;
  readonly instancePath: string;
  readonly params: object & Readonly<Record<string, unknown>>;
  readonly message: string;
}

function refuseName({ json }: Entry, member: string): void {
  if (!Object.hasOwn(json, member)) return;
  const errors = [{ field: member, message: 'stands before the colon of this entry; leave it out' }];
  throw new DqError('invalid', member, { errors });
}

/** Begins a variable. */
const open = '${';

/** `value` with the variables of all its texts, also in a map. `fail` takes the message of a mistake. */
function filled(value: unknown, env: Environment, fail: (message: string) => void): unknown {
  if (typeof value === 'string')
    return value.replace(/\$\$\{|\$\{([^}]*)(\}?)/g, (whole, name: string | undefined, end: string) => {
      if (name === undefined) return open;
      const isName = end === '}' && /^[A-Za-z_]\w*$/.test(name);
      if (!isName) fail(`"${open}" begins a variable; write ${open}NAME}, or $${open} for the text`);
      else if (env[name] === undefined) fail(`${name} is not set`);
      // Many build servers give an empty text for a secret that they lack.
      else if (env[name] === '') fail(`${name} is empty`);
      return env[name] ?? whole;
    });
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  const json: Record<string, unknown> = {};
  for (const [name, one] of Object.entries(value)) defineMember(json, name, filled(one, env, fail));
  return json;
}

/** `backoff[1]`, `headers.x-a`: the part of `node` that the file has there, or the nearest one around it. */
function placeOf(node: Node | null, at: Node | null, field: string): Node | null {
  if (isSeq(node)) {
    const [whole = '', index = ''] = /^\[(\d+)\]\.?/.exec(field) ?? [];
    const item = node.items[Number(index)] as Node | undefined;
    return whole === '' || item === undefined ? at : placeOf(item, item, field.slice(whole.length));
  }
  // A name of a header may have dots.
  const [member] = (membersOf(node) ?? [])
    .filter(({ name }) => isStartOf(name.toLowerCase(), field.toLowerCase()))
    .sort((a, b) => b.name.length - a.name.length);
  if (member === undefined) return at;
  return placeOf(member.value, member.key, field.slice(member.name.length).replace(/^\./, ''));
}

const isStartOf = (name: string, field: string): boolean =>
  field.startsWith(name) && /^($|[.[])/.test(field.slice(name.length));

function sentence({ field, message, position }: FieldError, json: Json): string {
  const source = Object.hasOwn(json, field) ? json[field] : undefined;
  const at = field === '' ? '' : `${field}: `;
  const caret =
    position === undefined || typeof source !== 'string' ? '' : `\n${withCaret(source, position)}`;
  return `${at}${message}${caret}`;
}
