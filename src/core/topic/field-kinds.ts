// The kinds of topic fields. A kind gives a field its parser and its JSON schema from the same bounds, the
// text of the bounds for the manual, and its form on the command line. A parser never coerces: "5" is no
// number, so a typo cannot become a setting. It returns the value, or rejects it under the field's name with
// a remedy and returns undefined. Messages show the value, except of fields that can hold secrets.

import { hookNamePattern, isMailAddress, mailAddressPattern } from '../alert-receiver.ts';
import { durationExamples, durationPattern, formatDuration, parseDuration } from '../duration.ts';
import type { EgressPolicy } from '../egress-policy.ts';
import type { FieldErrors } from '../errors.ts';
import { limits } from '../limits.ts';
import { evaluateRule, parseAgainAfter, parseRule, type Rule } from '../rule/reply-rule.ts';

/** Decides whether dq may call a URL, knows the brokers and hooks of the configuration by name, and for how
 *  long ended jobs stay visible. */
export type TopicPolicy = Pick<EgressPolicy, 'refusesUrl'> & {
  readonly brokers: ReadonlyMap<string, unknown>;
  readonly hooks: ReadonlySet<string>;
  /** history.retention, ms */
  readonly historyMs: number;
};

/** Accepts every URL, broker, hook and window: of a client, which does not know those of the daemon. */
export const anyPolicy: TopicPolicy = {
  refusesUrl: () => null,
  brokers: Object.assign(new Map<string, unknown>(), { has: () => true }),
  hooks: Object.assign(new Set<string>(), { has: () => true }),
  historyMs: Number.POSITIVE_INFINITY,
};

type FieldParser<T> = (
  value: unknown,
  field: string,
  errors: FieldErrors,
  policy: TopicPolicy,
) => T | undefined;

/** `Json`: the value in the API's JSON */
export interface TopicField<T = unknown, Json = T> {
  /** How the command line reads the flag's text: as it is, as a number, comma-separated, `name: value`, as a
   *  backoff, as a target. */
  readonly kind: 'text' | 'number' | 'boolean' | 'list' | 'headers' | 'backoff' | 'target';
  readonly parse: FieldParser<T>;
  /** the value in the API's JSON; as it is when absent */
  print?(value: T): Json;
  /** JSON schema of the value in the API */
  readonly schema: Readonly<Record<string, unknown>>;
  /** the accepted values in the manual, Markdown; '' where `help` names them */
  readonly bounds: string;
  /** absent: every topic must name a value */
  readonly default?: T;
  /** one sentence for the manual, /openapi.json and the command line: at most 70 characters, no full stop */
  readonly help: string;
  /** further sentences for the manual and /openapi.json */
  readonly more?: string;
  /** the default in the manual, where another field changes it */
  readonly defaultText?: string;
  /** of `dq topic add` and `dq topic set`, as commander declares it: '--delay <duration>' */
  readonly flag?: string;
  /** deliveries that use the field; each when absent. A topic of another delivery must not have a value */
  readonly usedBy?: readonly Delivery[];
  /** a topic of another delivery may have a value, and keeps it */
  readonly isKept?: true;
  /** absent: of the topic itself, shown before the groups */
  readonly group?: FieldGroup;
  /** look in the form of the console */
  readonly form?: FormLook;
}

export type Delivery = 'push' | 'pull' | 'mq';

/** Titles of the groups in which help, manual and `dq topic get` show the fields, in this order. */
export const fieldGroups = {
  call: 'Call',
  verdict: 'Verdict',
  retry: 'Retries',
  limits: 'Limits',
  after: 'After the end',
  alerts: 'Alerts and people',
} as const;
export type FieldGroup = keyof typeof fieldGroups;

/** `first`: before the groups, which are folded; `wide`: both columns; `mono`: a code, not words */
type LookWord = 'first' | 'wide' | 'mono';
type FormLook = LookWord | 'first wide' | 'wide mono' | 'first wide mono' | 'first mono';

export type More = Pick<TopicField, 'flag' | 'more' | 'defaultText' | 'usedBy' | 'isKept' | 'group' | 'form'>;

/** The items of each group, in the order of the groups; those without a group first, under null. */
export function byGroup<T>(
  items: readonly T[],
  groupOf: (item: T) => FieldGroup | undefined,
): readonly (readonly [title: string | null, items: readonly T[]])[] {
  const groups = Object.entries(fieldGroups).map(([group, title]) => [group, title] as const);
  return [[undefined, null] as const, ...groups]
    .map(([group, title]) => [title, items.filter((item) => groupOf(item) === group)] as const)
    .filter(([, own]) => own.length > 0);
}

/** All sentences of a field for the manual and /openapi.json. */
export function textOf({ help, more, usedBy }: TopicField): string {
  const deliveries = usedBy?.map((delivery) => `\`${delivery}\``).join(' or ');
  const only = deliveries === undefined ? undefined : `Only with delivery ${deliveries}`;
  return [help, only, more].filter((text) => text !== undefined).join('. ');
}

/** The value in a message: JSON, at most 40 characters. Nested ones can be too deep for JSON.stringify. */
function shown(value: unknown): string {
  if (value === undefined) return 'nothing';
  const text = typeof value === 'object' && value !== null ? 'this value' : JSON.stringify(value);
  return text.length > 40 ? `${text.slice(0, 40)}…` : text;
}

/** Text for consoles, tables and mails: without control characters. */
export function text(max: number, byDefault: string, help: string, more: More = {}): TopicField<string> {
  return {
    ...more,
    help,
    default: byDefault,
    kind: 'text',
    bounds: `at most ${max} characters`,
    schema: { type: 'string', maxLength: max },
    parse: (value, field, errors) => {
      if (typeof value !== 'string') return errors.reject(field, `must be a string, not ${shown(value)}`);
      const { length } = [...value];
      if (length > max) return errors.reject(field, `must be at most ${max} characters, not ${length}`);
      if (/\p{Cc}|\p{Cs}/u.test(value))
        return errors.reject(field, 'must be text without control characters or line breaks');
      return value;
    },
  };
}

export const topicNamePattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;
export const topicNameRule = `must be 1 to ${limits.topicNameMax} of A-Z a-z 0-9 . _ - and begin with a letter or digit`;

/** Another topic; '' = none. The registry knows whether it exists. */
export function topicName(help: string, more: More = {}): TopicField<string> {
  return {
    ...more,
    help,
    default: '',
    kind: 'text',
    bounds: 'name of a registered topic',
    schema: { type: 'string', maxLength: limits.topicNameMax },
    parse: (value, field, errors) => {
      if (value === '' || (typeof value === 'string' && topicNamePattern.test(value))) return value;
      return errors.reject(field, topicNameRule);
    },
  };
}

export function choice<const T extends string>(
  choices: readonly T[],
  byDefault: NoInfer<T>,
  help: string,
  more: More = {},
): TopicField<T> {
  const list = choices.map((item) => `"${item}"`).join(', ');
  return {
    ...more,
    help,
    default: byDefault,
    kind: 'text',
    bounds: choices.map((item) => `\`${item}\``).join(', '),
    schema: { enum: choices },
    parse: (value, field, errors) =>
      choices.find((item) => item === value) ??
      errors.reject(field, `must be one of ${list}, not ${shown(value)}`),
  };
}

export function boolean(byDefault: boolean, help: string, more: More = {}): TopicField<boolean> {
  return {
    ...more,
    help,
    default: byDefault,
    kind: 'boolean',
    bounds: '`true`, `false`',
    schema: { type: 'boolean' },
    parse: (value, field, errors) =>
      typeof value === 'boolean' ? value : errors.reject(field, `must be true or false, not ${shown(value)}`),
  };
}

type NumberKind = 'integer' | 'number';

/** A field of whole numbers, or of any numbers. */
function numberOf(type: NumberKind) {
  return (
    min: number,
    max: number,
    byDefault: number,
    help: string,
    more: More = {},
  ): TopicField<number> => ({
    ...more,
    help,
    default: byDefault,
    kind: 'number',
    bounds: `${min} to ${max}`,
    schema: { type, minimum: min, maximum: max },
    parse: (value, field, errors) => readNumber(value, field, errors, min, max, type),
  });
}

export const integer = numberOf('integer');
export const fraction = numberOf('number');

export function readNumber(
  value: unknown,
  field: string,
  errors: FieldErrors,
  min: number,
  max: number,
  type: NumberKind = 'number',
): number | undefined {
  const isKind = typeof value === 'number' && (type === 'number' || Number.isInteger(value));
  if (isKind && value >= min && value <= max) return value;
  const kind = type === 'integer' ? 'whole number' : 'number';
  return errors.reject(field, `must be a ${kind} from ${min} to ${max}, not ${shown(value)}`);
}

export const durationSchema = {
  type: ['string', 'integer'],
  description: `a duration such as ${durationExamples}; of numbers 0 alone`,
  minimum: 0,
  maximum: 0,
  pattern: durationPattern,
};

/** milliseconds; durations such as "30s" in the API */
export function duration(
  minMs: number,
  maxMs: number,
  byDefaultMs: number,
  help: string,
  more: More = {},
): TopicField<number, string> {
  return {
    ...more,
    help,
    default: byDefaultMs,
    kind: 'text',
    bounds: `${formatDuration(minMs)} to ${formatDuration(maxMs)}`,
    schema: durationSchema,
    parse: (value, field, errors) => readDuration(value, field, errors, minMs, maxMs),
    print: formatDuration,
  };
}

export function readDuration(
  value: unknown,
  field: string,
  errors: FieldErrors,
  minMs: number,
  maxMs: number,
): number | undefined {
  const parsed = parseDuration(value);
  if (!parsed.ok) return errors.reject(field, parsed.message);
  if (parsed.value >= minMs && parsed.value <= maxMs) return parsed.value;
  const range = `${formatDuration(minMs)} to ${formatDuration(maxMs)}`;
  return errors.reject(field, `must be from ${range}, not ${formatDuration(parsed.value)}`);
}

/** A time after the end of a job in which a push of its id stores nothing; 0 = none. */
export function idempotencyWindow(help: string, more: More = {}): TopicField<number, string> {
  return {
    ...more,
    help,
    default: 0,
    kind: 'text',
    bounds: `0, or ${formatDuration(limits.windowMsMin)} to \`history.retention\``,
    schema: durationSchema,
    parse: (value, field, errors, { historyMs }) => readWindow(value, field, errors, historyMs),
    print: formatDuration,
  };
}

/** dq knows the end of a job for historyMs. */
export function readWindow(
  value: unknown,
  field: string,
  errors: FieldErrors,
  historyMs: number,
): number | undefined {
  const parsed = parseDuration(value);
  if (!parsed.ok) return errors.reject(field, parsed.message);
  const { value: ms } = parsed;
  if (ms > historyMs)
    return errors.reject(field, `must be at most history.retention (${formatDuration(historyMs)})`);
  if (ms === 0 || ms >= limits.windowMsMin) return ms;
  return errors.reject(field, `must be 0, or at least ${formatDuration(limits.windowMsMin)}`);
}

/** The callback URL as the WHATWG parser writes it: dq dials what it has checked here. '' = none, in JSON
 *  null. settings.ts knows which topics need one. */
export function url(max: number, help: string, more: More = {}): TopicField<string, string | null> {
  return {
    ...more,
    help,
    default: '',
    kind: 'text',
    bounds: `at most ${max} characters`,
    schema: { type: ['string', 'null'], format: 'uri', maxLength: max },
    print: (value) => (value === '' ? null : value),
    parse: (value, field, errors, policy) => {
      if (value === null) return '';
      const reason = typeof value === 'string' ? urlProblem(value, max, policy) : 'must be a string';
      return reason === null ? new URL(value as string).href : errors.reject(field, reason);
    },
  };
}

/** Never the URL itself: a query can hold a credential. */
function urlProblem(value: string, max: number, policy: TopicPolicy): string | null {
  // The WHATWG parser drops blanks, tabs and line breaks silently.
  if (/[\s\p{Cc}\p{Cs}]/u.test(value)) return 'must not contain blanks; percent-encode them';
  // Templates of other queues; the parser encodes them silently.
  if (/[{}]/.test(value))
    return 'must not contain { or }: dq fills in no placeholder and sends the id as the header dq-job-id; write %7B or %7D for a brace';
  if (/^https?:\/\/unix:\//i.test(value))
    return 'must name a host: dq calls no Unix socket; let the receiver listen on 127.0.0.1';
  if (!URL.canParse(value) || value.length > max)
    return `must be an http or https URL of at most ${max} characters, such as http://127.0.0.1:9000/close`;
  const parsed = new URL(value);
  if (parsed.protocol !== 'http:' && parsed.protocol !== 'https:')
    return 'must begin with http:// or https://';
  if (parsed.username !== '' || parsed.password !== '')
    return 'must not contain a user name or password; use headers';
  if (parsed.hash !== '') return 'must not have a fragment (#…); HTTP never sends it';
  if (parsed.port === '0') return 'must not have port 0';
  if (parsed.href.length > max) return `must be at most ${max} characters when percent-encoded`;
  const reason = policy.refusesUrl(parsed);
  return reason === null ? null : `may not be called: ${reason}`;
}

/** Source of a rule on the reply; '' = no rule. A mistake is rejected with its position. `problemOf`: what
 *  else is wrong with it. */
export function rule(
  help: string,
  more: More = {},
  problemOf: (rule: Rule) => string | null = () => null,
): TopicField<string> {
  return {
    ...more,
    help,
    default: '',
    kind: 'text',
    bounds: `at most ${limits.ruleCharsMax} characters`,
    schema: { type: 'string', maxLength: limits.ruleCharsMax },
    parse: (value, field, errors) => {
      if (typeof value !== 'string') return errors.reject(field, `must be a string, not ${shown(value)}`);
      const parsed = value === '' ? null : parseRule(value);
      if (parsed === null) return value;
      if (!parsed.ok) return errors.reject(field, parsed.message, parsed.position);
      const problem = problemOf(parsed.rule);
      return problem === null ? value : errors.reject(field, problem);
    },
  };
}

/** What a gateway answers while its receiver is down or slow. */
const gatewayErrors = [502, 503, 504];

/** Of a rule that ends jobs: one status may be meant, two are an outage. */
export function endsInOutage(rule: Rule): string | null {
  for (const attempt of [1, limits.attemptsMax]) {
    const [one, other] = gatewayErrors.filter((status) =>
      evaluateRule(rule, { status, attempt, text: '', header: () => null }),
    );
    if (other !== undefined)
      return `is true for an empty ${one} and ${other}, so a gateway error would end jobs; compare with ==. For jobs that end at their first failure, use maxAttempts 1 and no deadIf`;
  }
  return null;
}

/** Source of the wait of a snooze; '' = none. */
export function againAfter(help: string, more: More = {}): TopicField<string> {
  return {
    ...more,
    help,
    default: '',
    kind: 'text',
    bounds: 'a duration, or one reference with a unit',
    schema: { type: 'string', maxLength: limits.ruleCharsMax },
    parse: (value, field, errors) => {
      const isValid =
        typeof value === 'string' &&
        value.length <= limits.ruleCharsMax &&
        (value === '' || parseAgainAfter(value) !== null);
      return isValid
        ? value
        : errors.reject(
            field,
            'must be a duration such as 10m, or one reference with a unit such as {res.retry_in}s',
          );
    },
  };
}

const statusPattern = /^[245](xx|\d\d)$/;

/** HTTP statuses and classes: "204", "2xx". */
export function statuses(
  max: number,
  byDefault: readonly string[],
  help: string,
  more: More = {},
): TopicField<readonly string[]> {
  return {
    ...more,
    help,
    default: byDefault,
    kind: 'list',
    bounds: `1 to ${max} of \`"2xx"\`, \`"404"\` …`,
    schema: {
      type: 'array',
      items: { type: 'string', pattern: statusPattern.source },
      minItems: 1,
      maxItems: max,
    },
    parse: (value, field, errors) => {
      if (!Array.isArray(value) || value.length === 0 || value.length > max)
        return errors.reject(
          field,
          `must be a list of 1 to ${max} statuses or classes, such as ["2xx", "404"]`,
        );
      return listOf(value, field, errors, (item) => {
        if (typeof item === 'string' && statusPattern.test(item)) return null;
        const hint = typeof item !== 'object' && /^3/.test(String(item)) ? '; a 3xx is always a failure' : '';
        return `must be a status such as "204" or a class such as "2xx", not ${shown(item)}${hint}`;
      });
    },
  };
}

export function mailAddresses(max: number, help: string, more: More = {}): TopicField<readonly string[]> {
  return {
    ...more,
    help,
    default: [],
    kind: 'list',
    bounds: `at most ${max} addresses`,
    schema: { type: 'array', items: { type: 'string', pattern: mailAddressPattern.source }, maxItems: max },
    parse: (value, field, errors) => {
      if (!Array.isArray(value) || value.length > max)
        return errors.reject(field, `must be a list of at most ${max} addresses`);
      return listOf(value, field, errors, (item) =>
        isMailAddress(item) ? null : `must be a mail address such as ops@example.org, not ${shown(item)}`,
      );
    },
  };
}

export function hookNames(max: number, help: string, more: More = {}): TopicField<readonly string[]> {
  return {
    ...more,
    help,
    default: [],
    kind: 'list',
    bounds: `at most ${max} names`,
    schema: { type: 'array', items: { type: 'string', pattern: hookNamePattern.source }, maxItems: max },
    parse: (value, field, errors, { hooks }) => {
      if (!Array.isArray(value) || value.length > max)
        return errors.reject(field, `must be a list of at most ${max} names of alerts.hooks`);
      return listOf(value, field, errors, (item) => hookProblem(item, hooks));
    },
  };
}

/** Shows names only: another item may be a URL with a credential. */
function hookProblem(item: unknown, hooks: TopicPolicy['hooks']): string | null {
  if (typeof item !== 'string' || !hookNamePattern.test(item))
    return 'must be the name of a hook of alerts.hooks, such as ops';
  if (hooks.has(item)) return null;
  return hooks.size === 0
    ? `alerts.hooks has no "${item}"; add it to the configuration of dq, and reload`
    : `alerts.hooks has no "${item}"; configured: ${[...hooks].join(', ')}`;
}

/** `problemOf` returns the message of a bad item, or null. */
function listOf(
  items: readonly unknown[],
  field: string,
  errors: FieldErrors,
  problemOf: (item: unknown) => string | null,
): readonly string[] | undefined {
  const problems = items.map(problemOf);
  for (const [index, problem] of problems.entries())
    if (problem !== null) errors.reject(`${field}[${index}]`, problem);
  return problems.every((problem) => problem === null) ? (items as readonly string[]) : undefined;
}

const headerName = /^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$/;
const headerValue = /^[\x21-\x7e]([\x20-\x7e\t]*[\x21-\x7e])?$|^$/;
/** Hop-by-hop headers and headers that dq sets. dq sends every header that it accepts. */
const reservedHeaders = new Set([
  ...['connection', 'keep-alive', 'proxy-connection', 'proxy-authenticate', 'proxy-authorization', 'te'],
  ...['trailer', 'transfer-encoding', 'upgrade', 'expect', 'host', 'content-length', 'content-type'],
  ...['accept-encoding', 'user-agent', '__proto__'],
]);

/** Header values by lower-case names: two spellings of one header would both be sent. */
export function headers(
  max: number,
  valueMax: number,
  help: string,
  more: More = {},
): TopicField<Readonly<Record<string, string>>> {
  return {
    ...more,
    help,
    default: {},
    kind: 'headers',
    bounds: `at most ${max}, values at most ${valueMax} characters`,
    schema: {
      type: 'object',
      additionalProperties: { type: 'string', maxLength: valueMax },
      maxProperties: max,
    },
    parse: (value, field, errors) => {
      if (typeof value !== 'object' || value === null || Array.isArray(value))
        return errors.reject(field, 'must be an object of header names and values');
      const entries = Object.entries(value);
      if (entries.length > max)
        return errors.reject(field, `must be at most ${max} headers, not ${entries.length}`);
      const accepted = new Map<string, string>();
      for (const [name, item] of entries) {
        const problem = headerProblem(name, item, valueMax, accepted);
        if (problem === null) accepted.set(name.toLowerCase(), item as string);
        else errors.reject(`${field}.${name}`, problem);
      }
      return accepted.size === entries.length ? Object.fromEntries(accepted) : undefined;
    },
  };
}

/** Never the value: it can be a credential. */
function headerProblem(
  name: string,
  value: unknown,
  valueMax: number,
  accepted: ReadonlyMap<string, string>,
): string | null {
  const lower = name.toLowerCase();
  if (!headerName.test(name)) return 'invalid header name; use letters, digits and -';
  if (reservedHeaders.has(lower) || /^(webhook|dq)-/.test(lower)) return 'reserved header; leave it out';
  if (accepted.has(lower)) return 'duplicate header; names ignore case, write it once';
  if (typeof value === 'string' && value.length <= valueMax && headerValue.test(value)) return null;
  return `must be at most ${valueMax} visible ASCII characters, without blanks around them`;
}
